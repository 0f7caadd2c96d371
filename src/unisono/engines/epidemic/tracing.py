"""Trails at work: what a neighbour missed is found out, told on, and fetched from who holds it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

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


NUMBERS_MAX = 4  # for each event that a message tells of, on average: it has to fit into a datagram


class Told(NamedTuple):
    """A lost event of which we told those who would have got it from here."""

    entry: Entry
    by: str | None  # the neighbour that told us, or that it should have come from
    at: float


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
        self.told: dict[
            EventId, Told
        ] = {}  # lost events of which others know, the one told of last comes last

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

    def doubt(self, source: str, trail: int, step: int, now: float) -> None:
        """A neighbour has told of a step; unless the event comes soon, and no pull asks for it, ask again what it was."""
        link = self.table.links.get(source)
        if link is not None and trail:
            link.tracker.reach(trail, step, is_here=False)
            if len(link.tracker) and link.ask_at is None:
                link.ask_at = now + self.settings.gossip_s / 2 * jitter(self.random, self.settings)

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
        fitting = self._fitting(entry for _, entry in entries)
        some = tuple((step, entry) for (step, _), entry in zip(entries, fitting, strict=False))
        return [Send(source, Echo(missed.trail, some))] if some else []

    def take_echo(self, source: str, echo: Echo, now: float) -> list[Effect]:
        """Ask for what is wanted here, and tell those who would have got it from here."""
        wanted: dict[str, dict[EventId, None]] = {}
        effects: list[Effect] = []
        for step, entry in echo.entries[: self.settings.digest_ids_max]:
            holder, publisher, incarnation, n, numbers = entry
            id = EventId(publisher, incarnation, n)
            if id in self.known or publisher == self.name:
                self.track(source, echo.trail, step, now)
                continue
            mine = [(key, number) for key, number in numbers if key in self.table.local]
            for key, number in mine:
                if number:
                    effects += self.streams.claim((publisher, incarnation, key), number, now, now)
            is_unclear = self.table.leads_below({key for key, _ in numbers}, source)
            if mine or is_unclear:
                wanted.setdefault(holder, {})[id] = None
            if is_unclear or not all(number for _, number in mine):
                self.doubt(source, echo.trail, step, now)
            else:
                self.track(source, echo.trail, step, now)
            effects += self.tell_of(id, entry, source, now)
        for holder, ids in wanted.items():
            effects += self.recovery.request(holder, list(ids))
        return _merged(effects)

    def tell_of(self, id: EventId, entry: Entry, by: str | None, now: float) -> list[Effect]:
        """Tell the neighbours who would have got an event that it was lost: of each of its patterns once."""
        if not self.is_on:
            return []
        before = self.told.get(id)
        known = dict(before.entry[4]) if before else {}
        news = {k: n for k, n in entry[4] if k in self.table.patterns and k not in known}
        if before and not news:
            return []
        if before:
            by = before.by
            del self.told[id]
        self.told[id] = Told((*entry[:4], tuple((known | news).items())), by, now)
        if len(self.told) > self.settings.told_max:
            del self.told[next(iter(self.told))]
        effects: list[Effect] = []
        for name, link in self.table.links.items():
            numbers = tuple((key, number) for key, number in news.items() if key in link.wanted)
            if name != by and numbers:
                mine = (*entry[:4], numbers)
                effects.append(Send(name, Echo(link.trail.id, ((self.step(link, mine, now), mine),))))
        return effects

    def catch_up(self, name: str, link: Link, fresh: Mapping[Key, float], now: float) -> list[Effect]:
        """Tell a neighbour of recent events that it would have got, had it been known before what it wants.

        `fresh` says since when somebody there wants what; to a subscription that is new it is told nothing. Of events
        that are not here, but of which we were told, it is told as well: they were on their way to who is there now.
        """
        within_s = min(self.settings.lost_s_max / 2, now - min(fresh.values(), default=now))
        if not self.is_on or within_s <= 0:
            return []
        some = self._fitting(self._recent(fresh, within_s, now))
        entries = tuple((self.step(link, entry, now), entry) for entry in some)
        return [Send(name, Echo(link.trail.id, entries))] if entries else []

    def _fitting(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """As many of these as one message tells of."""
        left = self.settings.digest_ids_max
        room = left * NUMBERS_MAX
        for entry in entries:
            left -= 1
            room -= len(entry[4])
            if left < 0 or room < 0:
                return
            yield entry

    def _recent(self, fresh: Collection[Key], within_s: float, now: float) -> Iterator[Entry]:
        """What can be said of recent events that are wanted for one of these patterns, or may be."""
        for event in self.cache.recent(within_s, now):
            keys = {key for key in self.table.matching(event.attributes) if key in fresh}
            if keys:
                yield self.entry(event, keys)
        for id, (entry, _, at) in reversed(self.told.items()):
            if at < now - within_s:
                return
            if id not in self.cache:
                known = dict(entry[4])
                numbers = tuple(
                    (key, known.get(key, 0)) for key in fresh if key in known or self.table.covers(known, key)
                )
                if numbers:
                    yield (*entry[:4], numbers)


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
