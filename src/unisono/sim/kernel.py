"""Simulated time: occurrences, the earliest first.

Occurrences at the same time come in the order in which they were scheduled, never in the order of anything
that a hash or an address decides: that is what makes a seed replay identically.

What is to happen lies in buckets of time, unsorted. A bucket is sorted when its time has come, stably, and is then
walked through from the first to the last; what is scheduled into it meanwhile is put in its place behind those of
the same time. So most occurrences cost an append and their share of a sort, not a walk up and down a heap. How
wide buckets are follows from how full they were: it changes how fast time passes, never the order.
"""

from __future__ import annotations

from bisect import insort_right
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import inf
from operator import itemgetter, length_hint
from typing import Generic, TypeVar

O = TypeVar("O")  # noqa: E741 (an occurrence; its type is the simulation's business)

BUCKETS_S, BUCKETS_S_MIN, BUCKETS_S_MAX = (
    2.0**10,
    2.0**-20,
    2.0**40,
)  # buckets per second: at first, and bounds
FILL, FILL_MIN, FILL_MAX = 64, 4, 1024  # occurrences in a bucket: aimed at, and where other widths are tried
REVIEW_BUCKETS, REVIEW_OCCURRENCES = 256, 4096  # how many are looked at before
CROWD_BUCKETS = 1024  # so many buckets are looked at while they are filled, too; then twice as many
TRIM_MIN = 4096  # a bucket that grows while it is walked through drops what is over, from this size on
_FAR_S = 1e100  # times from here to infinity, where somebody parks what is never to happen, share a bucket

_time_of = itemgetter(0)


class Kernel(Generic[O]):
    """The clock of a simulated world and everything that is still to happen in it."""

    __slots__ = (
        "_bucket",
        "_buckets",
        "_buckets_s",
        "_crowd_buckets",
        "_cursor",
        "_index",
        "_indices",
        "_is_stopped",
        "_reviewed",
        "_reviewed_buckets",
        "now",
    )

    def __init__(self) -> None:
        self.now = 0.0
        self._bucket: list[tuple[float, O]] = []  # the one whose time has come, sorted
        self._cursor: Iterator[tuple[float, O]] = iter(
            self._bucket
        )  # what is left of it; sees what is put in
        self._index = -1
        self._buckets: dict[int, list[tuple[float, O]]] = {}  # those to come, each as scheduled
        self._indices: list[int] = []  # a heap of their keys
        self._buckets_s = BUCKETS_S
        self._crowd_buckets = CROWD_BUCKETS
        self._reviewed = self._reviewed_buckets = 0
        self._is_stopped = False

    def __len__(self) -> int:
        return length_hint(self._cursor) + sum(map(len, self._buckets.values()))

    def schedule(self, at: float, occurrence: O) -> None:
        """Let something happen at this time, or now if that has passed."""
        if at < self.now:
            at = self.now
        index = int((at if at < _FAR_S else _FAR_S) * self._buckets_s)
        if index <= self._index:
            bucket = self._bucket  # behind those of the same time
            if bucket and at < bucket[-1][0]:
                insort_right(bucket, (at, occurrence), key=_time_of)
            else:
                bucket.append((at, occurrence))
            if len(bucket) > TRIM_MIN and 2 * length_hint(self._cursor) < len(bucket):
                self._turn_to_rest()
        elif (later := self._buckets.get(index)) is not None:
            later.append((at, occurrence))
        else:
            self._buckets[index] = [(at, occurrence)]
            heappush(self._indices, index)
            if len(self._indices) > self._crowd_buckets:
                self._look_at_crowd()

    def next_time(self) -> float | None:
        """When something happens next."""
        left = length_hint(self._cursor)
        if not left:
            if not self._turn_to_next():
                return None
            left = len(self._bucket)
        return self._bucket[-left][0]

    def advance(self) -> O:
        """Move the clock to the next occurrence and return it."""
        if not length_hint(self._cursor) and not self._turn_to_next():
            raise IndexError("nothing is left to happen")
        self.now, occurrence = next(self._cursor)
        return occurrence

    def run(self, handler: Callable[[O], object], until: float = inf) -> None:
        """Hand over one occurrence after the other, those at `until` included, and leave the clock there.

        Without `until`: until nothing is left, or `stop` was called.
        """
        self._is_stopped = False
        while not self._is_stopped:
            if self._index + 1 > until * self._buckets_s:
                self._run_out(handler, until)
                return
            cursor = self._cursor
            for self.now, occurrence in cursor:
                handler(occurrence)
            if self._cursor is cursor and not self._turn_to_next():
                break
        if not self._is_stopped and until < inf:
            self.now = max(self.now, until)

    def stop(self) -> None:
        """Let `run` end after the occurrence at hand."""
        self._is_stopped = True
        self._turn_to_rest()

    def _run_out(self, handler: Callable[[O], object], until: float) -> None:
        """The last bucket of a run, with an eye on the time."""
        while not self._is_stopped:
            next_time = self.next_time()
            if next_time is None or next_time > until:
                self.now = max(self.now, until)
                return
            handler(self.advance())

    def _turn_to_next(self) -> bool:
        """Sort the next bucket and begin with it; say whether there was one."""
        self._reviewed += len(self._bucket)
        self._reviewed_buckets += 1
        if self._reviewed_buckets >= REVIEW_BUCKETS and self._reviewed >= REVIEW_OCCURRENCES:
            self._review(self._reviewed / self._reviewed_buckets)
            self._reviewed = self._reviewed_buckets = 0
        if not self._indices:
            self._bucket, self._index = [], -1
            self._cursor = iter(self._bucket)
            return False
        self._index = heappop(self._indices)
        self._bucket = self._buckets.pop(self._index)
        if len(self._bucket) > 1:
            self._bucket.sort(key=_time_of)
        self._cursor = iter(self._bucket)
        return True

    def _turn_to_rest(self) -> None:
        """Drop what has happened from the bucket at hand; who walks through it comes to its end."""
        left = length_hint(self._cursor)
        rest = self._bucket[-left:] if left else []
        self._bucket.clear()
        self._bucket, self._cursor = rest, iter(rest)

    def _look_at_crowd(self) -> None:
        """Many buckets: are there occurrences enough for them?"""
        self._crowd_buckets = 2 * len(self._indices)
        fill = len(self) / len(self._indices)
        if fill < FILL_MIN:
            self._review(fill)

    def _review(self, fill: float) -> None:
        """Make buckets wider or narrower if they are too empty or too full, without touching the order."""
        buckets_s = min(max(self._buckets_s * fill / FILL, BUCKETS_S_MIN), BUCKETS_S_MAX)
        if FILL_MIN <= fill <= FILL_MAX or buckets_s == self._buckets_s:
            return
        before, self._buckets, self._indices = self._buckets, {}, []
        self._buckets_s = buckets_s
        self._index = _index(self._bucket[-1][0], buckets_s) if length_hint(self._cursor) else -1
        for bucket in before.values():  # equal times are in one bucket, before and after
            for at, occurrence in bucket:
                self.schedule(at, occurrence)


def _index(at: float, buckets_s: float) -> int:
    """The bucket of a time."""
    return int(min(at, _FAR_S) * buckets_s)
