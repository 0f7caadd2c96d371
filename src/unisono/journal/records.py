"""Records as columns and back, without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from unisono.history.record import Kind, Record
from unisono.journal.schema import LATER, SCHEMA, layout_of, topics_of
from unisono.model.errors import HistoryError
from unisono.model.ids import EventId

_NO_EVENT = (None, None, None)
_NO_STAMP = (None, None)


def table_of(records: Sequence[Record], published_at: Mapping[str, float] | None = None) -> pa.Table:
    """The records as columns; `published_at` says when events were published, for those that know.

    HistoryError names a record that the columns cannot hold: an event's id that is not publisher/incarnation/n,
    a topic in a stamp with a space in it, a number that has no place in 64 bits.
    """
    if not records:
        return SCHEMA.empty_table()
    known = published_at or {}
    rows = [_row(record, known) for record in records]
    try:
        columns = [
            pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)
        ]
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise HistoryError(f"a record has a value that no column holds: {error}") from None
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _row(record: Record, published_at: Mapping[str, float]) -> tuple[Any, ...]:
    publisher, incarnation, n = _id(record)
    layout, stamp = _stamp(record)
    return (
        record.kind.value,
        record.process,
        record.subscription,
        record.seq,
        record.at,
        publisher,
        incarnation,
        n,
        record.topic or None,
        record.number,
        record.epoch,
        record.in_order,
        layout,
        stamp,
        published_at.get(record.event) if record.kind is Kind.DELIVERED else None,
        record.order or None,
        record.on_gap or None,
        record.reason or None,
        record.deadline,
        None,
    )


def _id(record: Record) -> tuple[str | None, int | None, int | None]:
    if not record.event:
        return _NO_EVENT
    try:
        publisher, incarnation, n = record.event.rsplit("/", 2)
        id = EventId(publisher, int(incarnation), int(n))
        if str(id) == record.event:
            return id
    except ValueError:
        pass
    raise HistoryError(
        f"process '{record.process}', seq {record.seq}: event '{record.event}' is not publisher/incarnation/n"
    )


def _stamp(record: Record) -> tuple[str | None, list[int] | None]:
    if record.stamp is None:
        return _NO_STAMP
    try:
        layout = layout_of(record.stamp)
    except ValueError as error:
        raise HistoryError(f"process '{record.process}', seq {record.seq}: {error}") from None
    return layout, [record.stamp[topic] for topic in topics_of(layout)]


def records_of(table: pa.Table) -> list[Record]:
    """The records in these columns; HistoryError names a row that holds none."""
    columns = [_values(table, name) for name in SCHEMA.names if name != "body"]
    layouts: dict[str, list[str]] = {}
    return [_record(row, layouts) for row in zip(*columns, strict=True)]


def _values(table: pa.Table, name: str) -> list[Any]:
    if name in LATER and name not in table.schema.names:
        return [None] * len(table)
    values: list[Any] = table.column(name).to_pylist()
    return values


def _record(row: tuple[Any, ...], layouts: dict[str, list[str]]) -> Record:
    kind, process, subscription, seq, at, publisher, incarnation, n, topic, number, epoch, in_order = row[:12]
    layout, numbers, _, order, on_gap, reason, deadline = row[12:]
    stamp = None
    try:
        if layout is not None:
            topics = layouts.get(layout) or layouts.setdefault(layout, topics_of(layout))
            stamp = dict(zip(topics, numbers, strict=True))
        return Record(
            Kind(kind),
            process,
            seq,
            at,
            "" if publisher is None else f"{publisher}/{incarnation}/{n}",
            topic or "",
            number,
            stamp,
            epoch,
            in_order,
            order or "",
            on_gap or "",
            reason or "",
            subscription,
            deadline,
        )
    except (ValueError, TypeError) as error:
        raise HistoryError(f"process '{process}', seq {seq}: not a record: {error}") from None
