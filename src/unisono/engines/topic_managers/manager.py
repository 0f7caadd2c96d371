"""A topic manager: takes numbers, fills stamps, and emits what is complete.

The rule (papers 000 figures 4 and 5, 001; corrected):

    CREATE  number the event; copy in what is known of lower-ranked topics of its group; send it up the path
    FILL    if this topic is in the event's group: learn from the stamp how far the lower topics are,
            write this topic's current number, without taking one; pass it on
    JOIN    climbs the same way and takes no number: register the subscriber, learn from it as from a stamp
    end     of the path: publish the event, tell its publisher, free the buffers of its own manager

Managers on the path that share no subscribers with the topic pass events on untouched: they keep chains from
overtaking each other, which is what the papers' direct hops get wrong (a deadlock of three events).
A request is idempotent by (publisher, incarnation, n), and by the key that its user gave it. Links are FIFO and lose nothing (links.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from unisono.engines.effects import Announce, Effect, Reject, Send
from unisono.engines.inputs import Input, Received, Tick
from unisono.engines.plan import Plan
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.emitter import Emitter
from unisono.engines.topic_managers.keys import Keys
from unisono.engines.topic_managers.registry import Registry
from unisono.engines.topic_managers.seen import Seen
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.bundles import Bundle, StampedBundle
from unisono.model.errors import FrameError
from unisono.model.frames import (
    Completed,
    Create,
    Done,
    Entries,
    Fill,
    Join,
    Joined,
    Nack,
    Publication,
    Refused,
    Registration,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId
from unisono.model.runs import stamped_in

STAMP_WORD = 12  # bytes that a name in a stamp takes beside its letters
PARKED_MAX = 1024  # publishers send again what comes beyond
LIVES_MAX = 8  # lives of one publisher that are remembered
PUBLISHERS_MAX = 1024  # publishers of one client that are remembered, by topic


class TopicManager:
    """The manager of one topic, for one epoch of the plan; subscriptions may join at any time."""

    def __init__(
        self,
        topic: str,
        plan: Plan,
        settings: ManagerSettings = ManagerSettings(),
        numbers: Mapping[str, int] | None = None,
        *,
        is_closed: bool = False,
    ) -> None:
        """Start where the last epoch ended: `numbers` says how far each topic went. A closed one takes no more events."""
        numbers = numbers or {}
        self.topic = topic
        self.plan = plan
        self.settings = settings
        self.is_closed = is_closed
        self.climb = plan.climb(topic)
        self.number = numbers.get(topic, 0)  # the newest number taken on this topic
        self.lower: dict[str, int] = {}  # how far lower-ranked topics are known to be
        self.group: frozenset[str] = frozenset()
        self.registry = Registry(topic)
        self.seen: dict[tuple[str, int], Seen] = {}
        self.keys = Keys(settings.keys_max, settings.keys_bytes_max)
        self._lives: dict[str, tuple[int, ...]] = {}  # publisher -> its lives in `seen`, oldest first
        self._clients: dict[
            str, dict[str, None]
        ] = {}  # client -> its publishers, those heard of last come last
        self.under_way: set[int] = set()  # numbers given out whose events have not left the last manager
        self.bundles_under_way = 0  # the same, of bundles
        self.draining = False  # events under way end elsewhere than new ones would
        self.parked: list[Create] = []  # what waits for them
        self.emitter = Emitter(settings, plan.epoch)
        self.path: tuple[str, ...] = ()
        self._grow(plan.group[topic], numbers)

    def _grow(self, group: frozenset[str], numbers: Mapping[str, int]) -> None:
        """More topics share subscribers with this one; within an epoch they never become fewer."""
        self.group |= group
        self.stamp_bytes = sum(len(x.encode()) + STAMP_WORD for x in self.group)  # of an event here, at most
        self.above = tuple(x for x in reversed(self.climb[1:]) if x in self.group)
        self.below = tuple(sorted(self.group.difference(self.climb)))
        path = self.plan.path_to(self.topic, self.above)
        # Two roads that end in different lanes do not end in order: a takeover could lose the event before and
        # keep the one after it.
        self.draining |= self.is_busy and path[-1] != self.path[-1]
        self.path = path
        for x in self.below:
            self.lower.setdefault(x, numbers.get(x, 0))

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Received(_, Create() as create):
                return self._create(create, now)
            case Received(_, Fill() as fill):
                return self._fill(fill, now)
            case Received(_, Join() as join):
                return self._join(join)
            case Received(_, Done(event)) if event.topic == self.topic and event.topic in event.entries:
                return self.finish(event) + self.unpark(now)
            case Received(_, Nack() as nack):
                return [Send(nack.subscriber, self.emitter.repair(nack))]
            case Tick():
                return self.emitter.heartbeats(now)
        return [Reject(FrameError(f"manager of '{self.topic}' cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """When the next heartbeat is due."""
        return self.emitter.next_timer()

    def _create(self, create: Create, now: float) -> list[Effect]:
        if (answered := self.admit(create)) is not None:
            return answered
        entries = {self.topic: self.take_number()} | self.known_below()
        return self._pass_on(create.publication, entries, self.above, self.path[1:], now)

    def take_number(self) -> int:
        """The next number; its event is under way."""
        self.number += 1
        self.under_way.add(self.number)
        return self.number

    def admit(self, create: Create) -> list[Effect] | None:
        """See whether an event is to be numbered; else what there is to say."""
        publication = create.publication
        if publication.topic != self.topic:
            return [
                Reject(FrameError(f"event on '{publication.topic}' sent to the manager of '{self.topic}'"))
            ]
        publisher, incarnation = publication.publisher, publication.incarnation
        seen = self.seen.get((publisher, incarnation)) or self._seen_of(publisher, incarnation)
        if seen is None:
            return []  # of a life that is long over
        seen.forget_below(create.acknowledged)
        if self.is_closed:
            return self._last_word(publication, seen)
        if create.after and not seen.knows(create.after) and not self.parked:
            return []  # its publisher will send both again, in order
        if self.draining:
            if len(self.parked) < PARKED_MAX:
                self.parked.append(create)
            return []
        if not seen.admit(publication.n):
            known = seen.answer(publication.n)
            return [] if known is None else [Send(publication.publisher, self._answer(known))]
        if publication.key is not None and not self.keys.begin(publication.key):
            return self._repeat(publication.id, publication.key, seen)
        return None

    def admit_next(self, create: Create) -> bool:
        """Take in an event that follows what is known of its publisher; False, and nothing is done, if there is more to it."""
        publication = create.publication
        if publication.key is not None or self.is_closed or self.draining or self.parked:
            return False
        if publication.n < create.acknowledged:
            return False  # it was answered
        seen = self.seen.get((publication.publisher, publication.incarnation))
        if seen is None or not seen.is_fresh(publication.n):
            return False
        if create.after >= create.acknowledged and create.after and not seen.knows(create.after):
            return False
        seen.forget_below(create.acknowledged)
        seen.admit_fresh(publication.n)
        return True

    def _last_word(self, publication: Publication, seen: Seen) -> list[Effect]:
        """What has its place keeps it; everything else will never have one."""
        id = publication.id
        if (known := seen.answer(id.n)) is not None:
            return [Send(id.publisher, self._answer(known))]
        if seen.knows(id.n):
            return []  # it was answered, and heard
        if publication.key in self.keys.places:
            return self._repeat(id, publication.key, seen)
        return [Send(id.publisher, Refused(f"topic '{self.topic}' was deleted", ids=(id,)))]

    def _repeat(self, id: EventId, key: str, seen: Seen) -> list[Effect]:
        """An event with this key was numbered before: whoever asks gets its place, as soon as that is safe."""
        place = self.keys.places.get(key)
        if place is None:
            self.keys.wait(key, id)
            return []
        answer = Sequenced(self.topic, id, place.epoch, place.entries, repeated=True)
        seen.finish(answer)
        return [Send(id.publisher, answer)]

    def unpark(self, now: float) -> list[Effect]:
        """Number what has waited, once everything before it has left."""
        if not self.draining or self.is_busy:
            return []
        self.draining = False
        parked, self.parked = self.parked, []
        return [effect for create in parked for effect in self._create(create, now)]

    def _answer(self, known: Sequenced) -> Sequenced | Completed:
        """In return mode the stamp once more: the first answer may still be under way on another link."""
        if self.settings.mode == "forward" or known.repeated:
            return known
        return Completed(known.topic, known.id, known.epoch, known.entries)

    def _fill(self, fill: Fill, now: float) -> list[Effect]:
        if fill.epoch != self.plan.epoch:
            return [Reject(FrameError(f"a stamp of epoch {fill.epoch} in epoch {self.plan.epoch}"))]
        if fill.publication.topic not in fill.entries:
            return [Reject(FrameError(f"a stamp on '{fill.publication.topic}' without a number of its own"))]
        entries = dict(fill.entries)
        if self.topic in fill.need:
            self.learn(entries)
            entries[self.topic] = self.number
        return self._pass_on(fill.publication, entries, fill.need, fill.rest, now)

    def known_below(self) -> Entries:
        """The entries of lower-ranked topics, as far as passing stamps told (001's LLC)."""
        return dict(self.lower) if self.settings.stamps == "full" else {}

    def learn(self, entries: Entries) -> None:
        """Remember the largest numbers of lower-ranked topics of the group."""
        for topic in self.below:
            if entries.get(topic, 0) > self.lower[topic]:
                self.lower[topic] = entries[topic]

    def _pass_on(
        self,
        publication: Publication,
        entries: Entries,
        need: tuple[str, ...],
        rest: tuple[str, ...],
        now: float,
    ) -> list[Effect]:
        if rest:
            fill = Fill(publication, self.plan.epoch, entries, need, rest[1:])
            return [Send(manager_address(rest[0]), fill)]
        return self._emit(publication, entries, now)

    def _emit(self, publication: Publication, entries: Entries, now: float) -> list[Effect]:
        stamped = Stamped(publication, self.plan.epoch, entries)
        topic, id = publication.topic, publication.id
        self.emitter.keep(stamped, now)
        effects: list[Effect] = []
        if self.settings.mode == "forward":
            effects.append(Announce((topic,), stamped))
            effects.append(Send(publication.publisher, Sequenced(topic, id, stamped.epoch, entries)))
        else:
            effects.append(Send(publication.publisher, Completed(topic, id, stamped.epoch, entries)))
        if topic == self.topic and not self.settings.stored:
            effects += self.finish(stamped)
        else:
            effects.append(Send(manager_address(topic), Done(stamped)))
        return effects

    def finish(self, event: Stamped, answer: Sequenced | None = None) -> list[Effect]:
        """An event has left; whoever has its answer need not have it made again."""
        publication = event.publication
        self.under_way.discard(event.entries[publication.topic])
        seen = self.seen.get((publication.publisher, publication.incarnation))
        if seen is not None:
            seen.finish(answer or Sequenced(publication.topic, publication.id, event.epoch, event.entries))
        return [] if publication.key is None else self._answer_waiting(publication.key, event)

    def _answer_waiting(self, key: str, event: Stamped) -> list[Effect]:
        """The event of a key is safe: tell those who have published it again meanwhile."""
        effects: list[Effect] = []
        for id in self.keys.finish(key, event.epoch, event.entries):
            answer = Sequenced(event.topic, id, event.epoch, event.entries, repeated=True)
            seen = self.seen.get((id.publisher, id.incarnation))
            if seen is not None:
                seen.finish(answer)
            effects.append(Send(id.publisher, answer))
        return effects

    # Many events at once, where nothing is between two managers.

    @property
    def is_busy(self) -> bool:
        """Whether events have numbers and have not left."""
        return bool(self.under_way or self.bundles_under_way)

    def seen_before(self, bundle: Bundle, place: int) -> bool | None:
        """Whether any of its events here was numbered, or has a key that was given; None: they cannot be yet."""
        part, seen = bundle.parts[place], self._seen_of(bundle.publisher, bundle.incarnation)
        if seen is None or self.is_closed or self.draining or self.parked:
            return True
        seen.forget_below(bundle.acknowledged)
        if part.after and not seen.knows(part.after):
            return None  # its publisher will send both again, in order
        keys = [key for _, key in part.keys]
        return (
            not seen.is_fresh(bundle.ends(place)[0])
            or len(set(keys)) < len(keys)
            or any(key in self.keys.places or key in self.keys.under_way for key in keys)
        )

    def number_all(self, bundle: Bundle, place: int) -> None:
        """Number events that were not seen before, in their order."""
        part = bundle.parts[place]
        self.seen[bundle.publisher, bundle.incarnation].admit_many(bundle, place)
        for _, key in part.keys:
            self.keys.begin(key)
        self.number += part.count
        self.bundles_under_way += 1

    def hear_of(self, topic: str, number: int) -> None:
        """A topic that shares subscribers with this one is so far."""
        if topic in self.lower:
            self.lower[topic] = number

    def finish_all(self, bundle: StampedBundle, place: int, outline: StampedBundle) -> list[Effect]:
        """They have left; the outline is all that need be remembered of them."""
        self.bundles_under_way -= 1
        seen = self.seen.get((bundle.publisher, bundle.incarnation))
        if seen is not None:
            seen.finish_many(outline, place)
        effects: list[Effect] = []
        for nth, key in bundle.parts[place].keys:
            event = stamped_in(bundle, self.topic, bundle.clock[self.topic] + 1 + nth)
            effects += self._answer_waiting(key, event)
        return effects

    def _join(self, join: Join) -> list[Effect]:
        """Register the subscriber and pass on how far this topic is; no number is taken."""
        registration, reached = join.registration, dict(join.reached)
        if join.epoch != self.plan.epoch:
            return [Reject(FrameError(f"a join of epoch {join.epoch} in epoch {self.plan.epoch}"))]
        if self.topic in registration.topics:
            self.register(registration)
            self.learn(reached)
            reached[self.topic] = self.number
        if join.rest:
            onward = Join(registration, join.new, join.epoch, reached, join.rest[1:])
            return [Send(manager_address(join.rest[0]), onward)]
        return [Send(registration.subscriber, Joined(registration.version, join.new, join.epoch, reached))]

    def register(self, registration: Registration) -> None:
        """Take in what a subscriber holds; topics that now share enough subscribers join the group."""
        self.registry.add(registration)
        self._grow(self.registry.conflicts(self.settings.threshold), {})

    def register_all(self, registrations: Iterable[Registration]) -> None:
        """Take in what an epoch begins with."""
        for registration in registrations:
            self.registry.add(registration)
        self._grow(self.registry.conflicts(self.settings.threshold), {})

    def remember(self, sequenced: Sequenced) -> None:
        """An event of an earlier epoch: should its publisher ask again, answer the same."""
        seen = self._seen_of(sequenced.id.publisher, sequenced.id.incarnation)
        if seen is not None:
            seen.recall(sequenced)

    def remember_all(self, bundle: StampedBundle) -> None:
        """The same of many; an outline says enough."""
        seen = self._seen_of(bundle.publisher, bundle.incarnation)
        if seen is not None:
            seen.recall_many(bundle)

    def _seen_of(self, publisher: str, incarnation: int) -> Seen | None:
        """What one life of a publisher has asked for; a few lives of each are remembered, the newest ones."""
        key = (publisher, incarnation)
        if key not in self.seen:
            self._hear_of(publisher)
            lives = self._lives.get(publisher, ())
            if len(lives) >= LIVES_MAX and incarnation < lives[0]:
                return None
            self._lives[publisher] = tuple(sorted((*lives, incarnation)))
            if len(lives) >= LIVES_MAX:
                oldest, *newer = self._lives[publisher]
                self._lives[publisher] = tuple(newer)
                self.seen.pop((publisher, oldest), None)
            self.seen[key] = Seen(self.topic, self.settings.seen_max)
        return self.seen[key]

    def _hear_of(self, publisher: str) -> None:
        """A publisher begins a life; of a client that has too many, the one that did so longest ago is forgotten."""
        publishers = self._clients.setdefault(publisher.partition(".")[0], {})
        publishers.pop(publisher, None)
        publishers[publisher] = None
        if len(publishers) > PUBLISHERS_MAX:
            oldest = next(iter(publishers))
            del publishers[oldest]
            for incarnation in self._lives.pop(oldest, ()):
                self.seen.pop((oldest, incarnation), None)

    def check(self) -> None:
        """Nothing is known of a lower topic that its own manager could not have said."""
        assert self.number >= 0
        assert all(n >= 0 for n in self.lower.values())
        assert set(self.lower) == set(self.below)

    def copy(self) -> TopicManager:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.lower = dict(self.lower)
        twin.under_way = set(self.under_way)
        twin.parked = list(self.parked)
        twin.seen = {k: v.copy() for k, v in self.seen.items()}
        twin._lives = dict(self._lives)
        twin._clients = {client: dict(publishers) for client, publishers in self._clients.items()}
        twin.keys = self.keys.copy()
        twin.registry = self.registry.copy()
        twin.emitter = self.emitter.copy()
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two managers would behave alike from now on."""
        return (
            self.number,
            (len(self.under_way), self.bundles_under_way),
            (self.draining, tuple(create.publication.id for create in self.parked)),
            self.registry.state(),
            tuple(sorted(self.lower.items())),
            tuple(sorted((k, v.state()) for k, v in self.seen.items())),
            self.keys.state(),
            self.emitter.state(),
        )
