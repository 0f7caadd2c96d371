"""Events with deadlines on their way to the application: looked at once more when they are about to be taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self

from unisono.model.event import Event

TOO_LATE = "too late"  # the same word as in deadline-causal order


class Taker(Protocol):
    """Whose events they are."""

    _left_out: int  # events that were dropped when they were about to be taken, and not told of yet

    def _is_too_late(self, event: Event[Any]) -> bool:
        """Whether an event about to be taken must be left out; if so, it is dropped."""
        ...


class Fresh(list[Event[Any]]):
    """Events of which those are left out that have become too late when they are about to be taken."""

    def __init__(self, taker: Taker, events: list[Event[Any]]) -> None:
        super().__init__(events)
        self.taker = taker

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
        taker = self._events.taker
        while self._place < len(self._events):
            self._place += 1
            event = self._events[self._place - 1]
            if not taker._is_too_late(event):
                event.missed += taker._left_out
                taker._left_out = 0
                return event
        raise StopIteration
