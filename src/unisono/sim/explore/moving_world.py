"""One state of a world that moves.

Links are FIFO queues, the event notification service is a bag for each member, storage is as `storage` says. A
step touches one engine only, so a world shares all others, and their pictures, with the world it came from.

Time stands still while the world is searched: whatever timers are for is a step of its own here (suspicion, news
of the control record), or comes to pass at the end, when the world is brought to rest (`settled`).

Done as soon as they can be, because doing them later leads to the same ends: reads of lanes (unless stale reads
are tried); news for publishers (what they send again may lie on its link as long as it likes); answers to
publishers and the message that lets a manager forget a request, once no epoch can come any more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.effects import (
    Acknowledge,
    AcknowledgeRun,
    Admit,
    Announce,
    Append,
    Decide,
    Effect,
    Ignore,
    Listen,
    Lose,
    Read,
    Send,
    Truncate,
)
from unisono.engines.inputs import (
    TICK,
    Appended,
    Change,
    Controlled,
    Input,
    Notified,
    Publish,
    Received,
    Suspected,
)
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.patterns import is_match
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.publisher import Publisher
from unisono.history import Kind
from unisono.model.bundles import StampedBundle
from unisono.model.frames import Done, EpochNotice, Heartbeat, Message, Routed, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.runs import run_of
from unisono.sim.explore.moving import MovingScenario, lacking
from unisono.sim.explore.moving_harm import do_harm, offered
from unisono.sim.explore.scenario import publications
from unisono.sim.explore.search import Step
from unisono.sim.explore.storage import Storage
from unisono.sim.explore.story import Broken, Entry, Log, published, told

SETTLE_STEPS_MAX = 3000

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_Letter = tuple[bytes, Message | Stamped | StampedBundle | Heartbeat | EpochNotice]


def _letter(thing: Message | Stamped | StampedBundle | Heartbeat | EpochNotice) -> _Letter:
    return (type(thing).__name__.encode() + _ENCODER.encode(thing), thing)


class Pictures:
    """A small number for every picture that was ever seen: equal pictures have equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, picture: Hashable) -> int:
        """The number of a picture."""
        return self._numbers.setdefault(picture, len(self._numbers))


class MovingWorld:
    """One state of a moving scenario; `after` makes the next one."""

    def __init__(self, scenario: MovingScenario, *, branching: bool = True, watching: bool = False) -> None:
        """`branching`: steps make new worlds; `watching`: everybody hears of every control record."""
        self.scenario = scenario
        self.branching = branching
        self.watching = watching
        self.pictures = Pictures()
        self.now = 0.0
        self.harm = scenario.harm
        self.broken = ""
        self.rested = False
        self.settle_steps = 0
        self.publications = publications(scenario.events)
        control = scenario.control()
        self.storage = Storage(control)
        self.engines: dict[str, Engine] = {name: scenario.node(name) for name in scenario.nodes}
        self.engines |= {name: scenario.member(name, control) for name in scenario.members}
        senders = sorted({p.publisher for p in self.publications.values()})
        self.engines |= {name: scenario.make_publisher() for name in senders}
        self.states: dict[str, int] = {}
        self.links: dict[tuple[str, str], tuple[_Letter, ...]] = {}
        self.bags: dict[str, tuple[_Letter, ...]] = dict.fromkeys(scenario.members, ())
        self.listening = {
            name: held | scenario.patterns.get(name, set()) for name, held in scenario.members.items()
        }
        self.scripts = {name: scenario.scripts.get(name, ()) for name in scenario.members}
        self.dead: frozenset[str] = frozenset()
        self.logs: dict[str, Log] = {}
        self.announced: dict[bytes, Stamped] = {}
        self.acknowledged: frozenset[EventId] = frozenset()
        self.repeated: frozenset[tuple[EventId, str, int]] = frozenset()  # whose place was another's before
        self._begin(control)

    def _begin(self, control: Control) -> None:
        beginning = self.scenario.beginning()
        for lane in control.lanes:
            self.storage.ask_append("", Append(lane, beginning, None))
            self.storage.append("", lane)
        self.storage.appends.clear()
        for name in self.scenario.nodes:
            self.handle(name, Controlled(control))
            while self.storage.reads.get(name):
                self.handle(name, self.storage.read(name, 0))
        for name in self.engines:
            if isinstance(self.engines[name], Publisher):
                self.handle(name, Controlled(control))
            self.states[name] = self.pictures.of(self.engines[name].state())
        for publication in self.publications.values():
            name = publication.publisher
            self.logs[name] = (*self.logs.get(name, ()), published(publication))
            if not self.scenario.at_once:
                self.handle(name, Publish([publication]))
        if self.scenario.at_once:
            for name in sorted(self.logs):
                mine = [p for p in self.publications.values() if p.publisher == name]
                self.handle(name, Publish(mine))

    # Explorable.

    def key(self) -> Hashable:
        """Engines by their pictures, everything in flight by its bytes."""
        picture = self.pictures.of
        return (
            tuple(self.states.values()),
            tuple(sorted((k, picture(tuple(b for b, _ in q))) for k, q in self.links.items() if q)),
            tuple(picture(tuple(sorted(b for b, _ in bag))) for bag in self.bags.values()),
            picture(self.storage.key()),
            tuple(len(script) for script in self.scripts.values()),
            self.harm,
            self.now,
            picture(tuple(sorted(self.logs.items()))),
            picture(
                (
                    tuple(sorted(self.announced)),
                    tuple(sorted(self.acknowledged)),
                    tuple(sorted(self.repeated)),
                )
            ),
            (self.dead, self.broken, self.rested),
        )

    def after(self, step: Step) -> MovingWorld:
        """The world after a step."""
        twin = self._twin() if self.branching else self
        try:
            twin.take(step)
        except Broken as broken:
            twin.broken = str(broken)
        return twin

    def _twin(self) -> MovingWorld:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        for name in ("engines", "states", "links", "bags", "listening", "scripts", "logs", "announced"):
            setattr(twin, name, dict(getattr(self, name)))
        twin.storage = self.storage.copy()
        return twin

    # What can happen.

    def steps(self) -> list[Step]:
        """Everything that can happen next."""
        if self.broken or self.rested:
            return []
        if self.branching:
            for step in self._harmless():
                return [step]
        must = self.duties()
        return [*must, *self.harms()] if must else [*self.harms(), ("rest",)]

    def duties(self) -> list[Step]:
        """What happens sooner or later, whoever does no harm."""
        steps: list[Step] = [("receive", *link) for link, queue in self.links.items() if queue]
        steps += [("store", *key) for key, queue in self.storage.appends.items() if queue]
        steps += [("decide", node) for node, asked in self.storage.decides.items() if asked]
        steps += [
            ("read", node, str(i)) for node, asked in self.storage.reads.items() for i in range(len(asked))
        ]
        steps += [("watch", name) for name in self.engines if self.has_news(name)]
        steps += [("change", name) for name, script in self.scripts.items() if script]
        for name, bag in self.bags.items():
            for text in sorted({b for b, _ in bag}):
                steps.append(("notify", name, str(next(i for i, (b, _) in enumerate(bag) if b == text))))
        steps += [("suspect", by, node) for node in sorted(self.dead) for by in self.accusers(node)]
        steps += [("store late", str(i)) for i in range(len(self.storage.late))]
        steps += [("cut", str(i)) for i in range(len(self.storage.cuts))]
        return steps

    def harms(self) -> list[Step]:
        """What may happen or not."""
        return list(offered(self))

    def _harmless(self) -> Iterator[Step]:
        if not self.scenario.harm.stale_reads:
            yield from (("read", node, "0") for node, asked in self.storage.reads.items() if asked)
        for name, engine in self.engines.items():
            if isinstance(engine, Publisher) and self.has_news(name):
                yield ("watch", name)
        if self._is_calm():
            for (source, to), queue in self.links.items():
                message = queue[0][1] if queue else None
                done = isinstance(message, Routed) and isinstance(message.message, Done)
                if queue and (done or isinstance(self.engines.get(to), Publisher)):
                    yield ("receive", source, to)

    def _is_calm(self) -> bool:
        """Whether no epoch can come any more."""
        harm, control = self.harm, self.storage.control
        if (
            harm.crashes
            or harm.zombies
            or harm.ranks
            or harm.drains
            or harm.closes
            or any(self._asks_for_an_epoch(engine) for engine in self.engines.values())
            or control.state != "active"
            or self.dead - {*control.dead}
        ):
            return False
        return self.scenario.kind == "line" and not any(self.storage.decides.values())

    def _asks_for_an_epoch(self, engine: Engine) -> bool:
        if isinstance(engine, Publisher):
            return bool(engine.strangers)
        return isinstance(engine, Member) and bool(engine.inner.hoped or engine.later or engine.new)

    def has_news(self, name: str) -> bool:
        control = self.storage.control
        known = getattr(self.engines[name], "control", None)
        if known is None or known.version >= control.version:
            return False
        return self.watching or control.state == "active"

    def accusers(self, node: str) -> list[str]:
        """Who may say that a node is dead; one is as good as another while the world is searched."""
        control = self.storage.control
        if control.state != "active" or node in control.dead or any(self.storage.decides.values()):
            return []
        others = [n for n in self.scenario.nodes if n in self.engines and n != node and not self.has_news(n)]
        live = [n for n in others if n in control.live]  # whoever has left does not care
        others = [*live, *(n for n in others if n not in live)]
        return others if self.watching else others[:1]

    # What happens.

    def take(self, step: Step) -> None:
        match step:
            case ("receive", source, to):
                letter, *rest = self.links[source, to]
                self.links[source, to] = tuple(rest)
                self.handle(to, Received(source, letter[1]))  # type: ignore[arg-type]
            case ("store", node, lane):
                self.handle(node, Appended(lane, *self.storage.append(node, lane)))
            case ("store late", i):
                late, sequence = self.storage.store_late(int(i))
                if late.answers:
                    self.handle(late.node, Appended(late.lane, late.record, sequence))
            case ("cut", i):
                self.storage.cut_late(int(i))
            case ("read", node, i):
                self.handle(node, self.storage.read(node, int(i)))
            case ("decide", node):
                self.storage.decide(node)
                self.handle(node, Controlled(self.storage.control))
            case ("watch", name):
                self.handle(name, Controlled(self.storage.control))
            case ("notify", name, i):
                bag, at = self.bags[name], int(i)
                self.bags[name] = bag[:at] + bag[at + 1 :]
                self.handle(name, Notified(bag[at][1]))  # type: ignore[arg-type]
            case ("change", name):
                (change, topics), *later = self.scripts[name]
                self.scripts[name] = tuple(later)
                self.handle(name, Change(topics, ()) if change == "add" else Change((), topics))
            case ("suspect", by, node):
                self.handle(by, Suspected(node))
            case ("rest",):
                self.rested = True
            case _:
                do_harm(self, step)

    def tick(self, name: str) -> None:
        """The time of an engine's next timer comes; the other timers are late then, which timers may be."""
        self.now = max(self.now, self.engines[name].next_timer() or 0.0)
        self.handle(name, TICK)

    def next_timer(self) -> tuple[float, str] | None:
        """The next timer of all, and whose it is."""
        due = [(t, name) for name, e in self.engines.items() if (t := e.next_timer()) is not None]
        return min(due, default=None)

    def pass_time(self) -> bool:
        """The next timer of all fires; False if there is none."""
        due = self.next_timer()
        try:
            if due is not None:
                self.tick(due[1])
        except Broken as broken:
            self.broken = str(broken)
        return due is not None

    def handle(self, address: str, input: Input) -> None:
        known = self.engines.get(address)
        if known is None:
            return  # it is dead
        engine = known.copy() if self.branching else known
        effects = engine.handle(input, self.now)
        if self.scenario.invariants:
            try:
                engine.check()
            except AssertionError as error:
                raise Broken(f"{address} denies its own invariants: {error}") from None
        self.engines[address] = engine
        if self.branching:
            self.states[address] = self.pictures.of(engine.state())
        for effect in effects:
            self._carry_out(address, effect)

    def _carry_out(self, address: str, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                if to in self.engines:
                    self.links[address, to] = (*self.links.get((address, to), ()), _letter(message))
            case Announce(topics, Stamped() | StampedBundle() | Heartbeat() | EpochNotice() as notification):
                letter = _letter(notification)
                if isinstance(notification, StampedBundle):
                    self.announced |= {_letter(e)[0]: e for e in run_of(notification).events()}
                elif isinstance(notification, Stamped):
                    self.announced[letter[0]] = notification
                for name, bag in self.bags.items():
                    if any(is_match(self.listening[name], topic) for topic in topics):
                        self.bags[name] = (*bag, letter)
            case Append():
                self.storage.ask_append(address, effect)
            case Read():
                self.storage.ask_read(address, effect)
            case Truncate(lane, up_to):
                self.storage.truncate(lane, up_to, late=self.scenario.harm.late_cuts)
            case Decide(control):
                self.storage.ask_decide(address, control)
            case Acknowledge(Sequenced(topic, id, _, entries, True)):
                self.repeated |= {(id, topic, entries[topic])}
            case Acknowledge(sequenced):
                self.acknowledged |= {sequenced.id}
            case AcknowledgeRun():
                self.acknowledged |= {sequenced.id for sequenced in effect.answers}
            case Listen(topics):
                self.listening[address] |= set(topics)
            case Ignore(topics):
                self.listening[address] -= set(topics)
                owed = [topic for topic in topics if self._is_owed(address, topic)]
                self._log(address, [Entry(Kind.UNSUBSCRIBED, None, topic, 0) for topic in owed])
            case Admit(floors):
                self._log(address, [Entry(Kind.SUBSCRIBED, None, t, n) for t, n in sorted(floors.items())])
            case Lose(topic, numbers) if not self.storage.cut:
                raise Broken(f"{address} takes {numbers} of {topic} for lost, and nothing was lost")
            case _:
                self._log(address, told([effect]))

    def _is_owed(self, name: str, topic: str) -> bool:
        """Whether a member has joined a topic and not left it; a join that was cancelled owes nothing."""
        owed = topic in self.scenario.members[name]
        for entry in self.logs.get(name, ()):
            if entry.topic == topic and entry.kind in (Kind.SUBSCRIBED, Kind.UNSUBSCRIBED):
                owed = entry.kind is Kind.SUBSCRIBED
        return owed

    def _log(self, address: str, entries: Log | list[Entry]) -> None:
        if entries:
            self.logs[address] = (*self.logs.get(address, ()), *entries)

    # The end.

    def settled(self) -> MovingWorld:
        """The world when no more harm is done and timers fire as long as something is still to come."""
        if not self._owes():
            return self
        world = self._twin() if self.branching else self
        world.rested, world.watching, world.branching = False, True, False
        world.engines = {name: engine.copy() for name, engine in world.engines.items()}
        try:
            while world.settle_steps < SETTLE_STEPS_MAX and not world.broken:
                world.settle_steps += 1
                if duties := world.duties():
                    world.take(duties[0])
                elif not world._owes() or not world.pass_time():
                    break
        except Broken as broken:
            world.broken = str(broken)
        return world

    def _owes(self) -> bool:
        """Whether an answer, a join or an event is still to come."""
        if self.duties():
            return True
        for engine in self.engines.values():
            if isinstance(engine, Publisher) and (engine.outgoing or engine.waiting or engine.strangers):
                return True
            if isinstance(engine, Member) and self._lacks(engine):
                return True
        return bool(self.storage.control.state == "sealing" or self.dead - {*self.storage.control.dead})

    def _lacks(self, member: Member) -> bool:
        if lacking(member, self.storage.control) or member.inner.held:
            return True
        reached = member.inner.passed
        return any(
            event.topic in reached and event.number not in reached[event.topic] for event in self.sequenced()
        )

    def sequenced(self) -> list[Stamped]:
        """The events that are stored and count, and whatever else was announced, each once."""
        found = dict(self.announced)
        found |= {_letter(event)[0]: event for event in self.storage.events()}
        return sorted(found.values(), key=lambda e: (e.topic, e.number, e.epoch, e.publication.id))
