"""Where publications become ordered notifications inside one process: the managers, on top of a service.

Everybody who connects to the same service meets in one hub. Topics that somebody wants in total order are
sequenced; the others go straight to the service.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from unisono.engines.effects import AcknowledgeRun, Announce, Effect, Send
from unisono.engines.inputs import TICK, Publish, Received
from unisono.engines.topic_managers.colocated import ColocatedManagers
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.ens.port import EventNotificationService
from unisono.model.errors import ConfigError
from unisono.model.event import Event
from unisono.model.frames import Batch, Heartbeat, Message, Publication, Run, Stamped
from unisono.runtime.receipts import Flight, Receipt
from unisono.runtime.timer import EngineTimer

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.subscription import Subscription

RING_EVENTS = 16384
IDS_MAX = 65536


class Hub:
    """The managers of all topics of a service, their subscribers, and who must wait for whom."""

    def __init__(self, service: EventNotificationService) -> None:
        self.service = service
        ring = 0 if service.capabilities.reliable else RING_EVENTS
        self.managers = ColocatedManagers(ManagerSettings(ring_events=ring))
        self.publishers: dict[Bus, None] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.full: dict[Subscription, None] = {}  # those that make publishers wait
        self.loop = asyncio.get_running_loop()  # everybody who meets here runs in it
        self._parked: dict[Callable[[], None], None] = {}
        self._ids: OrderedDict[tuple[str, str], Receipt] = OrderedDict()
        self._timer: EngineTimer | None = None
        self._viewed: Batch | None = None  # the batch that subscriptions are being told of
        self._views: dict[int | None, list[Event[Any]]] = {}
        self._shareable = False

    # Subscriptions.

    def admit(self, subscription: Subscription) -> dict[str, int]:
        """Take in a subscription; returns from which numbers on it is owed events."""
        if subscription.name in self.subscriptions:
            raise ConfigError(
                f"a subscription named '{subscription.name}' is already open; choose another name"
            )
        self.subscriptions[subscription.name] = subscription
        if not subscription.options.is_total:
            return {topic: self.sequenced(topic) for topic in sorted(subscription.topics)}
        return self.managers.register(subscription.topics, subscription.options.weight)

    def sequenced(self, topic: str) -> int:
        """The newest number of a topic; 0 if nobody wants it ordered."""
        place = self.managers.index.get(topic)
        return 0 if place is None else self.managers.clock[place]

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

    def streams(self, topics: frozenset[str]) -> dict[str, int]:
        """How far each publisher's own stream of events has come on these topics."""
        return {stream: nth for bus in self.publishers for stream, nth in bus.departed(topics).items()}

    def dismiss(self, subscription: Subscription) -> None:
        """A subscription has ended."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            if subscription.options.is_total:
                self.managers.unregister(subscription.topics, subscription.options.weight)
        self.make_room(subscription)

    # Publishing.

    def known(self, topic: str, id: str) -> Receipt | None:
        """The receipt of an event that was published with this id before, if it is remembered."""
        receipt = self._ids.get((topic, id))
        return None if receipt is None or receipt.has_failed else receipt

    def remember(self, topic: str, id: str, receipt: Receipt) -> None:
        """Remember an id, so that a retry does not become a second event."""
        self._ids[topic, id] = receipt
        if len(self._ids) > IDS_MAX:
            self._ids.popitem(last=False)

    def depart(self, flight: Flight) -> None:
        """Give every publication of a flight its place, and hand it to the service."""
        publications, index = flight.publications, self.managers.index
        topics = {p.topic for p in publications}
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
        for seat in flight.keyed:
            receipt = Receipt(flight, seat)
            key = (receipt.topic, receipt.id)
            if key in self._ids:
                self._ids[key] = receipt.alone()

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

    def views(self, batch: Batch, places: list[int] | None) -> list[Event[Any]]:
        """The events at these places of a batch, for applications that take them as they are.

        Raw bytes cannot be changed by anybody, so subscriptions that ask for the same places get the same
        list. Anything else is decoded for each application on its own.
        """
        publications = batch.publications
        source = batch if isinstance(batch, Run) else None
        if self._viewed is not batch:
            self._viewed, self._views = batch, {}
            self._shareable = not any([p.content for p in publications])  # noqa: C419 (faster)
        key = id(places) if places is not None else None  # a batch keeps its lists of places alive
        events = self._views.get(key) if self._shareable else None
        if events is None:
            chosen = range(len(publications)) if places is None else places
            events = self._views[key] = [Event(publications[i], source, i) for i in chosen]
        return events

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

    # Back-pressure.

    def park(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room again."""
        self._parked[resume] = None

    def unpark(self, resume: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._parked.pop(resume, None)

    def make_room(self, subscription: Subscription) -> None:
        """A subscription is no longer full."""
        self.full.pop(subscription, None)
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
