"""A bus as a broker of deadline-causal order: drives the engine, and gives its subscriptions what it delivers.

It listens from the start and says nothing until somebody, here or elsewhere, wants or publishes something with a
deadline. Then it tells others the events of its own bus that have a deadline, or that somebody wants with one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.effects import Accept, Effect, Heard, Input, Publish, Refuse, Send
from unisono.engines.deadline_causal.events import Key
from unisono.engines.deadline_causal.frames import BrokerFrame, Digest, Multicast, Repair, Sent
from unisono.engines.deadline_causal.holdback import Deliver, Discard
from unisono.engines.inputs import TICK, Change
from unisono.ens.port import EventNotificationService, Interest
from unisono.history.record import Kind
from unisono.model.errors import ConfigError, FrameError, LateError
from unisono.model.event import Event
from unisono.model.frames import Publication
from unisono.model.ids import is_pattern, matches
from unisono.runtime.deadline.post import DeadlinePost
from unisono.runtime.deadline.settings import Deadlines
from unisono.runtime.deadline.subscription import DeadlineSubscription
from unisono.runtime.deadline.wire import ANY, broker_of, client_of, decode, events_on, for_all, inbox_of
from unisono.runtime.receipts import Flight

if TYPE_CHECKING:
    from unisono.runtime.recorder import Recorder

IDS_MAX = 65536
NAMED_MAX = 1024  # brokers of which it is remembered that they were complained about

log = logging.getLogger("unisono")


class DeadlineBroker:
    """One bus among those that tell each other events with deadlines."""

    def __init__(
        self, service: EventNotificationService, name: str, deadlines: Deadlines, recorder: Recorder | None
    ) -> None:
        self.name = name
        self.deadlines = deadlines
        self.settings = deadlines.causal()
        self.subscriptions: dict[str, DeadlineSubscription] = {}
        self.engine: Broker | None = None  # until somebody needs it
        self.alone = False  # whether events have no other way: then one that cannot be told is refused
        self.refused = 0  # events whose deadlines were too near when they departed
        self.rejected = 0  # letters that made no sense
        self._service = service
        self._aside: EventNotificationService = getattr(service, "aside", lambda: service)()
        self._client = client_of(name)
        self._recorder = recorder
        self._interest: Interest | None = None
        self._heard_from: set[str] = set()  # brokers that cut time in another way, and were complained about
        self._since: dict[Key, float] = {}  # when what waits has come
        self._wanted: frozenset[str] = frozenset()  # topics and patterns, by whomever
        self._patterns: tuple[str, ...] = ()  # those of them that are patterns
        self._out: dict[DeadlineSubscription, list[Event[Any]]] = {}
        self._ids: dict[tuple[str, str], None] = {}  # topics and ids that users gave to what was delivered
        self._timer: asyncio.TimerHandle | None = None
        self._turned = asyncio.Event()  # set when a round is over

    # Opening and closing.

    async def open(self, life: int, *, alone: bool = False) -> None:
        """Listen to what others want and have."""
        self.alone = alone
        self.broker = broker_of(self._client, life)
        if self._aside is not self._service:
            await self._aside.connect()
        self._post = DeadlinePost(self._aside, self._client, self.broker, self.deadlines)
        self._interest = await self._aside.subscribe(self._names(()), self._arrived, with_topic=True)

    async def close(self) -> None:
        """Say nothing any more; others notice."""
        self._turned.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.engine = None
        interest, self._interest = self._interest, None
        if interest is not None:
            self._post.flush()
            if self._aside is not self._service:
                await self._aside.close()

    def _names(self, topics: Iterable[str]) -> frozenset[str]:
        """Where to listen for these topics and patterns, and for what always concerns us."""
        events = (events_on(ANY, topic) for topic in topics)
        return frozenset({for_all(ANY), inbox_of(ANY, self.broker), *events})

    def _wake(self) -> Broker:
        if self.engine is None:
            self.engine = Broker(self.broker, self.settings, multicast=True, serves=False)
            self._tick()
        return self.engine

    async def flush(self) -> None:
        """Return when everything said so far is in the service's hands."""
        if self._interest is not None:
            self._post.flush()
            if (
                not self._aside.capabilities.carries_objects
            ):  # where it does, there is always gossip under way
                await self._aside.flush()

    # Subscriptions.

    async def admit(self, subscription: DeadlineSubscription) -> None:
        """Take in a subscription; returns when others can know of it."""
        if subscription.name in self.subscriptions:
            raise ConfigError(
                f"a subscription named '{subscription.name}' is already open; choose another name"
            )
        self.check_deadline(subscription, subscription.asked)
        self.subscriptions[subscription.name] = subscription
        try:
            await self.listen()
        except BaseException:
            self.dismiss(subscription)
            raise

    def check_deadline(self, subscription: DeadlineSubscription, asked: frozenset[str]) -> None:
        """Raise ConfigError if another subscription of this bus has another deadline for one of these topics."""
        for other in self.subscriptions.values():
            if other.options.deadline == subscription.options.deadline or other is subscription:
                continue
            for topic in sorted(asked):
                if any(topic == x or matches(topic, x) or matches(x, topic) for x in other.asked):
                    raise ConfigError(
                        f"deadline={subscription.options.deadline:g}: subscription '{other.name}' of this bus holds "
                        f"'{topic}' with deadline={other.options.deadline:g}; use the same, or a bus of its own"
                    )

    async def listen(self) -> None:
        """Listen to what subscriptions ask for now, and let everybody know; about a round later it is known."""
        interest = self._interest
        if interest is None:
            return
        await self._aside.change(interest, self._names(self._asked()))
        if self._interest is not interest:
            return  # the bus was closed meanwhile
        engine, asked = self._wake(), self._asked()
        engine.hold.patience = {
            topic: s.options.deadline
            for s in self.subscriptions.values()
            for topic in (*s.asked, *s.topics)
            if s.options.deadline is not None
        }
        held = asked.union(*(s.topics for s in self.subscriptions.values()))
        new, gone = held - engine.topics, engine.topics - held
        if new or gone:
            self._handle(Change(tuple(sorted(new)), tuple(sorted(gone))))
            self._deliver()
        if new:
            self._turned.clear()
            await self._turned.wait()
            await self.flush()

    def _asked(self) -> frozenset[str]:
        return frozenset(name for s in self.subscriptions.values() for name in s.asked)

    def dismiss(self, subscription: DeadlineSubscription) -> None:
        """A subscription has ended."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]

    def _meet(self, topics: set[str]) -> None:
        """Hold those of these topics that a pattern stands for, before the first that is heard of them is taken."""
        engine = self._wake()
        for subscription in self.subscriptions.values():
            new = frozenset(t for t in topics - subscription.topics if subscription.wants(t))
            if new:
                subscription.meet(new)
                if subscription.options.deadline is not None:
                    engine.hold.patience |= dict.fromkeys(new, subscription.options.deadline)
                self._handle(Change(tuple(sorted(new))))

    # Publishing.

    def depart(self, flight: Flight) -> None:
        """Tell others those events of a flight that have a deadline, or are wanted with one."""
        if not (flight.timed or self.alone or self._wanted) or self._interest is None:
            return
        lifetime_s = self.deadlines.longest_s
        for seat, publication in enumerate(flight.publications):
            if publication.deadline is None and not self.alone and not self._is_wanted(publication.topic):
                continue
            until = publication.deadline or publication.published_at + lifetime_s
            if not self._tell(publication, until) and self.alone:
                flight.refuse(seat, LateError("the deadline is over before the event could be told"))
        self._post.flush()
        self._deliver()

    def _tell(self, publication: Publication, until: float) -> bool:
        engine = self._wake()
        if self.subscriptions and publication.topic not in engine.topics:
            self._meet({publication.topic})
        effects = self._handle(Publish(publication, until))
        if any(isinstance(effect, Refuse) for effect in effects):
            self.refused += 1
            return False
        if self._recorder is not None:
            stamp = engine.past[self.broker, publication.topic]
            event = engine.cache[self.broker, publication.topic, stamp]
            self._recorder.write(
                Kind.TOLD,
                event=str(publication.id),
                topic=publication.topic,
                number=stamp,
                stamp={"/".join(s): number for s, number in (*event.past.items(), (event.stream, stamp))},
                deadline=self.settings.due_at(event.last - self.settings.reserve),
            )
        return True

    def _is_wanted(self, topic: str) -> bool:
        return topic in self._wanted or any(matches(pattern, topic) for pattern in self._patterns)

    # The engine.

    def _tick(self) -> None:
        engine = self.engine
        assert engine is not None
        self._handle(TICK)
        self._deliver()
        self._look_who_wants(engine)
        self._turned.set()
        due = engine.next_timer() or 0.0
        delay = min(max(due - time.time(), 0.001), self.settings.round_s)
        self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _look_who_wants(self, engine: Broker) -> None:
        known = engine.neighbours.known.values()
        self._wanted = frozenset(engine.topics).union(*(neighbour.topics for neighbour in known))
        self._patterns = tuple(filter(is_pattern, self._wanted))

    def _arrived(self, topic: str, data: bytes) -> None:
        try:
            letter = decode(topic, data)
        except FrameError as error:
            self._reject(error)
            return
        if letter.broker == self.broker or self._interest is None:
            return
        if letter.pace != self.deadlines.pace:
            self._complain(letter.broker)
            return
        try:
            if self.engine is None and not any(isinstance(f, Digest) and f.topics for f in letter.frames):
                return  # nobody wants anything
            if any(subscription.patterns for subscription in self.subscriptions.values()):
                self._meet({topic for frame in letter.frames for topic in _mentioned(frame)})
            for frame in letter.frames:
                self._note(frame)
                self._handle(Heard(letter.broker, frame))
                if isinstance(frame, Digest) and not self._wanted.issuperset(frame.topics):
                    self._look_who_wants(self._wake())
        except Exception:  # it has the right form and the wrong insides
            self.rejected += 1
            log.exception("bus '%s' could not make sense of a letter of '%s'", self.name, letter.broker)
        self._deliver()

    def _note(self, frame: BrokerFrame) -> None:
        """Remember when events came that were not here before."""
        engine, now = self._wake(), time.time()
        for sent in _events(frame):
            key = (sent.broker, sent.topic, sent.stamp)
            if sent.topic in engine.topics and key not in engine.hold.seen:
                self._since.setdefault(key, now)

    def _handle(self, input: Input) -> list[Effect]:
        effects = self._wake().handle(input, time.time())
        for effect in effects:
            match effect:
                case Send():
                    self._post.send(effect)
                case Deliver(event) if self._is_known(event.publication):
                    self._since.pop(event.key, None)
                case Deliver(event):
                    since = self._since.pop(event.key, None)
                    waited = 0.0 if since is None else max(0.0, time.time() - since)
                    for subscription in self.subscriptions.values():
                        if event.topic in subscription.topics:
                            view = subscription.view(event.publication, waited)
                            self._out.setdefault(subscription, []).append(view)
                case Discard(event, reason):
                    self._since.pop(event.key, None)
                    for subscription in self.subscriptions.values():
                        if event.topic in subscription.topics:
                            subscription.discard(event.publication, reason)
                case Accept() | Refuse():
                    pass
        return effects

    def _is_known(self, publication: Publication) -> bool:
        """Whether it was delivered before, published by somebody who was not sure: on a topic an id is one event."""
        if publication.key is None:
            return False
        key = (publication.topic, publication.key)
        if key in self._ids:
            return True
        self._ids[key] = None
        if len(self._ids) > IDS_MAX:
            del self._ids[next(iter(self._ids))]
        return False

    def _deliver(self) -> None:
        """Queue what was delivered for the applications."""
        out, self._out = self._out, {}
        for subscription, events in out.items():
            subscription.put(events)
        if len(self._since) > self.settings.pending_max and self.engine is not None:
            pending = self.engine.hold.pending
            self._since = {key: at for key, at in self._since.items() if key in pending}

    # What is wrong.

    def _reject(self, reason: object) -> None:
        self.rejected += 1
        log.debug("'%s' rejected a letter: %s", self.name, reason)

    def _complain(self, broker: str) -> None:
        self.rejected += 1
        if broker not in self._heard_from and len(self._heard_from) < NAMED_MAX:
            self._heard_from.add(broker)
            log.warning(
                "bus '%s' does not hear '%s': it was connected with other deadlines=; they must be the same in all "
                "processes",
                self.name,
                broker,
            )


def _events(frame: BrokerFrame) -> tuple[Sent, ...]:
    match frame:
        case Multicast(event):
            return (event,)
        case Repair(events):
            return events
    return ()


def _mentioned(frame: BrokerFrame) -> set[str]:
    """The topics that a frame tells something of."""
    if isinstance(frame, Digest):
        return {topic for _, topic, _ in frame.have}
    topics = {sent.topic for sent in _events(frame)}
    if isinstance(frame, Multicast):
        topics |= {topic for _, topic, _ in frame.event.matrix.new}  # what it follows may be wanted, too
    return topics
