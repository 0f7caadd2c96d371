"""The last events of a topic, kept by whoever emits it, for subscribers that missed some."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable

from unisono.model.frames import Stamped


class Ring:
    """At most `limit` consecutive events, newest last; each is given as a function that stamps it on demand."""

    __slots__ = ("_events", "limit", "newest")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.newest = 0
        self._events: deque[Callable[[], Stamped]] = deque(maxlen=limit)

    def append(self, number: int, event: Callable[[], Stamped]) -> None:
        """Keep the event with this number, which is the newest."""
        self.newest = number
        self._events.append(event)

    def find(self, numbers: Iterable[int]) -> tuple[tuple[Stamped, ...], tuple[int, ...]]:
        """Which of the numbers are still here, and which were here and are gone for ever."""
        oldest = self.newest - len(self._events) + 1
        found, gone = [], []
        for number in numbers:
            if oldest <= number <= self.newest:
                found.append(self._events[number - oldest]())
            elif 0 < number < oldest:
                gone.append(number)
        return tuple(found), tuple(gone)

    def copy(self) -> Ring:
        """An independent twin."""
        twin = Ring(self.limit)
        twin.newest = self.newest
        twin._events = self._events.copy()
        return twin

    def state(self) -> Hashable:
        """Equal for rings that answer alike."""
        return (
            self.newest,
            tuple((s.publication.id, tuple(sorted(s.entries.items()))) for e in self._events for s in (e(),)),
        )
