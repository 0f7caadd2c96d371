"""The kernels of `unisono.pipeline.watched` inside Spark: a state for each life, then one for each topic.

Two stages of `transformWithState`, one after the other. What the first has to say to nobody's topic passes through
the second, so that one stream tells everything.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle

from unisono.pipeline.growing import NAME, GrowingJournal
from unisono.pipeline.watched import Heard, LifeKernel, TopicKernel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEARD = "topic string, heard binary"
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # What changed is written after each batch, not the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.shuffle.partitions": "2",  # a batch has little to do, and each partition has a worker to be called
}


def heard_from(spark: SparkSession, journal: Path) -> DataFrame:
    """What the kernels hear of a journal as it grows; the session needs SETTINGS."""
    spark.dataSource.register(GrowingJournal)
    segments = spark.readStream.format(NAME).option("journal", str(journal)).load()
    mode: dict[str, Any] = {"outputStructType": HEARD, "outputMode": "Append", "timeMode": "None"}
    lives = segments.groupBy("life").transformWithState(Lives(), **mode)
    return lives.groupBy("topic").transformWithState(Topics(), **mode).select("heard")


def unpack(data: bytes) -> Heard:
    """What one row of the stream says."""
    heard: Heard = pickle.loads(data)
    return heard


def _row(heard: Heard) -> Row:
    return Row(topic=heard.topic, heard=pickle.dumps(heard, protocol=5))


class Lives(StatefulProcessor):
    """A kernel for each life."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it when a task begins."""
        self.kept = handle.getValueState("life", "state binary")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timer_values: Any) -> Iterator[Row]:
        """Spark calls it with the new segments of a life."""
        before = self.kept.get()
        kernel = LifeKernel(key[0], bytes(before[0]) if before is not None else None)
        yield from map(_row, kernel.feed((row.number, row.path) for row in rows))
        self.kept.update((kernel.state(),))

    def close(self) -> None:
        """Nothing to let go of."""


class Topics(StatefulProcessor):
    """A kernel for each topic."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls it when a task begins."""
        self.kept = handle.getValueState("topic", "state binary")
        self.blocks = handle.getMapState("blocks", "at long", "data binary")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timer_values: Any) -> Iterator[Row]:
        """Spark calls it with what lives say about a topic, or about none."""
        heard = (unpack(row.heard) for row in rows)
        if not key[0]:
            yield from map(_row, heard)
            return
        before = self.kept.get()
        state = bytes(before[0]) if before is not None else None
        kernel = TopicKernel(key[0], _InStore(self.blocks), state)
        yield from map(_row, kernel.feed(heard))
        self.kept.update((kernel.state(),))

    def close(self) -> None:
        """Nothing to let go of."""


class _InStore:
    """Blocks in Spark's state store: only those that a batch touches are read and written."""

    def __init__(self, blocks: MapState) -> None:
        self._blocks = blocks

    def get(self, at: int) -> bytes | None:
        """What is kept of a block."""
        found = self._blocks.getValue((at,))
        return bytes(found[0]) if found is not None else None

    def put(self, at: int, data: bytes) -> None:
        """Keep this."""
        self._blocks.updateValue((at,), (data,))

    def drop(self, at: int) -> None:
        """Keep it no longer."""
        self._blocks.removeKey((at,))
