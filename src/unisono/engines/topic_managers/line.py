"""Events that wait in line, of which many are taken at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from unisono.model.frames import Publication

SPARE = 4096  # places at the front that are empty before they are thrown away
NOTHING = Publication("", 0, 0, "")


class Line:
    """Events in order: more come at the end, and some leave from the front."""

    __slots__ = ("_at", "_events")

    def __init__(self, events: Iterable[Publication] = ()) -> None:
        self._events = list(events)
        self._at = 0  # where the front is

    def __len__(self) -> int:
        return len(self._events) - self._at

    def __iter__(self) -> Iterator[Publication]:
        return islice(self._events, self._at, None)

    @property
    def first(self) -> Publication:
        """The one in front."""
        return self._events[self._at]

    def front(self, count: int) -> list[Publication]:
        """The first ones, at most so many."""
        return self._events[self._at : self._at + count]

    def extend(self, events: Iterable[Publication]) -> None:
        """These come."""
        self._events.extend(events)

    def leave(self, count: int) -> None:
        """The first ones leave."""
        at = self._at = self._at + count
        if at == len(self._events) or at > SPARE:
            del self._events[:at]
            self._at = 0
        else:
            self._events[at - count : at] = [NOTHING] * count  # nobody is kept who has left

    def copy(self) -> Line:
        """An independent twin."""
        return Line(self)
