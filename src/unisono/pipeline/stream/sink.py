"""The sink: rows become events, each once, however often Spark writes a batch."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, MapType, StringType

from unisono.model.errors import ConfigError, PayloadError, UnconfirmedError
from unisono.pipeline.stream.link import CONFIRM_S, Link, link_to
from unisono.pipeline.stream.log import Log
from unisono.pipeline.stream.marks import Mark, brief, key_of, look, put, stored_ids
from unisono.pipeline.stream.options import SinkOptions
from unisono.runtime.receipts import Receipt

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

WINDOW, WINDOWS = 4096, 4  # rows that are published at once, and how often before the first must be confirmed

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # what Spark calls them


class Attempt(NamedTuple):
    """Which part of which batch of which query is being written."""

    query: str
    batch: int
    partition: int

    @property
    def prefix(self) -> str:
        """How the ids of its events begin, before the number of the row: the same in every attempt."""
        return f"{brief(self.query)}-{self.batch}-{self.partition}-"


class Written(WriterCommitMessage):
    """How many rows a task has published, and how many it found published."""

    def __init__(self, published: int, found: int) -> None:
        self.published = published
        self.found = found


class Event(NamedTuple):
    """A row on its way."""

    topic: str
    data: object
    id: str
    headers: dict[str, str] | None


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Refuse rows that cannot become events."""
    kinds = {field.name: field.dataType for field in schema.fields}
    wanted: list[tuple[str, tuple[type[DataType], ...]]] = [("value", (BinaryType, StringType))]
    wanted += [] if options.topic else [("topic", (StringType,))]
    wanted += [(options.id_column, (StringType,))] if options.id_column else []
    for name, allowed in wanted:
        if name not in kinds:
            raise ConfigError(
                f"rows need a column '{name}'{_remedy(name)}; they have {', '.join(kinds) or 'none'}"
            )
        if not isinstance(kinds[name], allowed):
            raise ConfigError(
                f"the column '{name}' is {kinds[name].simpleString()}; cast it to string{_or_bytes(name)}"
            )
    if "headers" in kinds and kinds["headers"] != MapType(StringType(), StringType(), True):
        raise ConfigError(
            f"the column 'headers' is {kinds['headers'].simpleString()}; cast it to map<string,string>"
        )
    unknown = sorted(set(kinds) - {"value", "headers", "topic", options.id_column})
    if unknown:
        raise ConfigError(
            f"the column '{unknown[0]}' has no place in an event; select topic, value, headers and ids only"
        )
    if options.topic and "topic" in kinds:
        raise ConfigError(
            "the option topic= and a column 'topic' contradict each other; leave one of them out"
        )


def _remedy(name: str) -> str:
    return " (or the option topic=)" if name == "topic" else ""


def _or_bytes(name: str) -> str:
    return " or binary" if name == "value" else ""


class _Writer:
    """What streams and batches have in common."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError(
                "events cannot be taken back: write with mode append (outputMode append or update)"
            )
        check_schema(schema, options)
        self.options = options

    def write_as(self, attempt: Attempt, batches: Iterator[pa.RecordBatch]) -> Written:
        """Publish what is not published yet; return when all of it is stored."""
        link = link_to(self.options.url)
        key = key_of(attempt.query, attempt.partition)
        _, known = link.run(look(link, key))
        if known is not None and (known.batch, known.is_done) >= (attempt.batch, True):
            return Written(0, sum(batch.num_rows for batch in batches))
        if known is not None and known.batch == attempt.batch:
            begun, stored = known, self._stored(link, attempt, known)
        else:
            begun, stored = link.run(_begin(link, key, attempt)), set[tuple[str, str]]()
        publishing, row, found = Publishing(link), 0, 0
        for batch in batches:
            events = self._events(attempt, batch, row)
            row += batch.num_rows
            if stored:
                new = [event for event in events if (event.topic, event.id) not in stored]
                found += len(events) - len(new)
                events = new
            for at in range(0, len(events), WINDOW):
                link.run(publishing.window(events[at : at + WINDOW]))
        link.run(publishing.settle())
        link.run(put(link, key, msgspec.structs.replace(begun, is_done=True)))
        return Written(row - found, found)

    def _stored(self, link: Link, attempt: Attempt, begun: Mark) -> set[tuple[str, str]]:
        """What an attempt before this one has left in the log."""
        prefix = "" if self.options.id_column else attempt.prefix
        return link.run(stored_ids(link, begun, prefix, needed=self.options.fail_on_data_loss))

    def _events(self, attempt: Attempt, batch: pa.RecordBatch, first: int) -> list[Event]:
        """The rows of an Arrow batch, of which the first is that many-th of its partition."""
        count, options = batch.num_rows, self.options
        topics = [options.topic] * count if options.topic else batch.column("topic").to_pylist()
        values = batch.column("value").to_pylist()
        if options.id_column:
            ids = batch.column(options.id_column).to_pylist()
        else:
            prefix = attempt.prefix
            ids = [f"{prefix}{row}" for row in range(first, first + count)]
        headers: list[dict[str, str] | None] = [None] * count
        if "headers" in batch.schema.names:
            headers = [None if h is None else dict(h) for h in batch.column("headers").to_pylist()]
        for name, column in (("topic", topics), ("value", values), (options.id_column or "id", ids)):
            if None in column:
                raise ConfigError(
                    f"row {first + column.index(None)} of partition {attempt.partition} has no {name}; filter such rows out"
                )
        if options.value_format == "json":
            values = [_parsed(value) for value in values]
        else:
            values = [value.encode() if isinstance(value, str) else value for value in values]
        return [Event(*each) for each in zip(topics, values, ids, headers, strict=True)]


def _parsed(value: str | bytes) -> object:
    try:
        return msgspec.json.decode(value)
    except msgspec.MsgspecError as error:
        raise PayloadError(
            f"the value {value!r:.80} is no JSON: {error}; leave valueFormat=json out"
        ) from None


async def _begin(link: Link, key: str, attempt: Attempt) -> Mark:
    """Say that a batch is begun, before anything of it is published."""
    log = Log(link, (">",))
    await log.open()
    mark = Mark(attempt.batch, log.world, log.newest)
    await put(link, key, mark)
    return mark


class Publishing:
    """Windows of events, a few of them under way at a time."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._under_way: deque[list[Receipt]] = deque()

    async def window(self, events: list[Event]) -> None:
        """Publish, and wait for those that have been under way for long."""
        bus = await self._link.bus()
        self._under_way.append(
            [bus.publish_nowait(e.topic, e.data, id=e.id, headers=e.headers) for e in events]
        )
        await self.settle(WINDOWS - 1)

    async def settle(self, left: int = 0) -> None:
        """Return when everything is stored, but for so many windows."""
        while len(self._under_way) > left:
            receipts = self._under_way.popleft()
            try:
                async with asyncio.timeout(CONFIRM_S):
                    for receipt in receipts:
                        await receipt
            except TimeoutError:
                raise UnconfirmedError(
                    f"{len(receipts)} events were not confirmed within {CONFIRM_S:g} s; see whether the nodes are well. Spark "
                    "may write the batch again: what is stored is not published twice"
                ) from None


class LiveWriter(_Writer, DataSourceStreamArrowWriter):
    """For `writeStream`: query and batch are Spark's."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish a partition of a batch."""
        context = TaskContext.get()
        assert context is not None
        query, batch = (
            self.options.query_id or context.getLocalProperty(QUERY),
            context.getLocalProperty(BATCH),
        )
        if not query or batch is None:
            raise ConfigError(
                "this Spark does not say which batch it writes; use foreachBatch, with queryId= and batchId="
            )
        return self.write_as(Attempt(query, int(batch), context.partitionId()), iterator)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """For `write`: what has no queryId is a query of its own."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self.query = options.query_id or secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish a partition."""
        context = TaskContext.get()
        assert context is not None
        return self.write_as(Attempt(self.query, self.options.batch_id, context.partitionId()), iterator)
