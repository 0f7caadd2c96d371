"""The last events of a topic, kept for subscribers that missed some."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from unisono.model.frames import Stamped

SPARE = 256  # places at the front that are empty before they are thrown away


class _Kept(NamedTuple):
    numbers: range
    event: Callable[[int], Stamped]  # by number
    size: int  # of each


def _never(number: int) -> Stamped:
    raise AssertionError(f"event {number} is gone")


_GONE = _Kept(range(0), _never, 0)


class Ring:
    """At most `limit` events by number, or so many bytes; each is given as a function that stamps it on demand.

    Numbers may come out of order and leave holes; those that come together are kept together. The smallest go first.
    Only what was here and had to go is gone for ever.
    """

    __slots__ = ("_bytes", "_count", "_firsts", "_head", "_kept", "bytes_max", "gone_to", "limit", "newest")

    def __init__(self, limit: int, gone_to: int = 0, bytes_max: int = 0) -> None:
        self.limit = limit
        self.bytes_max = bytes_max  # 0: no limit
        self.newest = gone_to
        self.gone_to = gone_to  # everything up to here that is not here is gone
        self._count = self._bytes = 0
        self._kept: list[_Kept] = []  # in order of numbers, from `_head` on
        self._firsts: list[int] = []  # the first number of each
        self._head = 0

    def append(self, number: int, event: Callable[[int], Stamped], size: int = 0) -> None:
        """Keep the event with this number, which takes so many bytes; the newest is always kept."""
        if number > self.newest:
            self._kept.append(_Kept(range(number, number + 1), event, size))
            self._firsts.append(number)
            self.newest = number
            self._count += 1
            self._bytes += size
            if self._count > self.limit or (self.bytes_max and self._bytes > self.bytes_max):
                self._make_room()
        elif self._find(number) is None:
            self.extend(range(number, number + 1), event, size)

    def extend(self, numbers: range, event: Callable[[int], Stamped], size: int) -> None:
        """Keep the events with these numbers, none of which was here; each takes so many bytes."""
        kept, firsts = _Kept(numbers, event, size), self._firsts
        if not firsts or numbers[0] > firsts[-1]:
            self._kept.append(kept)
            firsts.append(numbers[0])
        else:
            place = bisect_right(firsts, numbers[0], self._head)
            self._kept.insert(place, kept)
            firsts.insert(place, numbers[0])
        self.newest = max(self.newest, numbers[-1])
        self._count += len(numbers)
        self._bytes += size * len(numbers)
        self._make_room()

    def _make_room(self) -> None:
        limit, bytes_max = self.limit, self.bytes_max
        while self._count > limit or (bytes_max and self._bytes > bytes_max and self._count > 1):
            numbers, event, size = self._kept[self._head]
            evicted = len(numbers)
            if evicted > 1:
                evicted = min(evicted, self._surplus(size))
            self.gone_to = max(self.gone_to, numbers[evicted - 1])
            self._count -= evicted
            self._bytes -= size * evicted
            if evicted < len(numbers):
                rest = numbers[evicted:]
                self._kept[self._head], self._firsts[self._head] = _Kept(rest, event, size), rest[0]
            else:
                self._kept[self._head] = (
                    _GONE  # its place is thrown away with others, and what it held at once
                )
                self._head += 1
        if self._head > max(SPARE, len(self._kept) // 2):
            del self._kept[: self._head], self._firsts[: self._head]
            self._head = 0

    def _surplus(self, size: int) -> int:
        """How many events have to go if each takes so many bytes."""
        too_many = self._count - self.limit
        if not self.bytes_max or self._bytes <= self.bytes_max:
            return too_many
        too_much = -((self.bytes_max - self._bytes) // size) if size else self._count
        return max(too_many, min(too_much, self._count - 1))

    def _find(self, number: int) -> _Kept | None:
        place = bisect_right(self._firsts, number, self._head) - 1
        return self._kept[place] if place >= self._head and number in self._kept[place].numbers else None

    def find(self, numbers: Iterable[int], bytes_max: int = 0) -> tuple[tuple[Stamped, ...], tuple[int, ...]]:
        """Which of the numbers are still here, and which were here and are gone for ever.

        With `bytes_max` it stops after so many bytes, but not before the first event.
        """
        found: list[Stamped] = []
        gone: list[int] = []
        size = 0
        for number in numbers:
            kept = self._find(number)
            if kept is not None:
                size += kept.size
                if found and bytes_max and size > bytes_max:
                    break
                found.append(kept.event(number))
            elif 0 < number <= self.gone_to:
                gone.append(number)
        return tuple(found), tuple(gone)

    def copy(self) -> Ring:
        """An independent twin."""
        twin = Ring(self.limit, self.gone_to, self.bytes_max)
        twin.newest, twin._count, twin._bytes = self.newest, self._count, self._bytes
        twin._kept, twin._firsts = self._kept[self._head :], self._firsts[self._head :]
        return twin

    def state(self) -> Hashable:
        """Equal for rings that answer alike."""
        kept = tuple(
            (number, stamped.publication.id, tuple(sorted(stamped.entries.items())))
            for kept in self._kept[self._head :]
            for number in kept.numbers
            for stamped in (kept.event(number),)
        )
        return (self.newest, self.gone_to, kept)
