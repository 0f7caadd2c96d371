"""Which numbers of a topic have been dealt with, when they may come in any order.

Everything up to `floor` has been; above it, the numbers in `above`. The window is bounded: when it is full
the oldest hole is given up, so a hole that is never filled costs a bounded amount of memory.
"""

from __future__ import annotations

from collections.abc import Hashable


class Passed:
    """The numbers of one topic that were delivered, dropped or declared lost."""

    __slots__ = ("above", "floor", "limit")

    def __init__(self, floor: int, limit: int) -> None:
        self.floor = floor
        self.limit = limit
        self.above: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self.floor or number in self.above

    def add(self, number: int) -> tuple[int, ...]:
        """Deal with a number; return those given up because the window is full."""
        if number > self.floor:
            self.above.add(number)
        self._close_up()
        if len(self.above) <= self.limit:
            return ()
        given_up = tuple(range(self.floor + 1, min(self.above)))
        self.floor = min(self.above) - 1
        self._close_up()
        return given_up

    def _close_up(self) -> None:
        while self.floor + 1 in self.above:
            self.floor += 1
            self.above.remove(self.floor)

    def copy(self) -> Passed:
        """An independent twin."""
        twin = Passed(self.floor, self.limit)
        twin.above = set(self.above)
        return twin

    def state(self) -> Hashable:
        """Equal for twins that remember alike."""
        return (self.floor, tuple(sorted(self.above)))
