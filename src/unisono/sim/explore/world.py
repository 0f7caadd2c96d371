"""A tiny world: engines, the links between them, the event notification service, and what may go wrong.

Links are FIFO queues. The event notification service is a bag for each subscriber: anything in it may arrive
next. A step touches one engine only, so a world shares all others, and their pictures, with the world it came
from.

Two things are done as soon as they can be, because doing them later leads to the same ends. An event that no
subscriber waits for is published at the start: its request may lie on its link as long as it likes. An answer
to a publisher is taken at once, unless that publisher may crash first or repeat itself: it changes nothing but
the publisher, and whatever the publisher sends then may again lie as long as it likes. The same holds for the
message that lets a manager forget a request, unless the request may come again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.effects import Announce, Effect, Send
from unisono.engines.inputs import TICK, Input, Notified, Publish, Received
from unisono.model.frames import Create, Done, Heartbeat, Message, Stamped
from unisono.sim.explore.scenario import Planned, Scenario, publications
from unisono.sim.explore.search import Step
from unisono.sim.explore.story import Broken, Finding, Log, judged, published, tell, told, waiting

SETTLE_STEPS_MAX = 400

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_Letter = tuple[bytes, Message | Stamped | Heartbeat]  # bytes to compare, the thing itself to use


def _letter(thing: Message | Stamped | Heartbeat) -> _Letter:
    return (type(thing).__name__.encode() + _ENCODER.encode(thing), thing)


class World:
    """One state of a scenario; `after` makes the next one."""

    def __init__(self, scenario: Scenario, subscribers: Sequence[str]) -> None:
        self.scenario = scenario
        self.subscribers = tuple(subscribers)
        self.now = 0.0
        self.faults = scenario.faults
        self.broken = ""
        self.publications = publications(scenario.events)
        self.publishers = {p.publisher for p in self.publications.values()}
        self.engines = scenario.sequencers()
        self.engines |= {name: scenario.subscriber(name) for name in subscribers}
        self.engines |= {name: scenario.publisher() for name in sorted(self.publishers)}
        self.states: dict[str, Hashable] = {name: e.state() for name, e in self.engines.items()}
        self.links: dict[tuple[str, str], tuple[_Letter, ...]] = {}
        self.bags: dict[str, tuple[_Letter, ...]] = dict.fromkeys(subscribers, ())
        self.logs: dict[str, Log] = {}
        self.announced: dict[str, _Letter] = {}
        self.pending = scenario.events
        for event in scenario.events:
            if event.after is None and event in self._publishable():
                self._publish(event)

    # Explorable.

    def key(self) -> Hashable:
        """Engines by their pictures, everything in flight by its bytes."""
        return (
            tuple(self.states.values()),
            tuple(sorted((k, tuple(b for b, _ in q)) for k, q in self.links.items() if q)),
            tuple(tuple(sorted(b for b, _ in bag)) for bag in self.bags.values()),
            tuple(event.name for event in self.pending),
            self.faults,
            self.now,
            tuple(sorted(self.logs.items())),
            tuple(sorted(b for b, _ in self.announced.values())),
            self.broken,
        )

    def steps(self) -> list[Step]:
        """Everything that can happen next."""
        if self.broken:
            return []
        links = [(k, i, q[i][1]) for k, q in self.links.items() for i in self._heads(len(q))]
        for (source, to), i, message in links:
            if self._is_harmless(to, message):
                return [("receive", source, to, str(i))]
        steps: list[Step] = [("receive", source, to, str(i)) for (source, to), i, _ in links]
        steps += self._notifications()
        steps += [("publish", event.name) for event in self._publishable()]
        steps += [("crash", name) for name in sorted(self.faults.crashes & self.engines.keys())]
        if self.faults.repeats:
            steps += [("repeat", name) for name, p in self.publications.items() if self._is_out(p.publisher)]
        if self.faults.ticks:
            steps += [("tick", name) for name, e in self.engines.items() if e.next_timer() is not None]
        return steps

    def after(self, step: Step) -> World:
        """The world after a step."""
        twin = object.__new__(World)
        twin.__dict__.update(self.__dict__)
        twin.engines, twin.states, twin.links = dict(self.engines), dict(self.states), dict(self.links)
        twin.bags, twin.logs, twin.announced = dict(self.bags), dict(self.logs), dict(self.announced)
        try:
            twin._take(step)
        except Broken as broken:
            twin.broken = str(broken)
        return twin

    # What can happen.

    def _heads(self, length: int) -> range:
        return range(length if self.faults.overtaking else min(length, 1))

    def _is_harmless(self, to: str, message: object) -> bool:
        # A repeat may also be on its way: what a spent one led to can still be overtaken by another answer.
        if self.scenario.faults.repeats:
            return False
        return isinstance(message, Done) or (to in self.publishers and to not in self.faults.crashes)

    def _notifications(self) -> Iterator[Step]:
        for name, bag in self.bags.items():
            for letter in sorted({b for b, _ in bag}):
                place = str(next(i for i, (b, _) in enumerate(bag) if b == letter))
                yield ("notify", name, place)
                if self.faults.losses:
                    yield ("lose", name, place)
                if self.faults.doubles:
                    yield ("double", name, place)

    def _publishable(self) -> Iterator[Planned]:
        """What may be published: the first of each publisher, if what it waits for was delivered."""
        blocked: set[str] = set()
        for event in self.pending:
            publisher = self.publications[event.name].publisher
            if publisher not in blocked and (event.after is None or self._delivered(*event.after)):
                yield event
            blocked.add(publisher)

    def _delivered(self, subscriber: str, name: str) -> bool:
        id = self.publications[name].id
        return any(entry.event == id for entry in self.logs.get(subscriber, ()))

    def _is_out(self, publisher: str) -> bool:
        return bool(getattr(self.engines.get(publisher), "outgoing", None))

    # What happens.

    def _take(self, step: Step) -> None:
        match step:
            case ("receive", source, to, i):
                queue, at = self.links[source, to], int(i)
                self.links[source, to] = queue[:at] + queue[at + 1 :]
                self._handle(to, Received(source, queue[at][1]))  # type: ignore[arg-type]
            case ("notify" | "lose" | "double" as what, name, i):
                bag, at = self.bags[name], int(i)
                if what != "double":
                    self.bags[name] = bag[:at] + bag[at + 1 :]
                if what != "notify":
                    self._spend("losses" if what == "lose" else "doubles")
                if what != "lose":
                    self._handle(name, Notified(bag[at][1]))  # type: ignore[arg-type]
            case ("publish", name):
                self._publish(next(event for event in self.pending if event.name == name))
            case ("crash", name):
                del self.engines[name], self.states[name]
                self.links = {link: queue for link, queue in self.links.items() if link[1] != name}
                self._spend("crashes", name)
            case ("repeat", name):
                publication = self.publications[name]
                link = (publication.publisher, "manager/" + publication.topic)
                self.links[link] = (*self.links.get(link, ()), _letter(Create(publication)))
                self._spend("repeats")
            case ("tick", name):
                due = self.engines[name].next_timer()
                assert due is not None
                self.now = max(self.now, due)  # the other timers are late then, which timers may be
                self._spend("ticks")
                self._handle(name, TICK)

    def _spend(self, fault: str, name: str = "") -> None:
        faults = self.faults
        left = faults.crashes - {name} if name else max(0, getattr(faults, fault) - 1)
        self.faults = msgspec.structs.replace(faults, **{fault: left})

    def _publish(self, event: Planned) -> None:
        self.pending = tuple(other for other in self.pending if other is not event)
        publication = self.publications[event.name]
        process = event.after[0] if event.after else publication.publisher
        self.logs[process] = (*self.logs.get(process, ()), published(publication))
        self._handle(publication.publisher, Publish([publication]))

    def _handle(self, address: str, input: Input) -> None:
        engine = self.engines[address].copy()
        effects = engine.handle(input, self.now)
        if self.scenario.invariants:
            _check(engine)
        self.engines[address], self.states[address] = engine, engine.state()
        for effect in effects:
            self._carry_out(address, effect)
        log = told(effects)
        if log:
            self.logs[address] = self.logs.get(address, ()) + log

    def _carry_out(self, address: str, effect: Effect) -> None:
        match effect:
            case Send(to, message) if to in self.engines:
                link = (address, to)
                self.links[link] = (*self.links.get(link, ()), _letter(message))
            case Announce(topics, Stamped() | Heartbeat() as notification):
                letter = _letter(notification)
                if isinstance(notification, Stamped):
                    self.announced[f"{notification.publication.id} #{notification.number}"] = letter
                for name, bag in self.bags.items():
                    if self.scenario.subscriptions[name].intersection(topics):
                        self.bags[name] = (*bag, letter)

    # The end.

    @property
    def stamped(self) -> list[Stamped]:
        """The events that were handed to the event notification service."""
        letters = [self.announced[id][1] for id in sorted(self.announced)]
        return [event for event in letters if isinstance(event, Stamped)]

    def settled(self) -> World:
        """The world when no more harm is done and timers fire as long as that may change anything."""
        world = self
        for _ in range(SETTLE_STEPS_MAX):
            steps = [s for s in world.steps() if s[0] in ("receive", "notify", "publish")]
            if not steps:
                due = [(t, name) for name, e in world.engines.items() if (t := e.next_timer()) is not None]
                if not due or world.broken or not world._owes():
                    break
                steps = [("tick", min(due)[1])]
            world = world.after(steps[0])
        return world

    def _owes(self) -> bool:
        """Whether some subscriber still lacks an event that was announced."""
        for name in self.subscribers:
            mine = self.scenario.subscriptions[name]
            told_of = len({e[1:4] for e in self.logs.get(name, ()) if e.topic in mine})
            if told_of < sum(event.topic in mine for event in self.stamped):
                return True
        return False

    def _subscriptions(self) -> dict[str, frozenset[str]]:
        return {name: self.scenario.subscriptions[name] for name in self.subscribers}

    def judge(self) -> Finding | None:
        """The first promise that this end breaks."""
        world = self.settled()
        if world.broken:
            return Finding("invariants", world.broken)
        logs = dict(world.logs)
        for name in self.subscribers:
            logs[name] = logs.get(name, ()) + waiting(world.engines[name])
        records = tell(world.scenario, world.stamped, logs, subscribers=self._subscriptions())
        return judged(records, world.scenario.promises)


def _check(engine: Engine) -> None:
    try:
        engine.check()
    except AssertionError as error:
        raise Broken(f"an engine denies its own invariants: {error}") from None
