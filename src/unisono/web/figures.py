"""Sums of what many processes count, each of which may begin anew at any time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence

import msgspec

from unisono.observability.metrics import BOUNDS_S

SOURCES_MAX = 4096  # that are remembered; whoever is forgotten is counted from 0 again
WINDOW_S = 10.0  # how far back latencies look


class Tally:
    """Counters of many sources, added up; a source that counts lower than before has begun anew."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self._last: dict[str, Mapping[str, int]] = {}

    def add(self, source: str, counts: Mapping[str, int]) -> None:
        """What a source has counted until now."""
        last = self._last.get(source, {})
        for name, count in counts.items():
            before = last.get(name, 0)
            self.totals[name] += count - before if count >= before else count
        if len(self._last) >= SOURCES_MAX:
            self._last.clear()
        self._last[source] = counts


class Quantiles(msgspec.Struct, frozen=True):
    """How long a part of an event's life took lately, in seconds."""

    events: int
    p50: float
    p90: float
    p99: float


class Latencies:
    """Durations by class, of many sources: those of the last moments."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Sequence[int]] = {}
        self._slots: dict[str, deque[tuple[float, list[int]]]] = {}

    def add(self, source: str, phases: Mapping[str, Sequence[int]], now: float) -> None:
        """What a source has measured until now."""
        for phase, counts in phases.items():
            if len(counts) != len(BOUNDS_S) + 1:
                continue  # of a release that has other classes
            last = self._last.get((source, phase))
            if len(self._last) >= SOURCES_MAX:
                self._last.clear()
            self._last[source, phase] = counts
            if last is None or sum(counts) < sum(last):
                continue  # from when these are is not known
            fresh = [now_ - then for now_, then in zip(counts, last, strict=True)]
            if any(fresh):
                self._slots.setdefault(phase, deque()).append((now, fresh))

    def quantiles(self, now: float) -> dict[str, Quantiles]:
        """Of every phase that was measured lately."""
        found = {}
        for phase, slots in self._slots.items():
            while slots and slots[0][0] < now - WINDOW_S:
                slots.popleft()
            if slots:
                sums = [sum(column) for column in zip(*(counts for _, counts in slots), strict=True)]
                found[phase] = Quantiles(sum(sums), *(quantile(sums, q) for q in (0.5, 0.9, 0.99)))
        return found


def quantile(counts: Sequence[int], q: float) -> float:
    """The q-quantile of durations of which only the classes are known, as if each class were evenly filled."""
    wanted, below = q * sum(counts), 0
    for i, count in enumerate(counts):
        if count and below + count >= wanted:
            low = BOUNDS_S[i - 1] if i else 0.0
            high = BOUNDS_S[i] if i < len(BOUNDS_S) else BOUNDS_S[-1]
            return low + (high - low) * (wanted - below) / count
        below += count
    return 0.0
