"""Single records out of a journal, by their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unisono.history import Record
from unisono.journal.records import records_of
from unisono.journal.schema import SCHEMA
from unisono.pipeline.columns import Ints
from unisono.pipeline.findings import Row
from unisono.pipeline.segments import Life


def take_rows(life: Life, places: Sequence[int]) -> pa.Table:
    """The records of a life at ascending places; segments that have none of them are not opened."""
    wanted = np.asarray(places, dtype=np.int64)
    parts: list[pa.Table] = []
    first = 0
    for segment in life.segments:
        if _between(wanted, first, segment.rows).size:
            with pq.ParquetFile(segment.path) as file:
                at = first
                for batch in file.iter_batches(columns=SCHEMA.names):
                    mine = _between(wanted, at, len(batch)) - at
                    if mine.size:
                        parts.append(pa.Table.from_batches([batch]).take(mine))
                    at += len(batch)
        first += segment.rows
    return pa.concat_tables(parts).unify_dictionaries() if parts else SCHEMA.empty_table()


def read_rows(lives: Iterable[Life], rows: Iterable[Row]) -> dict[Row, Record]:
    """The records at these places."""
    by_name = {life.name: life for life in lives}
    wanted: dict[str, set[int]] = {}
    for row in rows:
        wanted.setdefault(row.life, set()).add(row.at)
    found: dict[Row, Record] = {}
    for name, places in wanted.items():
        ordered = sorted(places)
        records = records_of(take_rows(by_name[name], ordered))
        found.update((Row(name, at), record) for at, record in zip(ordered, records, strict=True))
    return found


def _between(places: Ints, first: int, rows: int) -> Ints:
    return places[np.searchsorted(places, first) : np.searchsorted(places, first + rows)]
