"""A source and a sink as Spark drives them, without Spark: what is planned goes through JSON and pickle."""

from __future__ import annotations

import asyncio
import json
import pickle
from math import inf

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from unisono.pipeline.stream.link import close_link
from unisono.pipeline.stream.options import sink_options, source_options
from unisono.pipeline.stream.rows import schema_of
from unisono.pipeline.stream.sink import Attempt, BatchWriter
from unisono.pipeline.stream.source import BatchReader, LiveReader


def ddl(text):
    """A schema; Spark's own parser for it needs a Java machine."""
    kinds = {
        "BIGINT": "long",
        "STRING": "string",
        "BINARY": "binary",
        "TIMESTAMP": "timestamp",
        "BOOLEAN": "boolean",
    }
    kinds["MAP<STRING, BIGINT>"] = {
        "type": "map",
        "keyType": "string",
        "valueType": "long",
        "valueContainsNull": True,
    }
    kinds["MAP<STRING, STRING>"] = kinds["MAP<STRING, BIGINT>"] | {"valueType": "string"}
    fields = []
    for column in text.replace(", BIGINT>", "; BIGINT>").replace(", STRING>", "; STRING>").split(", "):
        name, _, kind = column.replace(";", ",").partition(" ")
        nullable = not kind.endswith(" NOT NULL")
        kind = kinds[kind.removesuffix(" NOT NULL")]
        fields.append({"name": name, "type": kind, "nullable": nullable, "metadata": {}})
    return StructType.fromJson({"type": "struct", "fields": fields})


class Query:
    """A streaming query; what it has of the past is a checkpoint."""

    def __init__(self, url, checkpoint=None, **options):
        self.options = source_options({"url": url, **options}, streaming=True)
        self.checkpoint = checkpoint
        self.rows = []

    def start(self):
        self.reader = LiveReader(self.options, ddl(schema_of(self.options)))
        if self.checkpoint is None:
            self.checkpoint = through_json(self.reader.initialOffset())
        return self

    def step(self, limit=inf):
        """One batch; returns its rows."""
        limit = ReadAllAvailable() if limit == inf else ReadMaxRows(limit)
        end = through_json(self.reader.latestOffset(self.checkpoint, limit))
        rows = self.read(self.checkpoint, end)
        self.checkpoint = end
        self.rows += rows
        return rows

    def read(self, start, end):
        worker = pickle.loads(pickle.dumps(self.reader))
        parts = [pickle.loads(pickle.dumps(part)) for part in self.reader.partitions(start, end)]
        return [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]

    def drain(self, count, limit=inf):
        """Batches until so many rows have come."""
        for _ in range(1000):
            if len(self.rows) >= count:
                return self.rows
            self.step(limit)
        raise AssertionError(f"{len(self.rows)} rows of {count}")

    def stop(self):
        self.reader.stop()
        close_link(self.options.url)


def through_json(offset):
    return json.loads(json.dumps(offset))


def read_batch(url=None, **options):
    """A batch."""
    read = source_options(options if url is None else {"url": url, **options}, streaming=False)
    reader = BatchReader(read, ddl(schema_of(read)))
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions()]
    try:
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    finally:
        close_link(read.url)


def write(url, rows, *, batch=0, partition=0, query="q", **options):
    """A task that writes rows; raises what the iterator of rows raises."""
    rows = list(rows)
    columns = [name for name in ("topic", "value", "key", "headers") if name in rows[0]]
    kinds = {"topic": "STRING", "value": "BINARY", "key": "STRING", "headers": "MAP<STRING, STRING>"}
    schema = ddl(", ".join(f"{name} {kinds[name]}" for name in columns))
    writer = BatchWriter(sink_options({"url": url, **options}, streaming=False), schema, overwrite=False)

    def batches():
        for at in range(0, len(rows), 100):
            chunk = rows[at : at + 100]
            if any(row is None for row in chunk):
                raise InterruptedError("the task is killed here")
            yield pa.RecordBatch.from_pylist(chunk)

    return writer.write_as(Attempt(query, batch, partition), batches())


async def in_thread(work, *args, **options):
    """Work that blocks, beside nodes that live in this event loop."""
    return await asyncio.to_thread(work, *args, **options)
