"""The source: a stream, or a batch, of rows in the one order."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from unisono.model.errors import ConfigError, DeletedError, ForgottenError
from unisono.model.ids import is_pattern
from unisono.pipeline.stream.link import close_link, link_to
from unisono.pipeline.stream.log import Log
from unisono.pipeline.stream.offsets import Offset
from unisono.pipeline.stream.options import SourceOptions, Where
from unisono.pipeline.stream.plan import Planned, Slice, describe_loss, plan, slices
from unisono.pipeline.stream.rows import arrow_of, check_columns, read_slice

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

IDLE_S = 0.05  # while nothing comes, nobody need look more often

T = TypeVar("T")


class Planner:
    """What the driver knows; it is made where it is needed, and never travels."""

    def __init__(self, options: SourceOptions, *, streaming: bool) -> None:
        self.options = options
        self._streaming = streaming
        self.link = link_to(options.url)
        self.log = Log(self.link, options.names)
        self._planned: Planned | None = None
        self.run(self._open())

    def run(self, request: Coroutine[Any, Any, T]) -> T:
        """What comes of it."""
        return self.link.run(request)

    async def _open(self) -> None:
        await self.log.open()
        await self.log.order_together()
        self._check_topics()

    def _check_topics(self) -> None:
        """Nobody should wait for what cannot come, nor be told nothing of a topic that was never there."""
        control = self.log.control
        assert control is not None
        for name in self.options.names:
            if self._streaming and self.options.fail_on_data_loss and name in control.closed:
                raise DeletedError(
                    f"the topic '{name}' was deleted: nothing comes of it any more; leave it out of subscribe=, or say "
                    "failOnDataLoss=false"
                )
            if not self._streaming and not is_pattern(name) and name not in control.owner:
                raise ConfigError(f"there is no topic '{name}'; see `unisono topics`")

    async def where(self, where: Where) -> Offset:
        """An offset that somebody has described."""
        if where == "earliest":
            return await self.log.earliest()
        if where == "latest":
            return await self.log.latest()
        if isinstance(where, dict):
            foreign = sorted(set(where).difference(self.log.topics_of(where)))
            if foreign:
                raise ConfigError(f"offsets name '{foreign[0]}', which is not subscribed")
            return await self.log.behind(where)
        assert isinstance(where, float)
        return await self.log.since(where)

    async def ahead(self, start: Offset, limit: float, end: Offset | None) -> Offset:
        """How far a batch that begins here goes."""
        await self._look(start)
        self._planned = await plan(self.log, start, end, limit)
        self._check_loss(self._planned)
        end = msgspec.structs.replace(self._planned.end, tasks=self.options.tasks)
        self._planned = self._planned._replace(end=end)
        return end

    async def between(self, start: Offset, end: Offset) -> list[Slice]:
        """The rows of a batch, cut for tasks."""
        if self._planned is None or (self._planned.start, self._planned.end) != (start, end):
            await self._look(start)
            self._planned = await plan(self.log, start, end)
            self._check_loss(self._planned)
        planned, self._planned = self._planned, None
        return list(slices(planned, self.options.names, end.tasks))

    async def _look(self, start: Offset) -> None:
        if start.world != self.log.world:
            raise ForgottenError(
                "this checkpoint was made with another system: the broker has lost everything since, or it is another "
                "one; begin with a new checkpoint"
            )
        await self.log.order_together()
        self._check_topics()

    def _check_loss(self, planned: Planned) -> None:
        if planned.lost and self.options.fail_on_data_loss:
            raise describe_loss(planned.lost)


class LiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream; the driver plans, tasks read slices of lanes."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self.options = options
        self.schema = schema
        self._planner: Planner | None = None
        self._target: Offset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_planner": None, "_target": None}

    @property
    def planner(self) -> Planner:
        """Made when first asked for."""
        if self._planner is None:
            self._planner = Planner(self.options, streaming=True)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self.planner.run(self.planner.where(self.options.start)).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """What a trigger takes at most."""
        return ReadMaxRows(self.options.max_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes."""
        at, planner = Offset.of(start), self.planner
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else inf
        end = planner.run(planner.ahead(at, rows, self._target))
        if end.clock == at.clock:
            if self._target is None:
                time.sleep(IDLE_S)
            return start
        return end.as_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all there is."""
        self._target = self.planner.run(self.planner.where("latest"))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What the query's progress says of how far it could be."""
        return self.planner.run(self.planner.where("latest")).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The slices of a batch."""
        if start == end:
            return []
        found = self.planner.run(self.planner.between(Offset.of(start), Offset.of(end)))
        return [InputPartition(piece) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice."""
        return read_slice(link_to(self.options.url), partition.value, arrow_of(self.schema), self.options)

    def stop(self) -> None:
        """The query has ended."""
        if self._planner is not None:
            self._planner = None
            close_link(self.options.url)


class BatchReader(DataSourceReader):
    """What lies between two offsets, once."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self.options = options
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The slices, and an empty one if there are none."""
        planner = Planner(self.options, streaming=False)
        try:
            return [InputPartition(piece) for piece in planner.run(self._slices(planner))] or [
                InputPartition(None)
            ]
        finally:
            close_link(self.options.url)

    async def _slices(self, planner: Planner) -> list[Slice]:
        end = msgspec.structs.replace(await planner.where(self.options.end), tasks=self.options.tasks)
        start = await planner.where(self.options.start)
        return await planner.between(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice."""
        if partition.value is None:
            return iter(())
        return read_slice(link_to(self.options.url), partition.value, arrow_of(self.schema), self.options)
