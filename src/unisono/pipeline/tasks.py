"""The same work on each of many things: in this process, or as Spark tasks.

Things are packed into a few tasks of about the same weight: a task costs Spark tens of milliseconds, however
little it does. Results come back as bytes and are small.
"""

from __future__ import annotations

import heapq
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from unisono.pipeline.session import explained

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
Tell = Callable[[str, int, int], None]

TASKS_PER_CORE = 4  # enough to even out, few enough to cost nothing
WEIGHT_MIN = 500_000  # rows that make a task worth its start
POLL_S = 0.3


class Runner(Protocol):
    """Does work on things, wherever."""

    def run(self, title: str, work: Callable[[T], R], things: Sequence[T], weights: Sequence[int]) -> list[R]:
        """`work` on each thing; results in the order of the things."""
        ...


class Here:
    """One thing after the other, in this process."""

    def run(self, title: str, work: Callable[[T], R], things: Sequence[T], weights: Sequence[int]) -> list[R]:
        """`work` on each thing."""
        return [work(thing) for thing in things]


class OnSpark:
    """Things as Spark tasks, without a shuffle."""

    def __init__(self, spark: SparkSession, tell: Tell = lambda title, done, of: None) -> None:
        self.spark, self.tell = spark, tell
        self.is_remote = "connect" in type(spark).__module__
        self.cores = 2 if self.is_remote else spark.sparkContext.defaultParallelism

    def run(self, title: str, work: Callable[[T], R], things: Sequence[T], weights: Sequence[int]) -> list[R]:
        """`work` on each thing, wherever Spark has room."""
        if not things:
            return []
        worth = max(self.cores, sum(weights) // WEIGHT_MIN)
        tasks = min(self.cores * TASKS_PER_CORE, worth)
        bins = pack(list(zip(range(len(things)), things, strict=True)), weights, tasks)
        packed = [pickle.dumps(b) for b in bins]

        def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            for batch in batches:
                for at in batch.column(0).to_pylist():
                    for place, thing in pickle.loads(packed[at]):
                        result = pickle.dumps(work(thing), protocol=5)
                        yield pa.record_batch({"place": pa.array([place], pa.int64()), "result": [result]})

        frame = self.spark.range(0, len(bins), 1, len(bins)).mapInArrow(body, "place long, result binary")
        with explained(f"the pipeline stopped while {title}"), self._telling(title, len(bins)):
            rows = frame.toArrow()
        results = dict(zip(rows.column("place").to_pylist(), rows.column("result").to_pylist(), strict=True))
        return [pickle.loads(results[place]) for place in range(len(things))]

    def _telling(self, title: str, tasks: int) -> _Telling:
        return _Telling(self, title, tasks)


class _Telling:
    """Reports how many tasks are done while Spark is at work."""

    def __init__(self, runner: OnSpark, title: str, tasks: int) -> None:
        self.runner, self.title, self.tasks = runner, title, tasks
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> None:
        self.runner.tell(self.title, 0, self.tasks)
        if not self.runner.is_remote:
            self.thread.start()

    def __exit__(self, *error: object) -> None:
        self.over.set()
        if self.thread.is_alive():
            self.thread.join()
        if error[0] is None:
            self.runner.tell(self.title, self.tasks, self.tasks)

    def _poll(self) -> None:
        tracker = self.runner.spark.sparkContext.statusTracker()
        while not self.over.wait(POLL_S):
            done = 0
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                done += info.numCompletedTasks if info is not None else 0
            self.runner.tell(self.title, min(done, self.tasks), self.tasks)


def pack(things: Sequence[Any], weights: Sequence[int], bins: int) -> list[list[Any]]:
    """The things in at most so many bins of about the same weight, heaviest first; no bin is empty."""
    heap = [(0, at) for at in range(min(bins, len(things)))]
    packed: list[list[Any]] = [[] for _ in heap]
    for weight, at in sorted(((w, i) for i, w in enumerate(weights)), key=lambda p: (-p[0], p[1])):
        filled, bin_ = heapq.heappop(heap)
        packed[bin_].append(things[at])
        heapq.heappush(heap, (filled + weight + 1, bin_))
    return packed
