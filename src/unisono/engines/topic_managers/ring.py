"""The last events of a topic, kept for subscribers that missed some."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from unisono.model.frames import Stamped


class _Kept(NamedTuple):
    event: Callable[[int], Stamped]  # by number
    size: int


class Ring:
    """At most `limit` events by number, or so many bytes; each is given as a function that stamps it on demand.

    Numbers may come out of order and leave holes. Only what was here and had to go is gone for ever.
    """

    __slots__ = ("_bytes", "_events", "bytes_max", "gone_to", "limit", "newest")

    def __init__(self, limit: int, gone_to: int = 0, bytes_max: int = 0) -> None:
        self.limit = limit
        self.bytes_max = bytes_max  # 0: no limit
        self._bytes = 0
        self.newest = gone_to
        self.gone_to = gone_to  # everything up to here that is not here is gone
        self._events: OrderedDict[int, _Kept] = OrderedDict()

    def append(self, number: int, event: Callable[[int], Stamped], size: int = 0) -> None:
        """Keep the event with this number, which takes so many bytes; the newest is always kept."""
        self.newest = max(self.newest, number)
        before = self._events.get(number)
        self._bytes += size - (0 if before is None else before.size)
        self._events[number] = _Kept(event, size)
        self._make_room()

    def extend(self, numbers: range, event: Callable[[int], Stamped], size: int) -> None:
        """Keep the events with these numbers, none of which was here; each takes so many bytes."""
        self.newest = max(self.newest, numbers[-1])
        self._bytes += size * len(numbers)
        self._events.update(dict.fromkeys(numbers, _Kept(event, size)))
        self._make_room()

    def _make_room(self) -> None:
        while len(self._events) > self.limit or (
            self.bytes_max and self._bytes > self.bytes_max and len(self._events) > 1
        ):
            evicted, kept = self._events.popitem(last=False)
            self._bytes -= kept.size
            self.gone_to = max(self.gone_to, evicted)

    def find(self, numbers: Iterable[int], bytes_max: int = 0) -> tuple[tuple[Stamped, ...], tuple[int, ...]]:
        """Which of the numbers are still here, and which were here and are gone for ever.

        With `bytes_max` it stops after so many bytes, but not before the first event.
        """
        found: list[Stamped] = []
        gone: list[int] = []
        size = 0
        for number in numbers:
            kept = self._events.get(number)
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
        twin = Ring(self.limit)
        twin.newest, twin.gone_to, twin._events = self.newest, self.gone_to, self._events.copy()
        twin.bytes_max, twin._bytes = self.bytes_max, self._bytes
        return twin

    def state(self) -> Hashable:
        """Equal for rings that answer alike."""
        kept = tuple(
            (number, stamped.publication.id, tuple(sorted(stamped.entries.items())))
            for number, kept in self._events.items()
            for stamped in (kept.event(number),)
        )
        return (self.newest, self.gone_to, kept)
