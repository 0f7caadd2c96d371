"""Trails at work: what a neighbour missed is found out, told on, and fetched from who holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unisono.engines.epidemic.cache import Cache
from unisono.engines.epidemic.inputs import Effect, Send
from unisono.engines.epidemic.known import Known
from unisono.engines.epidemic.links import Link
from unisono.engines.epidemic.messages import Echo, Entry, Event, Missed, Steps
from unisono.engines.epidemic.numbers import unpack
from unisono.engines.epidemic.patterns import Key
from unisono.engines.epidemic.recovery import Recovery
from unisono.engines.epidemic.settings import DispatcherSettings, jitter
from unisono.engines.epidemic.streams import Streams
from unisono.engines.epidemic.table import Table
from unisono.model.ids import EventId

if TYPE_CHECKING:
    from random import Random


class Tracing:
    """The trails of one dispatcher."""

    def __init__(
        self,
        name: str,
        settings: DispatcherSettings,
        random: Random,
        table: Table,
        cache: Cache,
        known: Known,
        streams: Streams,
        recovery: Recovery,
    ) -> None:
        self.name = name
        self.settings = settings
        self.random = random
        self.table = table
        self.cache = cache
        self.known = known
        self.streams = streams
        self.recovery = recovery
        self.is_on = settings.trails and settings.algorithm == "combined"
        self.beacon_at: float | None = None
        self.told: dict[EventId, None] = {}  # lost events of which the others know

    def entry(self, event: Event, keys: set[Key]) -> Entry:
        """What can be said of an event here; its number is 0 for patterns that the source did not know."""
        numbers = tuple((key, event.numbers.get(key, 0)) for key in sorted(keys))
        return (self.name, event.source, event.incarnation, event.n, numbers)

    def step(self, link: Link, entry: Entry, now: float) -> int:
        """The next step on the trail to a neighbour, if there are trails."""
        if not self.is_on:
            return 0
        if self.beacon_at is None:
            self.beacon_at = now + self.settings.gossip_s * jitter(self.random, self.settings)
        return link.trail.add(entry)

    def light_beacons(self, now: float) -> list[Effect]:
        """Tell neighbours how far the trails to them have come."""
        effects: list[Effect] = []
        self.beacon_at = None
        for name, link in self.table.links.items():
            trail = link.trail
            if trail.beacons_left:
                trail.beacons_left -= 1
                effects.append(Send(name, Steps(trail.id, trail.last)))
            if trail.beacons_left:
                self.beacon_at = now + self.settings.gossip_s * jitter(self.random, self.settings)
        return effects

    def track(self, source: str, trail: int, step: int, now: float, *, is_here: bool = True) -> None:
        """A neighbour has made a step; if others before it are missing, ask for them soon."""
        link = self.table.links.get(source)
        if link is not None and trail:
            link.tracker.reach(trail, step, is_here=is_here)
            if len(link.tracker) and link.ask_at is None:
                link.ask_at = now + self.settings.immediate_gap_s

    def ask(self, name: str, link: Link, now: float) -> list[Effect]:
        """Ask a neighbour what the missed steps were, until it answers."""
        steps = link.tracker.ask(self.settings.digest_ids_max)
        link.ask_at = (
            now + self.settings.gossip_s / 2 * jitter(self.random, self.settings)
            if len(link.tracker)
            else None
        )
        return [Send(name, Missed(link.tracker.id or 0, steps))] if steps else []

    def recall(self, source: str, missed: Missed) -> list[Effect]:
        """Say what steps to a neighbour were."""
        link = self.table.links.get(source)
        if link is None or missed.trail != link.trail.id:
            return []
        entries = link.trail.recall(unpack(missed.steps, self.settings.digest_ids_max))
        return [Send(source, Echo(missed.trail, tuple(entries)))] if entries else []

    def take_echo(self, source: str, echo: Echo, now: float) -> list[Effect]:
        """Ask for what is wanted here, and tell those who would have got it from here."""
        wanted: dict[str, dict[EventId, None]] = {}
        effects: list[Effect] = []
        for step, entry in echo.entries[: self.settings.digest_ids_max]:
            self.track(source, echo.trail, step, now)
            holder, publisher, incarnation, n, numbers = entry
            id = EventId(publisher, incarnation, n)
            if id in self.known or publisher == self.name:
                continue
            for key, number in numbers:
                if key in self.table.local:
                    wanted.setdefault(holder, {})[id] = None
                    if number:
                        effects += self.streams.claim((publisher, incarnation, key), number, now, now)
            if id not in self.told:
                effects += self.tell_of(id, entry, source, now)
        for holder, ids in wanted.items():
            effects += self.recovery.request(holder, list(ids))
        return _merged(effects)

    def tell_of(self, id: EventId, entry: Entry, besides: str | None, now: float) -> list[Effect]:
        """Tell the neighbours who would have got an event that it was lost."""
        if not self.is_on:
            return []
        self.told[id] = None
        if len(self.told) > self.settings.told_max:
            del self.told[next(iter(self.told))]
        effects: list[Effect] = []
        for name, link in self.table.links.items():
            numbers = tuple((key, number) for key, number in entry[4] if key in link.wanted)
            if name != besides and numbers:
                mine = (*entry[:4], numbers)
                effects.append(Send(name, Echo(link.trail.id, ((self.step(link, mine, now), mine),))))
        return effects

    def catch_up(self, name: str, link: Link, fresh: Mapping[Key, float], now: float) -> list[Effect]:
        """Tell a neighbour of recent events that it would have got, had it been known before what it wants.

        `fresh` says since when somebody there wants what; to a subscription that is new it is told nothing.
        """
        within_s = min(self.settings.lost_s_max / 2, now - min(fresh.values(), default=now))
        if not self.is_on or within_s <= 0:
            return []
        entries: list[tuple[int, Entry]] = []
        for event in self.cache.recent(within_s, now):
            keys = {key for key in self.table.matching(event.attributes) if key in fresh}
            if keys and len(entries) < self.settings.digest_ids_max:
                entry = self.entry(event, keys)
                entries.append((self.step(link, entry, now), entry))
        return [Send(name, Echo(link.trail.id, tuple(entries)))] if entries else []


def _merged(effects: list[Effect]) -> list[Effect]:
    """The same, with the echoes to one neighbour in one message."""
    others: list[Effect] = []
    echoes: dict[str, tuple[int, list[tuple[int, Entry]]]] = {}
    for effect in effects:
        match effect:
            case Send(to, Echo(trail, entries)):
                echoes.setdefault(to, (trail, []))[1].extend(entries)
            case _:
                others.append(effect)
    return others + [Send(to, Echo(trail, tuple(entries))) for to, (trail, entries) in echoes.items()]
