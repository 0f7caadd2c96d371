"""Where publications become ordered notifications inside one process: the managers, on top of a service.

Everybody who connects to the same service meets in one hub. Topics that somebody wants in total order are
sequenced; the others go straight to the service. Before the first event of a topic is numbered, every
subscription with a pattern that matches it joins it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from unisono.engines.effects import AcknowledgeRun, Announce, Effect, Send
from unisono.engines.fifo import stream_of
from unisono.engines.inputs import TICK, Publish, Received
from unisono.engines.plan import Plan
from unisono.engines.topic_managers.colocated import ColocatedManagers
from unisono.engines.topic_managers.groups import Holder
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.ens.port import EventNotificationService
from unisono.model.durability import Durability
from unisono.model.errors import ConfigError, PlanError
from unisono.model.frames import Batch, Heartbeat, Message, Publication, Run, Stamped
from unisono.runtime.known_ids import KnownIds
from unisono.runtime.local import LocalSubscription
from unisono.runtime.options import Options
from unisono.runtime.receipts import Flight
from unisono.runtime.timer import EngineTimer

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.lane import Lane
    from unisono.runtime.recorder import Recorder

RING_EVENTS = 16384
MET_MAX = 65536  # topics of which it is remembered that patterns have been compared with them


class Hub:
    """The managers of all topics of a service, their subscribers, and who must wait for whom."""

    is_quiet = False  # what departs is heard of at once

    def __init__(self, service: EventNotificationService) -> None:
        self.service = service
        ring = 0 if service.capabilities.reliable else RING_EVENTS
        self.managers = ColocatedManagers(ManagerSettings(ring_events=ring))
        self.publishers: dict[Bus, None] = {}
        self.subscriptions: dict[str, LocalSubscription] = {}
        self.full: dict[Lane, None] = {}  # those that make publishers wait
        self.rejected = self.retries = 0  # nothing comes from elsewhere
        self.plan: Plan | None = None  # the one applied last
        self.newest_life = 0  # the incarnation of the bus that opened last
        self.loop = asyncio.get_running_loop()  # everybody who meets here runs in it
        self._holders: dict[LocalSubscription, Holder] = {}  # those that want their topics sequenced
        self._held: Counter[str] = Counter()  # how many subscriptions hold a topic, in whatever order
        self._watchers: dict[LocalSubscription, None] = {}  # those with patterns
        self._met: set[str] = set()  # topics that no watcher need be told of
        self._parked: dict[Callable[[], None], None] = {}
        self.ids = KnownIds()
        self._timer: EngineTimer | None = None

    # Publishers.

    def welcome(self, bus: Bus) -> int:
        """Take in a publisher; returns its incarnation, above that of everybody who came before."""
        self.publishers[bus] = None
        self.newest_life = max(time.time_ns(), self.newest_life + 1)
        return self.newest_life

    def streams(self, topics: frozenset[str], flight: Flight | None = None) -> dict[str, int] | None:
        """How far each publisher's own stream of events had come on these topics before `flight`; None: who knows."""
        if not self.service.capabilities.sequenced:
            return None
        streams = {stream: nth for bus in self.publishers for stream, nth in bus.departed(topics).items()}
        for publication in reversed(flight.publications if flight is not None else []):
            if publication.topic in topics:
                streams[stream_of(publication)] = publication.nth - 1
        return streams

    async def part(self, bus: Bus) -> None:
        """A bus publishes no more, and its subscriptions have ended."""
        self.publishers.pop(bus, None)
        if not self.subscriptions:
            self.close()

    async def open(self) -> None:
        """Always ready."""

    # Subscriptions.

    def subscription(
        self, name: str, asked: frozenset[str], options: Options, recorder: Recorder | None
    ) -> LocalSubscription:
        """A subscription, not open yet."""
        if self.service.capabilities.sequenced:
            options.check_kept("a bus inside one process")
        else:
            options.check_unsequenced()
        return LocalSubscription(self, name, asked, options, recorder)

    def admit(self, subscription: LocalSubscription) -> None:
        """Take in a subscription that holds nothing yet."""
        if subscription.name in self.subscriptions:
            raise ConfigError(
                f"a subscription named '{subscription.name}' is already open; choose another name"
            )
        self.subscriptions[subscription.name] = subscription
        if subscription.options.is_total:
            self._holders[subscription] = Holder(subscription.options.weight)
        self.watch(subscription)

    def join(self, subscription: LocalSubscription, topics: frozenset[str]) -> dict[str, int]:
        """A subscription holds some topics more; returns from which numbers on it is owed their events."""
        self._held.update(topics)
        if subscription in self._holders:
            return self.managers.join(self._holders[subscription], topics)
        return {topic: self.sequenced(topic) for topic in sorted(topics)}

    def leave(self, subscription: LocalSubscription, topics: frozenset[str]) -> None:
        """A subscription holds some topics no longer."""
        for topic in topics:
            self._held[topic] -= 1
            if not self._held[topic]:
                del self._held[topic]
        if subscription in self._holders:
            self.managers.leave(self._holders[subscription], topics)

    def dismiss(self, subscription: LocalSubscription) -> None:
        """A subscription has ended."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            self._watchers.pop(subscription, None)
            self.leave(subscription, subscription.topics)
            holder = self._holders.pop(subscription, None)
            if holder is not None:
                self.managers.dismiss(holder)

    def is_held(self, topic: str) -> bool:
        """Whether any subscription holds a topic."""
        return topic in self._held

    def watch(self, subscription: LocalSubscription) -> None:
        """The patterns of a subscription are new, or have changed."""
        self._watchers.pop(subscription, None)
        if subscription.patterns:
            self._watchers[subscription] = None
            self._met.clear()

    def _meet(self, topics: set[str], flight: Flight) -> None:
        """Let every subscription hold those topics that its patterns match, before they are numbered."""
        fresh = topics - self._met
        for subscription in list(self._watchers):
            new = frozenset(t for t in fresh if t not in subscription.topics and subscription.wants(t))
            if new:
                subscription.meet(new, flight)
        if len(self._met) + len(fresh) > MET_MAX:
            self._met.clear()
        self._met |= fresh

    def sequenced(self, topic: str) -> int:
        """The newest number of a topic, or one that it will never come below."""
        return self.managers.newest(topic)

    def is_invented(self, frame: object) -> bool:
        """Whether a frame claims numbers that nobody here has given."""
        match frame:
            case Run(index=index):
                return index is not self.managers.index
            case Stamped(entries=entries):
                return any(number > self.sequenced(topic) for topic, number in entries.items())
            case Heartbeat(topic=topic, newest=newest):
                return newest > self.sequenced(topic)
        return False

    # Publishing.

    def depart(self, flight: Flight) -> None:
        """Give every publication of a flight its place, and hand it to the service."""
        publications = flight.publications
        topics = {p.topic for p in publications}
        if self._watchers and not topics <= self._met:
            self._meet(topics, flight)
        index = self.managers.index
        if topics.isdisjoint(index):
            self._publish_plain(publications, tuple(topics))
            flight.land(None)
        elif topics <= index.keys():
            flight.land(self._sequence(publications))
        else:
            ordered = [(seat, p) for seat, p in enumerate(publications) if p.topic in index]
            run = self._sequence([p for _, p in ordered])
            plain = [p for p in publications if p.topic not in index]
            self._publish_plain(plain, tuple({p.topic for p in plain}))
            flight.land(run, {seat: place for place, (seat, _) in enumerate(ordered)})
        self.ids.landed(flight)

    def _sequence(self, publications: list[Publication]) -> Run:
        run = None
        for effect in self.managers.handle(Publish(publications), asyncio.get_running_loop().time()):
            if isinstance(effect, AcknowledgeRun):
                run = effect.run
            else:
                self._carry_out(effect)
        self._reset_timer()
        assert run is not None
        return run

    def _publish_plain(self, publications: list[Publication], topics: tuple[str, ...]) -> None:
        if self.service.capabilities.multicast:
            self.service.publish(topics, Batch(publications))
        else:
            for publication in publications:
                self.service.publish((publication.topic,), publication)

    # Effects of the managers.

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Announce(topics, Run() as run) if self.service.capabilities.multicast:
                self.service.publish(topics, run)
            case Announce(_, Run() as run):
                for place, publication in enumerate(run.publications):
                    self.service.publish((publication.topic,), run.stamped(place))
            case Announce(topics, Heartbeat() as beat):
                self.service.publish(topics, beat)
            case Send(to, message):
                subscription = self.subscriptions.get(to)
                if subscription is not None:
                    asyncio.get_running_loop().call_soon(subscription.receive, message)

    def send(self, source: str, message: Message) -> None:
        """A subscriber has something to say to the managers."""
        asyncio.get_running_loop().call_soon(self._receive, source, message)

    def _receive(self, source: str, message: Message) -> None:
        for effect in self.managers.handle(Received(source, message), asyncio.get_running_loop().time()):
            self._carry_out(effect)

    def _reset_timer(self) -> None:
        if self.managers.settings.ring_events:
            if self._timer is None:
                self._timer = EngineTimer(self.managers, self._tick)
            self._timer.reset()

    def _tick(self) -> None:
        for effect in self.managers.handle(TICK, asyncio.get_running_loop().time()):
            self._carry_out(effect)
        if self.subscriptions:  # nobody to tell: the next event starts it again
            self._reset_timer()

    # Planning.

    def apply_plan(self, plan: Plan) -> tuple[str, ...]:
        """Keep a plan that orders every two topics that are ordered now; returns its topics that nobody holds."""
        groups = self.managers.groups.of
        for topic in sorted(groups):
            if topic not in plan.group:
                raise PlanError(
                    f"topic '{topic}' is in use but not in the plan; plan again from a newer journal"
                )
            for other in sorted(set(groups[topic]) - plan.group[topic]):
                raise PlanError(
                    f"'{topic}' and '{other}' are ordered together, but not by the plan; "
                    "plan again from a newer journal"
                )
        self.plan = plan
        return tuple(topic for topic in plan.rank if topic not in groups)

    # Back-pressure.

    @property
    def linger_s(self) -> float:
        """In one process nothing has to wait for company."""
        return 0.0

    @property
    def is_full(self) -> bool:
        """Whether publishers have to wait for a subscription."""
        return bool(self.full)

    @property
    def durability(self) -> Durability:
        """Everything ends with this process."""
        return "none"

    @property
    def trouble(self) -> str:
        """Nobody but a subscription holds anybody up here."""
        return ""

    @property
    def unconfirmed(self) -> int:
        """Whatever departs arrives at once."""
        return 0

    def park(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room again."""
        self._parked[resume] = None

    def unpark(self, resume: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._parked.pop(resume, None)

    def make_room(self, lane: Lane) -> None:
        """A subscription is no longer full."""
        self.full.pop(lane, None)
        if not self.full and self._parked:
            loop = asyncio.get_running_loop()
            for resume in self._parked:
                loop.call_soon(resume)
            self._parked.clear()

    def close(self) -> None:
        """Stop keeping time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_hubs: WeakKeyDictionary[EventNotificationService, ref[Hub]] = WeakKeyDictionary()


def hub_of(service: EventNotificationService) -> Hub:
    """The hub in which everybody connected to this service meets; it lives as long as one of them."""
    known = _hubs.get(service)
    hub = None if known is None else known()
    if hub is None or (hub.loop is not asyncio.get_running_loop() and hub.loop.is_closed()):
        hub = Hub(service)
        _hubs[service] = ref(hub)
    elif hub.loop is not asyncio.get_running_loop():
        raise ConfigError(
            "this service is in use in another event loop; open its buses in one loop, or use another name"
        )
    return hub
