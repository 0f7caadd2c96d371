"""The last events of a topic, kept for subscribers that missed some."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable

from unisono.model.frames import Stamped


class Ring:
    """At most `limit` events by number; each is given as a function that stamps it on demand.

    Numbers may come out of order and leave holes. Only what was here and had to go is gone for ever.
    """

    __slots__ = ("_events", "gone_to", "limit", "newest")

    def __init__(self, limit: int, gone_to: int = 0) -> None:
        self.limit = limit
        self.newest = gone_to
        self.gone_to = gone_to  # everything up to here that is not here is gone
        self._events: OrderedDict[int, Callable[[], Stamped]] = OrderedDict()

    def append(self, number: int, event: Callable[[], Stamped]) -> None:
        """Keep the event with this number."""
        self.newest = max(self.newest, number)
        self._events[number] = event
        if len(self._events) > self.limit:
            evicted, _ = self._events.popitem(last=False)
            self.gone_to = max(self.gone_to, evicted)

    def find(self, numbers: Iterable[int]) -> tuple[tuple[Stamped, ...], tuple[int, ...]]:
        """Which of the numbers are still here, and which were here and are gone for ever."""
        found, gone = [], []
        for number in numbers:
            event = self._events.get(number)
            if event is not None:
                found.append(event())
            elif 0 < number <= self.gone_to:
                gone.append(number)
        return tuple(found), tuple(gone)

    def copy(self) -> Ring:
        """An independent twin."""
        twin = Ring(self.limit)
        twin.newest, twin.gone_to, twin._events = self.newest, self.gone_to, self._events.copy()
        return twin

    def state(self) -> Hashable:
        """Equal for rings that answer alike."""
        kept = tuple(
            (number, stamped.publication.id, tuple(sorted(stamped.entries.items())))
            for number, event in self._events.items()
            for stamped in (event(),)
        )
        return (self.newest, self.gone_to, kept)
