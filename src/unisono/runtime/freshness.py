"""Events with deadlines on their way to the application: looked at once more when they are about to be taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from unisono.model.event import Event

TOO_LATE = "too late"  # the same word as in deadline-causal order


class Fresh(list[Event[Any]]):
    """Events of which those are left out that have become too late when they are about to be taken."""

    def __init__(self, is_too_late: Callable[[Event[Any]], bool], events: list[Event[Any]]) -> None:
        super().__init__(events)
        self.is_too_late = is_too_late

    def __iter__(self) -> Iterator[Event[Any]]:
        return Taking(self)


class Taking:
    """Goes through them once, and knows how many are left at most."""

    def __init__(self, events: Fresh) -> None:
        self._events = events
        self._place = 0

    def __iter__(self) -> Self:
        return self

    def __length_hint__(self) -> int:
        return len(self._events) - self._place

    def __next__(self) -> Event[Any]:
        while self._place < len(self._events):
            self._place += 1
            event = self._events[self._place - 1]
            if not self._events.is_too_late(event):
                return event
        raise StopIteration
