"""Copies of events for those who miss them, up to a bound; which one goes first is the policy's choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unisono.engines.epidemic.messages import Event
from unisono.engines.epidemic.patterns import Key
from unisono.engines.epidemic.settings import CachePolicy
from unisono.model.ids import EventId

if TYPE_CHECKING:
    from random import Random


class _Pool:
    """Events that are alike to the policy: the oldest, or any one, in constant time."""

    def __init__(self) -> None:
        self.places: dict[EventId, int] = {}  # oldest first
        self.ids: list[EventId] = []

    def add(self, id: EventId) -> None:
        self.places[id] = len(self.ids)
        self.ids.append(id)

    def take_oldest(self) -> EventId:
        return self._take(next(iter(self.places)))

    def take_any(self, random: Random) -> EventId:
        return self._take(self.ids[random.randrange(len(self.ids))])

    def _take(self, id: EventId) -> EventId:
        place, last = self.places.pop(id), self.ids.pop()
        if last != id:
            self.ids[place], self.places[last] = last, place
        return id


class Cache:
    """The events a dispatcher can still send to others."""

    def __init__(self, events_max: int, policy: CachePolicy, random: Random) -> None:
        self.events_max = events_max
        self.policy = policy
        self.random = random
        self._events: dict[EventId, tuple[Event, float]] = {}  # and since when
        self._by_number: dict[tuple[str, int, Key, int], EventId] = {}
        self._own, self._passing = _Pool(), _Pool()

    def __len__(self) -> int:
        return len(self._events)

    def __contains__(self, id: EventId) -> bool:
        return id in self._events

    def __iter__(self) -> Iterator[Event]:
        return (event for event, _ in self._events.values())

    def add(self, event: Event, now: float, *, is_own: bool) -> None:
        """Keep an event; `is_own`: it was published here or somebody here wants it."""
        if self.events_max == 0 or (self.policy == "source_or_subscriber" and not is_own):
            return
        id = event.id
        self._events[id] = (event, now)
        for key, number in event.numbers.items():
            self._by_number[event.source, event.incarnation, key, number] = id
        (self._passing if self.policy == "interest_first" and not is_own else self._own).add(id)
        if len(self._events) > self.events_max:
            self._forget(self._victim())

    def _victim(self) -> EventId:
        """Others' before own ones; others' at random, so that the copies of an event do not vanish together."""
        if self._passing.ids:
            return self._passing.take_any(self.random)
        return self._own.take_any(self.random) if self.policy == "random" else self._own.take_oldest()

    def _forget(self, id: EventId) -> None:
        event, _ = self._events.pop(id)
        for key, number in event.numbers.items():
            numbered = (event.source, event.incarnation, key, number)
            if self._by_number.get(numbered) == id:  # nobody honest gives a number twice
                del self._by_number[numbered]

    def get(self, id: EventId, now: float) -> Event | None:
        """An event by its identity, as old as it is by now."""
        kept = self._events.get(id)
        return None if kept is None else aged(*kept, now)

    def find(self, source: str, incarnation: int, key: Key, number: int, now: float) -> Event | None:
        """An event by its number of a pattern, whichever pattern it was kept for."""
        id = self._by_number.get((source, incarnation, key, number))
        return None if id is None else self.get(id, now)

    def recent(self, within_s: float, now: float) -> Iterator[Event]:
        """The events that came within this time, the newest first."""
        for event, since in reversed(self._events.values()):
            if since < now - within_s:
                return
            yield event

    def picture(self) -> tuple[object, ...]:
        """Equal for caches that hold the same, and will let go of the same."""
        kept = tuple((id, event.age_ms, since) for id, (event, since) in self._events.items())
        return (kept, tuple(self._own.ids), tuple(self._passing.ids))

    def check(self) -> None:
        """Assert that nothing is kept that cannot be found, and nothing beyond the bound."""
        assert len(self._events) <= self.events_max
        assert len(self._own.ids) + len(self._passing.ids) == len(self._events)
        assert set(self._by_number.values()) <= set(self._events)


def aged(event: Event, since: float, now: float) -> Event:
    """The same event after it was kept from `since` to `now`."""
    kept_ms = round((now - since) * 1000)
    if kept_ms <= 0:
        return event
    return Event(
        event.source,
        event.incarnation,
        event.n,
        event.numbers,
        event.attributes,
        event.payload,
        event.age_ms + kept_ms,
        event.route,
    )
