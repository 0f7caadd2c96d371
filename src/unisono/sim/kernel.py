"""Simulated time: a heap of occurrences, the earliest first.

Occurrences at the same time come in the order in which they were scheduled, never in the order of anything
that a hash or an address decides: that is what makes a seed replay identically.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

O = TypeVar("O")  # noqa: E741 (an occurrence; its type is the simulation's business)


class Kernel(Generic[O]):
    """The clock of a simulated world and everything that is still to happen in it."""

    __slots__ = ("_heap", "_scheduled", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, O]] = []
        self._scheduled = 0  # breaks ties, so that occurrences themselves are never compared

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, at: float, occurrence: O) -> None:
        """Let something happen at this time, or now if that has passed."""
        self._scheduled += 1
        heappush(self._heap, (max(at, self.now), self._scheduled, occurrence))

    def next_time(self) -> float | None:
        """When something happens next."""
        return self._heap[0][0] if self._heap else None

    def advance(self) -> O:
        """Move the clock to the next occurrence and return it."""
        self.now, _, occurrence = heappop(self._heap)
        return occurrence
