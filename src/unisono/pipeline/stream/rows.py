"""Events as rows: the columns, and how slices of lanes become Arrow batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from unisono.engines.takeover.patterns import matching
from unisono.model.errors import ConfigError, GapError, PayloadError
from unisono.model.frames import Entries, Publication
from unisono.model.lanes import BundleRecord, EventRecord, LaneRecord
from unisono.model.payloads import decode
from unisono.model.runs import run_of
from unisono.pipeline.stream.link import Link
from unisono.pipeline.stream.options import SourceOptions
from unisono.pipeline.stream.plan import Slice

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ROWS_MAX = 10_000  # in one Arrow batch
RECORDS_MAX = 2_000  # asked for at once
SECOND_US = 1_000_000

_json = msgspec.json.Encoder()


def schema_of(options: SourceOptions) -> str:
    """The columns, as Spark's DDL has them."""
    columns = [
        "position BIGINT NOT NULL",
        "topic STRING NOT NULL",
        "number BIGINT NOT NULL",
        "value BINARY",
        "content STRING NOT NULL",
        "id STRING NOT NULL",
        "publisher STRING NOT NULL",
        "published_at TIMESTAMP NOT NULL",
        "in_order BOOLEAN NOT NULL",
        "deadline TIMESTAMP",
        "epoch BIGINT NOT NULL",
    ]
    if options.include_stamp:
        columns.append("stamp MAP<STRING, BIGINT> NOT NULL")
    if options.include_headers:
        columns.append("headers MAP<STRING, STRING>")
    return ", ".join(columns)


def check_columns(schema: StructType, options: SourceOptions) -> None:
    """Refuse columns that somebody has made up with `.schema(...)`."""
    ours = [column.partition(" ")[0] for column in re.split(r", (?=\w+ [A-Z])", schema_of(options))]
    if schema.fieldNames() != ours:
        raise ConfigError(
            f"the columns of the source are {', '.join(ours)}; leave .schema() out, and select from them"
        )


def arrow_of(schema: StructType) -> pa.Schema:
    """The same columns, as Spark expects them from Arrow."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


class Rows:
    """Columns that grow, until they are a batch."""

    def __init__(self, schema: pa.Schema, options: SourceOptions) -> None:
        self._schema = schema
        self._plain = options.value_format == "json"
        self._stamps = options.include_stamp
        self._headers = options.include_headers
        self._start()

    def _start(self) -> None:
        self.events: list[Publication] = []
        self.positions: list[int] = []
        self.numbers: list[int] = []
        self.epochs: list[int] = []
        self.stamps: list[Entries] = []

    def add(self, publication: Publication, position: int, epoch: int, entries: Entries) -> None:
        """One more row."""
        self.events.append(publication)
        self.positions.append(position)
        self.numbers.append(entries[publication.topic])
        self.epochs.append(epoch)
        self.stamps.append(entries)

    def __len__(self) -> int:
        return len(self.events)

    def batch(self) -> pa.RecordBatch:
        """What has come together; the next ones begin anew."""
        events, count = self.events, len(self.events)
        columns: dict[str, Any] = {
            "position": self.positions,
            "topic": [e.topic for e in events],
            "number": self.numbers,
            "value": [value_of(e) for e in events] if self._plain else [e.body for e in events],
            "content": ["data" if e.content else "bytes" for e in events],
            "id": [e.key or f"{e.publisher}/{e.incarnation}/{e.n}" for e in events],
            "publisher": [e.publisher for e in events],
            "published_at": [micros(e.published_at) for e in events],
            "in_order": [True] * count,
            "deadline": [None if e.deadline is None else micros(e.deadline) for e in events],
            "epoch": self.epochs,
        }
        if self._stamps:
            columns["stamp"] = self._maps("stamp", self.stamps)
        if self._headers:
            columns["headers"] = self._maps("headers", [e.headers or {} for e in events])
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for field, column in ((field, columns[field.name]) for field in self._schema)
        ]
        self._start()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _maps(self, name: str, maps: list[Any]) -> pa.Array:
        kind = self._schema.field(name).type
        offsets, keys, items = [0], list[str](), list[Any]()
        for each in maps:
            keys.extend(each)
            items.extend(each.values())
            offsets.append(len(keys))
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()),
            pa.array(keys, kind.key_type),
            pa.array(items, kind.item_type),
            type=kind,
        )


def value_of(publication: Publication) -> bytes:
    """The payload: bytes as they are, everything else as JSON."""
    if not publication.content:
        return publication.body
    try:
        return _json.encode(decode(publication.body, publication.content))
    except (PayloadError, TypeError, ValueError, msgspec.MsgspecError):
        return publication.body  # it has no plain form


def micros(at: float) -> int:
    """A time in microseconds; what makes no sense counts as 1970."""
    return round(at * SECOND_US) if isfinite(at) and abs(at) < 2**38 else 0


def read_slice(
    link: Link, piece: Slice, schema: pa.Schema, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, in order."""
    rows, ours = Rows(schema, options), dict[str, bool]()
    above, upto = piece.above, piece.upto
    records = link.run(_fetch(link, piece))
    for run in piece.runs:
        position = run.position
        for sequence in range(run.first, run.last + 1):
            record = records.pop((run.lane, sequence))
            for publication, entries in _events(record):
                topic = publication.topic
                if (is_ours := ours.get(topic)) is None:
                    is_ours = ours[topic] = bool(matching(piece.names, (topic,)))
                if is_ours:
                    position += 1
                    if above.get(topic, 0) < entries[topic] <= upto.get(topic, 0):
                        rows.add(publication, position, record.epoch, entries)
            if len(rows) >= ROWS_MAX:
                yield rows.batch()
    if len(rows):
        yield rows.batch()


def _events(record: LaneRecord) -> Iterable[tuple[Publication, Entries]]:
    if isinstance(record, EventRecord):
        return [(record.event.publication, record.event.entries)]
    assert isinstance(record, BundleRecord)
    run = run_of(record.bundle)
    return [(publication, run.entries(i)) for i, publication in enumerate(run.publications)]


async def _fetch(link: Link, piece: Slice) -> dict[tuple[str, int], LaneRecord]:
    """The records of a slice; a slice is so small that they fit into memory."""
    wanted: dict[str, set[int]] = {}
    for run in piece.runs:
        wanted.setdefault(run.lane, set()).update(range(run.first, run.last + 1))
    records: dict[tuple[str, int], LaneRecord] = {}
    for lane, sequences in wanted.items():
        after, last = min(sequences) - 1, max(sequences)
        while after < last:
            found, _ = await link.read(lane, after, min(RECORDS_MAX, last - after))
            if not found or found[0][0] != after + 1:
                raise GapError(
                    f"the lane '{lane}' was truncated behind {after} while it was read; keep more (--retain-records), or "
                    "read sooner"
                )
            records |= {(lane, sequence): record for sequence, record in found if sequence in sequences}
            after = found[-1][0]
    return records
