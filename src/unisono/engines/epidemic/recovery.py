"""Finding and fetching what the tree has lost: the three algorithms of the paper, each as what it sends and answers.

Push says what one has, along the routes to who wants it; who misses it asks for it. Pull says what one misses: towards
others who subscribe to the same pattern, or along the route back to the publisher; who has it sends it. Answers go past
the tree. Nothing here changes what is known, cached or missing: the dispatcher does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from unisono.engines.epidemic.cache import Cache
from unisono.engines.epidemic.inputs import Effect, Send
from unisono.engines.epidemic.known import Known
from unisono.engines.epidemic.messages import (
    Ids,
    PublisherPull,
    Push,
    Repair,
    Request,
    SubscriberPull,
    Watermark,
)
from unisono.engines.epidemic.numbers import Packed, pack, unpack
from unisono.engines.epidemic.patterns import Key
from unisono.engines.epidemic.routes import Routes
from unisono.engines.epidemic.settings import DispatcherSettings
from unisono.engines.epidemic.streams import Streams
from unisono.engines.epidemic.table import Table
from unisono.model.ids import EventId

if TYPE_CHECKING:
    from random import Random


class Recovery:
    """The gossip of one dispatcher."""

    def __init__(
        self,
        name: str,
        settings: DispatcherSettings,
        random: Random,
        table: Table,
        cache: Cache,
        known: Known,
        streams: Streams,
        routes: Routes,
    ) -> None:
        self.name = name
        self.settings = settings
        self.random = random
        self.table = table
        self.cache = cache
        self.known = known
        self.streams = streams
        self.routes = routes
        self.rounds = 0

    def start_round(self, now: float) -> list[Effect]:
        """What a gossip round begins with."""
        self.rounds += 1
        match self.settings.algorithm:
            case "push":
                return self.push(now)
            case "subscriber_pull":
                return self.pull_from_subscribers(now)
            case "publisher_pull":
                return self.pull_from_publishers(now)
            case "combined":
                effects = self.push(now) if self.rounds % self.settings.push_every == 0 else []
                if self.random.random() < self.settings.subscriber_share:
                    return effects + (self.pull_from_subscribers(now) or self.pull_from_publishers(now))
                return effects + self.pull_from_publishers(now)
        return []

    # Push

    def push(self, now: float) -> list[Effect]:
        """Tell subscribers of any pattern of the table which events that match it are here."""
        keys = sorted(self.pushed())
        if not keys:
            return []
        key = self.random.choice(keys)
        pattern = self.table.patterns[key]
        ids = [e.id for e in self.cache if key in e.numbers or pattern.matches(e.attributes)]
        if not ids:
            return []
        push = Push(self.name, key, self._digest(ids), self._marks(key, now), self.settings.route_hops_max)
        return self._spread(push, None)

    def pushed(self) -> Collection[Key]:
        """The patterns that a round of push chooses from: all, as those of others concern whoever passes events on."""
        return self.table.patterns

    def take_push(self, push: Push, source: str) -> list[Effect]:
        """Ask the initiator for what somebody here misses, and pass the digest on, perhaps."""
        effects: list[Effect] = []
        if self.table.concerned(push.pattern) and push.initiator != self.name:
            missed = [id for id in self._ids(push.ids) if id not in self.known]
            effects += self.request(push.initiator, missed)
        if push.hops_left > 0 and self.random.random() < self.settings.forward_probability:
            effects += self._spread(
                msgspec.structs.replace(push, hops_left=self._hops(push.hops_left)), source
            )
        return effects

    def request(self, holder: str, ids: list[EventId]) -> list[Effect]:
        """Ask a dispatcher for events by their identity."""
        return [Send(holder, Request(self._digest(ids)))] if ids else []

    def answer(self, request: Request, source: str, now: float) -> list[Effect]:
        """Send those that are here."""
        found = (self.cache.get(id, now) for id in self._ids(request.ids))
        return [Send(source, Repair(event)) for event in found if event is not None]

    # Pull towards subscribers

    def pull_from_subscribers(self, now: float) -> list[Effect]:
        """Ask other subscribers of each pattern of which something is missing."""
        missing: dict[Key, dict[tuple[str, int], Iterable[int]]] = {}
        for (source, incarnation, key), numbers in self.streams.missing().items():
            missing.setdefault(key, {})[source, incarnation] = numbers
        effects: list[Effect] = []
        for key, by_source in missing.items():
            wanted = self._portion(by_source)
            pull = SubscriberPull(self.name, key, wanted, self._marks(key, now), self.settings.route_hops_max)
            effects += self._spread(pull, None)
        return effects

    def take_subscriber_pull(self, pull: SubscriberPull, source: str, now: float) -> list[Effect]:
        """Answer what is here, and pass on the rest: always if nobody here subscribes, else perhaps."""
        effects: list[Effect] = []
        rest: list[tuple[str, int, Packed]] = []
        left = self.settings.digest_ids_max
        for publisher, incarnation, packed in pull.wanted:
            still = []
            for number in unpack(packed, left):
                left -= 1
                event = self.cache.find(publisher, incarnation, pull.pattern, number, now)
                if event is None:
                    still.append(number)
                else:
                    effects.append(Send(pull.initiator, Repair(event)))
            if still:
                rest.append((publisher, incarnation, pack(still)))
        is_passed_on = (
            pull.pattern not in self.table.local or self.random.random() < self.settings.forward_probability
        )
        if rest and pull.hops_left > 0 and is_passed_on:
            onward = msgspec.structs.replace(pull, wanted=tuple(rest), hops_left=self._hops(pull.hops_left))
            effects += self._spread(onward, source)
        return effects

    # Pull towards the publisher

    def pull_from_publishers(self, now: float) -> list[Effect]:
        """Ask on the way back to each source of which something is missing, so many of them in a round."""
        missing: dict[tuple[str, int], list[tuple[Key, Iterable[int]]]] = {}
        tries: dict[tuple[str, int], int] = {}
        for stream, numbers in self.streams.missing().items():
            life = stream[:2]
            missing.setdefault(life, []).append((stream[2], numbers))
            tries[life] = max(tries.get(life, 0), self.streams.tries.get(stream, 0))
        chosen = sorted(missing)
        if len(chosen) > self.settings.sources_per_round:
            chosen = self.random.sample(chosen, self.settings.sources_per_round)
        effects: list[Effect] = []
        for source, incarnation in chosen:
            wanted = []
            left = self.settings.digest_ids_max
            for key, some in missing[source, incarnation]:
                if left <= 0:
                    break  # what is asked for is found or given up: the others have their turn
                stream = (source, incarnation, key)
                self.streams.tries[stream] = self.streams.tries.get(stream, 0) + 1
                few = sorted(some)[:left]
                left -= len(few)
                wanted.append((key, pack(few)))
            is_stale = tries[source, incarnation] >= self.settings.route_tries
            route = () if is_stale else self.routes.back_to(source)
            pull = PublisherPull(self.name, source, incarnation, tuple(wanted), route)
            effects += self._return(pull)
        return effects

    def take_publisher_pull(self, pull: PublisherPull, now: float) -> list[Effect]:
        """Answer what is here, and pass on the rest unless this is its source."""
        effects: list[Effect] = []
        rest: list[tuple[Key, Packed]] = []
        left = self.settings.digest_ids_max
        for key, packed in pull.wanted:
            still = []
            for number in unpack(packed, left):
                left -= 1
                event = self.cache.find(pull.source, pull.incarnation, key, number, now)
                if event is None:
                    still.append(number)
                else:
                    effects.append(Send(pull.initiator, Repair(event)))
            if still:
                rest.append((key, pack(still)))
        if rest and self.name != pull.source:
            effects += self._return(msgspec.structs.replace(pull, wanted=tuple(rest)))
        return effects

    def _return(self, pull: PublisherPull) -> list[Effect]:
        """One step further on the way back; past the tree to the source where the way is broken."""
        if pull.source == self.name:
            return []
        to, route = (pull.route[0], pull.route[1:]) if pull.route else (pull.source, ())
        if to not in self.table.links:
            to, route = pull.source, ()
        return [Send(to, msgspec.structs.replace(pull, route=route[: self.settings.route_hops_max]))]

    # Common to all

    def pass_on(self, watermark: Watermark, besides: str | None) -> list[Effect]:
        """Tell the neighbours that lead to subscribers of these patterns how far a source had come."""
        by_neighbour: dict[str, dict[Key, int]] = {}
        for key, number in watermark.numbers.items():
            for neighbour in self.table.leading_to(key, besides):
                by_neighbour.setdefault(neighbour, {})[key] = number
        return [
            Send(
                to,
                msgspec.structs.replace(
                    watermark, numbers=numbers, hops_left=self._hops(watermark.hops_left)
                ),
            )
            for to, numbers in by_neighbour.items()
            if watermark.hops_left > 0
        ]

    def _hops(self, left: int) -> int:
        """How far it may go on from here, whatever it says itself."""
        return min(left, self.settings.route_hops_max) - 1

    def _spread(self, gossip: Push | SubscriberPull, besides: str | None) -> list[Effect]:
        """To some of the neighbours that lead to subscribers of the pattern, never back."""
        ways = [to for to in self.table.leading_to(gossip.pattern, besides) if to != gossip.initiator]
        if len(ways) > self.settings.fanout:
            ways = self.random.sample(ways, self.settings.fanout)
        return [Send(to, gossip) for to in ways]

    def _marks(self, key: Key, now: float) -> tuple[tuple[str, int, int, int], ...]:
        if key not in self.table.local or not self.settings.watermarks_max:
            return ()
        return tuple(self.streams.marks(key, self.settings.watermarks_max, self.settings.lost_s_max, now))

    def _digest(self, ids: list[EventId]) -> Ids:
        """Identities as they travel; another portion each time if there are too many."""
        by_source: dict[tuple[str, int], list[int]] = {}
        for id in self._some(ids):
            by_source.setdefault((id.publisher, id.incarnation), []).append(id.n)
        return tuple((*source, pack(numbers)) for source, numbers in by_source.items())

    def _portion(self, by_source: dict[tuple[str, int], Iterable[int]]) -> Ids:
        """The same for numbers of a pattern."""
        flat = [EventId(*source, number) for source, numbers in by_source.items() for number in numbers]
        return self._digest(flat)

    def _some(self, ids: list[EventId]) -> list[EventId]:
        most = self.settings.digest_ids_max
        if len(ids) <= most:
            return ids
        start = self.random.randrange(len(ids))
        return (ids + ids)[start : start + most]

    def _ids(self, ids: Ids) -> Iterator[EventId]:
        left = self.settings.digest_ids_max
        for source, incarnation, packed in ids:
            for n in unpack(packed, left):
                left -= 1
                yield EventId(source, incarnation, n)
