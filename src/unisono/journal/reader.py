"""Reads the rows of a journal: as tables, segment by segment, or as records for the judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from unisono.history.record import Record
from unisono.journal.contents import Contents, Problem, Segment, first_line, scan
from unisono.journal.records import records_of
from unisono.journal.schema import LATER, SCHEMA


def read_journal(
    journal: str | Path | Contents,
    *,
    columns: Sequence[str] | None = None,
    problems: list[Problem] | None = None,
) -> Iterator[pa.Table]:
    """The usable segments as tables, life by life in the order they were written.

    What is wrong or missing is added to `problems`, also what turns out only now: never an error in the middle.
    """
    for _, table in _tables(journal, columns, problems):
        yield table


def read_records(journal: str | Path | Contents, *, problems: list[Problem] | None = None) -> list[Record]:
    """The whole history, ready to be judged.

    A later life of a process goes on counting where the one before it ended, so that a process has one order.
    """
    records: list[Record] = []
    process, life, newest, offset = "", "", 0, 0
    for segment, table in _tables(journal, None, problems):
        label = segment.label
        if label.process != process:
            newest = offset = 0
        elif label.life != life:
            offset = newest
        process, life = label.process, label.life
        some = records_of(table)
        if offset:
            some = [msgspec.structs.replace(r, seq=r.seq + offset) for r in some]
        newest = max(newest, segment.last_seq + offset)
        records.extend(some)
    return records


def _tables(
    journal: str | Path | Contents, columns: Sequence[str] | None, problems: list[Problem] | None
) -> Iterator[tuple[Segment, pa.Table]]:
    contents = journal if isinstance(journal, Contents) else scan(journal)
    wanted = pa.schema([SCHEMA.field(name) for name in columns]) if columns is not None else SCHEMA
    found = [] if problems is None else problems
    found.extend(contents.problems)
    for segment in contents.segments:
        try:
            there = set(pq.read_schema(segment.path).names)
            names = [name for name in wanted.names if name in there or name not in LATER]
            table = pq.read_table(segment.path, columns=names, partitioning=None)
            yield segment, _conform(table, wanted)
        except (pa.ArrowException, OSError) as error:
            reason = f"{segment.path.name} is left out: its rows cannot be read ({first_line(error)})"
            found.append(Problem("corrupt", segment.path, reason))


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the very types of the schema, which other writers may not have kept."""
    for name in LATER & set(schema.names) - set(table.schema.names):
        table = table.append_column(name, pa.nulls(len(table), schema.field(name).type))
    table = table.select(schema.names)
    for i, field in enumerate(schema):
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(table.schema.field(i).type):
            table = table.set_column(i, field.name, table.column(i).dictionary_encode())
    return table.cast(schema)
