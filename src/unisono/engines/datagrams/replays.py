"""Which numbers of one sender have come already, over a network that loses, doubles and reorders."""

from __future__ import annotations

from collections.abc import Hashable


class Replays:
    """The newest number, and which of those just below it have come; what is further below counts as come."""

    __slots__ = ("_bits", "_mask", "newest", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.newest = 0
        self._bits = 0  # bit i: newest - i has come
        self._mask = (1 << size) - 1

    def is_new(self, number: int) -> bool:
        """Whether a number has not come before, as far as is known."""
        if number > self.newest:
            return True
        behind = self.newest - number
        return number > 0 and behind < self.size and not self._bits >> behind & 1

    def add(self, number: int) -> None:
        """It has come."""
        if number > self.newest:
            ahead = number - self.newest
            self._bits = (self._bits << ahead & self._mask if ahead < self.size else 0) | 1
            self.newest = number
        else:
            self._bits |= 1 << self.newest - number

    def state(self) -> Hashable:
        """Equal for those that behave alike."""
        return self.newest, self._bits
