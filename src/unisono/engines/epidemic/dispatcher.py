"""A dispatcher of content: subscriptions lay routes on the tree, events follow them, gossip brings back what is lost.

receive(e): known -> ignore;  holes below its numbers -> missing;  keep, deliver, and send on along the tree
            only if it came along the tree: what was recovered is not flooded again
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import deepcopy
from typing import TYPE_CHECKING, Self

import msgspec

from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic.cache import Cache
from unisono.engines.epidemic.forwarding import Forwarding
from unisono.engines.epidemic.inputs import Deliver, Effect, Input, Reject, Send
from unisono.engines.epidemic.known import Known
from unisono.engines.epidemic.messages import (
    Echo,
    Event,
    Interests,
    Mark,
    Message,
    Missed,
    Noted,
    PublisherPull,
    Push,
    Repair,
    Request,
    Steps,
    SubscriberPull,
    Watermark,
)
from unisono.engines.epidemic.patterns import Index, Key, Parser, PlainIndex
from unisono.engines.epidemic.recovery import Recovery
from unisono.engines.epidemic.routes import Routes
from unisono.engines.epidemic.settings import DispatcherSettings, jitter
from unisono.engines.epidemic.streams import Streams
from unisono.engines.epidemic.table import Table
from unisono.engines.epidemic.tracing import Tracing
from unisono.model.errors import PayloadError

if TYPE_CHECKING:
    from random import Random


class Dispatcher:
    """One dispatcher; `incarnation` is larger in each of its lives, `random` is the only chance it knows."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        random: Random,
        parse: Parser,
        settings: DispatcherSettings | None = None,
        index: Index | None = None,
    ) -> None:
        s = self.settings = settings or DispatcherSettings()
        self.name = name
        self.incarnation = incarnation
        self.random = random
        self.table = Table(s, index or PlainIndex())
        self.known = Known(s.sources_max, s.window_events)
        self.cache = Cache(s.cache_events_max, s.cache_policy, random)
        self.streams = Streams(s.streams_max, s.lost_max, s.lost_s_max)
        self.routes = Routes(s.routes_max)
        self.recovery = Recovery(
            name, s, random, self.table, self.cache, self.known, self.streams, self.routes
        )
        self.forwarding = Forwarding(name, incarnation, random, parse, s, self.table)
        self.tracing = Tracing(
            name, s, random, self.table, self.cache, self.known, self.streams, self.recovery
        )
        self.n = 0
        self.numbers: dict[Key, int] = {}  # what was last given, per pattern
        self._numbers_base = 0
        self.pace = 1.0  # rounds are so many times as long
        self.gossip_at: float | None = None
        self._silent: dict[Key, int] = {}  # what was published since the last word on it
        self._silent_at: float | None = None
        self._silences = 0

    # The contract

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.gossip_at is None and self.settings.algorithm != "none":
            self.gossip_at = now + self._interval()
        missing = self.streams.lost
        effects = self._handle(input, now)
        if self.streams.lost > missing and self.gossip_at is not None:
            self._hurry(now)
        return effects

    def _hurry(self, now: float) -> None:
        """Something is missing that was not before: who waits long for the next round no longer does."""
        assert self.gossip_at is not None
        if self.settings.adaptive and self.pace > 1:
            self.pace = 1.0
            self.gossip_at = min(self.gossip_at, now + self._interval())
        if self.settings.immediate:
            self.gossip_at = min(self.gossip_at, now + self.settings.immediate_gap_s)

    def _handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case io.Heard(source, message):
                return self._hear(source, message, now)
            case io.Tick():
                return self._tick(now)
            case io.PublishEvent(attributes, payload):
                return self._publish(attributes, payload, now)
            case io.Subscribe(client, text):
                return self.forwarding.change(client, text, True, now)
            case io.Unsubscribe(client, text):
                effects = self.forwarding.change(client, text, False, now)
                self.streams.keep(self.table.local)
                return effects
            case io.LinkAdded(neighbour):
                return self.forwarding.add_link(neighbour, now)
            case io.LinkRemoved(neighbour):
                return self.forwarding.remove_link(neighbour, now)

    def next_timer(self) -> float | None:
        """When to hand in a Tick."""
        timers = [self.gossip_at, self.tracing.beacon_at, self._silent_at, self.table.linger_until()]
        for link in self.table.links.values():
            timers += (link.resend_at, link.ask_at)
        due = [at for at in timers if at is not None]
        return min(due) if due else None

    def _tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = [*self.streams.expire(now), *self.forwarding.forget(now)]
        for name, link in self.table.links.items():
            interests = link.outgoing(now)
            if interests is not None:
                effects.append(Send(name, interests))
            if link.ask_at is not None and link.ask_at <= now:
                effects += self.tracing.ask(name, link, now)
        if self.tracing.beacon_at is not None and self.tracing.beacon_at <= now:
            effects += self.tracing.light_beacons(now)
        if self._silent_at is not None and self._silent_at <= now:
            effects += self._break_silence(now)
        if self.gossip_at is not None and self.gossip_at <= now:
            effects += self.recovery.start_round(now)
            self._adapt()
            self.gossip_at = now + self._interval()
        return effects

    # Events

    def _publish(
        self, attributes: dict[str, str | int | float | bool], payload: bytes, now: float
    ) -> list[Effect]:
        if len(payload) > self.settings.payload_bytes_max:
            most = self.settings.payload_bytes_max
            return [Reject(PayloadError(f"a payload of {len(payload)} bytes is over the limit of {most}"))]
        keys = self.table.matching(attributes)
        numbers = {key: self._next_number(key) for key in sorted(keys)}
        self.n += 1
        event = Event(self.name, self.incarnation, self.n, numbers, attributes, payload)
        self.known.add(event.id, now, now)
        self.cache.add(event, now, is_own=True)
        if numbers:
            self._note_silence(numbers)
            self._silences = 0
            self._silent_at = now + self._silence_s()
        return self._deliver(event, keys, now) + self._forward(event, keys, None, now)

    def _next_number(self, key: Key) -> int:
        """The next number of a pattern; one that was forgotten goes on above all it can have had."""
        number = self.numbers.pop(key, self._numbers_base) + 1
        self.numbers[key] = number
        if len(self.numbers) > self.settings.numbers_max:
            del self.numbers[next(iter(self.numbers))]
            self._numbers_base = self.n + 1
        return number

    def _take(self, event: Event, neighbour: str | None, now: float) -> list[Effect]:
        """An event from a neighbour on the tree, or from anybody past it."""
        published_at = now - event.age_ms / 1000
        if event.source == self.name or not self.known.add(event.id, published_at, now):
            self.streams.found(event)
            return []
        keys = self.table.matching(event.attributes)
        local = sorted(key for key in keys if key in self.table.local)
        effects: list[Effect] = [*self.streams.arrive(event, local, now)]
        self.cache.add(event, now, is_own=bool(local))
        effects += self._deliver(event, local, now)
        if neighbour is None:
            besides = next(iter(self.routes.back_to(event.source)), None)
            return effects + self.tracing.tell_of(event.id, self.tracing.entry(event, keys), besides, now)
        if event.route:
            self.routes.note(event.source, event.route[-self.settings.route_hops_max :])
        return effects + self._forward(event, keys, neighbour, now)

    def _deliver(self, event: Event, keys: set[Key] | list[Key], now: float) -> list[Effect]:
        clients = self.table.clients(keys, now - event.age_ms / 1000)
        return [Deliver(clients, event)] if clients else []

    def _forward(self, event: Event, keys: set[Key], besides: str | None, now: float) -> list[Effect]:
        if len(event.route) >= self.settings.route_hops_max:
            return []
        route = (*event.route, self.name)
        effects: list[Effect] = []
        for name, link in self.table.links.items():
            mine = keys & link.wanted.keys()
            if name != besides and mine:
                step = self.tracing.step(link, self.tracing.entry(event, mine), now)
                trail = link.trail.id if step else 0
                onward = msgspec.structs.replace(event, route=route, trail=trail, step=step)
                effects.append(Send(name, onward))
        return effects

    # Gossip

    def _hear(self, source: str, message: Message, now: float) -> list[Effect]:
        match message:
            case Event():
                self.tracing.track(source, message.trail, message.step, now)
                return self._take(message, source if source in self.table.links else None, now)
            case Steps(trail, last):
                self.tracing.track(source, trail, last, now, is_here=False)
                return []
            case Missed():
                return self.tracing.recall(source, message)
            case Repair(event):
                return self._take(event, None, now)
            case Interests():
                effects, fresh = self.forwarding.take_interests(source, message, now)
                link = self.table.links.get(source)
                return effects if link is None else effects + self.tracing.catch_up(source, link, fresh, now)
            case Noted():
                return self.forwarding.take_noted(source, message, now)
            case Push():
                return self._heed(message.pattern, message.marks, now) + self.recovery.take_push(
                    message, source
                )
            case Request():
                return self.recovery.answer(message, source, now)
            case SubscriberPull():
                effects = self._heed(message.pattern, message.marks, now)
                return effects + self.recovery.take_subscriber_pull(message, source, now)
            case PublisherPull():
                return self.recovery.take_publisher_pull(message, now)
            case Watermark():
                return self._take_watermark(source, message, now)
            case Echo():
                return self.tracing.take_echo(source, message, now)

    def _heed(self, key: Key, marks: tuple[Mark, ...], now: float) -> list[Effect]:
        """Watermarks on gossip: what somebody has heard of and we have not is missing."""
        if key not in self.table.local:
            return []
        since, effects = self.table.since(key), []
        for source, incarnation, number, age_ms in marks[: self.settings.watermarks_max]:
            if source != self.name:
                stream = (source, incarnation, key)
                effects += self.streams.tell(stream, number, now - age_ms / 1000, since, now)
        return [*effects]

    def _take_watermark(self, source: str, mark: Watermark, now: float) -> list[Effect]:
        effects: list[Effect] = []
        published_at = now - mark.age_ms / 1000
        for key, number in mark.numbers.items():
            if key in self.table.local and mark.source != self.name:
                stream = (mark.source, mark.incarnation, key)
                effects += self.streams.tell(stream, number, published_at, self.table.since(key), now)
        return effects + self.recovery.pass_on(mark, source)

    def _note_silence(self, numbers: dict[Key, int]) -> None:
        """Remember what to say when nothing more is published: as much as one message holds, the last of it."""
        for key, number in numbers.items():
            self._silent.pop(key, None)
            self._silent[key] = number
        while len(self._silent) > self.settings.digest_ids_max:
            del self._silent[next(iter(self._silent))]

    def _silence_s(self) -> float:
        return self.settings.silence_s * 2.0**self._silences

    def _break_silence(self, now: float) -> list[Effect]:
        """Twice after the last event, backed off: so far I had come."""
        numbers = {key: n for key, n in self._silent.items() if key in self.table.patterns}
        age_ms = round(self.settings.silence_s * (2.0 ** (self._silences + 1) - 1) * 1000)
        self._silences += 1
        self._silent_at = now + self._silence_s() if self._silences < 2 else None
        if self._silences == 2:
            self._silent.clear()
        if self.settings.algorithm != "combined" or not numbers:
            return []
        mark = Watermark(self.name, self.incarnation, numbers, age_ms, self.settings.route_hops_max)
        return self.recovery.pass_on(mark, None)

    # Rounds

    def _adapt(self) -> None:
        if not self.settings.adaptive:
            return
        if self.streams.lost:
            self.pace = max(min(self.pace, 1.0) / 2, 1 / self.settings.speed_up_max)
        else:
            self.pace = min(max(self.pace, 0.5) * 2, self.settings.slow_down_max)

    def _interval(self) -> float:
        return self.settings.gossip_s * self.pace * jitter(self.random, self.settings)

    # For who drives it

    def check(self) -> None:
        """Assert the invariants, the bounds among them."""
        s = self.settings
        self.table.check()
        self.cache.check()
        self.streams.check()
        assert len(self.known) <= s.sources_max
        assert len(self.routes) <= s.routes_max
        assert len(self.numbers) <= s.numbers_max
        assert len(self.tracing.told) <= s.told_max
        assert len(self._silent) <= s.digest_ids_max
        assert {stream[2] for stream in self.streams.missing()} <= self.table.local.keys()
        for link in self.table.links.values():
            assert len(link.trail) <= s.trail_steps_max
            assert len(link.tracker) <= s.trail_steps_max
            assert link.unconfirmed <= max(s.unconfirmed_max, len(link.told) + 1)

    def copy(self) -> Self:
        """An independent twin."""
        return deepcopy(self)

    def state(self) -> Hashable:
        """Equal exactly when two dispatchers would behave alike from now on."""
        return (
            self.name,
            self.incarnation,
            self.n,
            tuple(self.numbers.items()),
            tuple((name, link.picture()) for name, link in self.table.links.items()),
            self.table.picture(),
            self.known.picture(),
            self.cache.picture(),
            self.streams.picture(),
            self.routes.picture(),
            tuple(self.tracing.told.items()),
            self.forwarding.sessions,
            (self._numbers_base, tuple(self._silent.items()), self._silent_at, self._silences),
            (self.pace, self.gossip_at, self.tracing.beacon_at, self.recovery.rounds),
            self.random.getstate(),
        )
