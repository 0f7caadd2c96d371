"""The certificate kernel on records that Spark holds: grouped in a batch, or as they come in a stream.

`unisono.pipeline.audit` reads segments itself, without a shuffle, because a journal keeps the records of a life
together and in order. Here they come in any order, as a table or a stream does: `certify_frame` groups and sorts
them (`applyInArrow`), `watch` keeps a state for each process (`transformWithState`) and tells what is new. All
three feed the same `Witnessed`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from unisono.journal.schema import SCHEMA
from unisono.pipeline.certify import COLUMNS, Certified, Witnessed, certify, suspected_blocks
from unisono.pipeline.columns import BASE, chunks_of
from unisono.pipeline.findings import Doubt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

NEEDED = [*dict.fromkeys((*BASE, *COLUMNS, "seq"))]
ARROW = pa.schema(
    [(n, t.value_type if pa.types.is_dictionary(t) else t) for n in NEEDED for t in [SCHEMA.field(n).type]]
)
NEWS = "process string, subscription string, promise string, how string, record long, deliveries long"
STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}


class News(NamedTuple):
    """A promise that was broken since the last time: where, how, and the record that shows it."""

    process: str
    subscription: str
    promise: str
    how: str  # a name of `unisono.pipeline.explain`
    record: int  # its place in the life, from 0
    deliveries: int  # judged so far


class Kernel:
    """One process as it is judged on and on; `state` is what was carried over."""

    def __init__(self, process: str, state: bytes | None = None) -> None:
        self.process = process
        self.witnessed, self.last_seq, self._told = (
            pickle.loads(state) if state else (Witnessed(process), 0, set())
        )

    def feed(self, records: pa.Table) -> list[News]:
        """Judge records of this process, in any order among themselves; what came before is passed over."""
        ordered = records.select(NEEDED).sort_by("seq")
        new = ordered.filter(pa.compute.greater(ordered["seq"], self.last_seq))
        if len(new):
            self.last_seq = new["seq"][-1].as_py()
            self.witnessed.reach.append({})
            self.witnessed.segments += 1
            batches = new.combine_chunks().to_batches()
            self.witnessed.feed_chunks(chunks_of(batches, self.witnessed.words, first=self.witnessed.rows))
        return [*self._news()]

    def _news(self) -> Iterator[News]:
        for (_, name), certificate in self.witnessed.certificates.items():
            for promise, found in certificate.found.items():
                if (name, promise) not in self._told:
                    self._told.add((name, promise))
                    yield News(
                        self.process, name, promise, found.how, found.rows[0].at, certificate.deliveries
                    )

    def state(self) -> bytes:
        """What has to be carried over."""
        return pickle.dumps((self.witnessed, self.last_seq, self._told), protocol=5)


def certify_frame(frame: DataFrame) -> Certified:
    """The certificate audit of all records of a frame: one group for each process, no two compared."""
    rows = frame.select(*NEEDED).groupBy("process").applyInArrow(_judge_group, "state binary").toArrow()
    shown: list[Witnessed] = [pickle.loads(state) for state in rows.column("state").to_pylist()]
    blocks = suspected_blocks(shown)
    result = certify(shown, {life.life for life in shown}, None)
    if blocks:
        words = f"stamps of {len(blocks)} blocks of numbers are not summed up alike; audit the journal to compare them"
        result.doubts.append(Doubt("stamps", words))
    return result


def _judge_group(key: tuple[Any, ...], records: pa.Table) -> pa.Table:
    kernel = Kernel(key[0].as_py())
    kernel.feed(records.cast(ARROW.with_metadata(None)) if records.schema != ARROW else records)
    return pa.table({"state": pa.array([pickle.dumps(kernel.witnessed.slim(), protocol=5)], pa.binary())})


def watch(frame: DataFrame) -> DataFrame:
    """A stream of News about a stream of records; the session needs the settings in STATE_STORE."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Watching(StatefulProcessor):
        """A kernel for each process, in Spark's state store."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            """Spark calls it when a task begins."""
            self.kept = handle.getValueState("kernel", "state binary")

        def handleInputRows(self, key: Any, rows: Iterable[Row], timer_values: Any) -> Iterator[Any]:
            """Spark calls it with the new records of a process."""
            from pyspark.sql import Row

            before = self.kept.get()
            kernel = Kernel(key[0], bytes(before[0]) if before is not None else None)
            news = kernel.feed(pa.Table.from_pylist([row.asDict() for row in rows], ARROW))
            self.kept.update((kernel.state(),))
            for one in news:
                yield Row(**one._asdict())

        def close(self) -> None:
            """Nothing to let go of."""

    return (
        frame.select(*NEEDED)
        .groupBy("process")
        .transformWithState(Watching(), outputStructType=NEWS, outputMode="Append", timeMode="None")
    )
