"""Runs a world of deadline-causal order: the engines, their clocks, the network between them, and who watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from random import Random
from typing import NamedTuple, TypeAlias

import msgspec

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.effects import (
    EVERYBODY,
    Accept,
    Effect,
    Heard,
    Input,
    Move,
    Publish,
    Refuse,
    Send,
)
from unisono.engines.deadline_causal.frames import Frame, Multicast, News, Repair
from unisono.engines.deadline_causal.holdback import Deliver, Discard
from unisono.engines.deadline_causal.subscriber import Subscriber
from unisono.engines.inputs import TICK, Change
from unisono.model.frames import Publication
from unisono.sim.deadline.story import Diary, Line, Story
from unisono.sim.deadline.world import (
    BrokerSpec,
    Crash,
    DeadlineWorld,
    Go,
    Happening,
    Say,
    Sleep,
    Start,
    SubscriberSpec,
    Switch,
)
from unisono.sim.kernel import Kernel
from unisono.sim.network import Network

STEPS_MAX = 200_000
ORPHAN_S = 0.2  # after which a subscriber without its broker goes to another


class Arrival(NamedTuple):
    """A datagram reaches its address."""

    source: str
    to: str
    frame: Frame


class Wake(NamedTuple):
    """A timer runs out, or a sleep is over."""

    who: str


Occurrence: TypeAlias = Arrival | Wake | Happening


class Makers(NamedTuple):
    """How engines are made; a planted bug makes others."""

    broker: Callable[..., Broker] = Broker
    subscriber: Callable[..., Subscriber] = Subscriber


AS_THEY_ARE = Makers()


class Process:
    """An engine with its clock."""

    def __init__(self, engine: Broker | Subscriber, ahead_s: float, zone: str, replies: float = 0.0) -> None:
        self.engine = engine
        self.ahead_s = ahead_s
        self.zone = zone
        self.replies = replies
        self.asleep_until = 0.0
        self.mail: list[Arrival] = []
        self.wakes_at = -1.0


class Ended(msgspec.Struct, frozen=True):
    """How a simulation ended."""

    story: Story
    faults: tuple[str, ...]
    steps: int
    lines: list[str]
    refused: int

    @property
    def digest(self) -> str:
        """What two runs of one seed must have in common."""
        return sha256("\n".join(self.lines).encode()).hexdigest()


class DeadlineSimulation:
    """One run of one world."""

    def __init__(
        self,
        world: DeadlineWorld,
        makers: Makers = AS_THEY_ARE,
        *,
        traces: bool = False,
        checks: bool = True,
        steps_max: int = STEPS_MAX,
    ) -> None:
        self.world = world
        self.makers = makers
        self.traces = traces
        self.checks = checks
        self.steps_max = steps_max
        self.kernel: Kernel[Occurrence] = Kernel()
        self.near = Network(world.near, Random(f"{world.seed} near"))
        self.far = Network(world.far, Random(f"{world.seed} far"))
        self.answers = Random(f"{world.seed} replies")
        self.replies_left = world.replies_max
        self.processes: dict[str, Process] = {}
        self.story = Story(world.settings)
        self.lines: list[str] = []
        self.faults: list[str] = []
        self.steps = 0
        self.said: dict[str, int] = {}
        self.refused = 0

    def run(self) -> Ended:
        """From the beginning to the end."""
        for broker in self.world.brokers:
            self._start(broker, {b.name: b.topics for b in self.world.brokers if b.name != broker.name})
        for subscriber in self.world.subscribers:
            self._seat(subscriber)
        for happening in self.world.happenings:
            self.kernel.schedule(happening.at, happening)
        while self.steps < self.steps_max and not self.faults:
            time = self.kernel.next_time()
            if time is None or (time > self.world.ends_at and not self._holds_something()):
                break  # a late reply may still have time
            self.steps += 1
            self._happen(self.kernel.advance())
        for name, process in self.processes.items():
            if process.engine.hold.pending:
                self.faults.append(f"{name} still holds {len(process.engine.hold.pending)} events")
        return Ended(self.story, tuple(self.faults), self.steps, self.lines, self.refused)

    def _holds_something(self) -> bool:
        return any(process.engine.hold.pending for process in self.processes.values())

    def _start(self, spec: BrokerSpec, contacts: Mapping[str, tuple[str, ...]]) -> None:
        engine = self.makers.broker(spec.name, self.world.settings, spec.topics, contacts, spec.zone)
        self._add(spec.name, Process(engine, spec.ahead_s, spec.zone), self.world.settings.reserve)

    def _seat(self, spec: SubscriberSpec) -> None:
        engine = self.makers.subscriber(spec.name, spec.broker, self.world.settings, spec.topics)
        self._add(spec.name, Process(engine, spec.ahead_s, "", spec.replies), 0)
        if spec.patience_s is not None:
            engine.hold.patience = dict.fromkeys(spec.topics, spec.patience_s)
            self.story.diaries[spec.name].patience_s = spec.patience_s

    def _add(self, name: str, process: Process, reserve: int) -> None:
        self.processes[name] = process
        self.story.diaries[name] = Diary(name, reserve)
        self._step(name, TICK)

    # What happens.

    def _happen(self, occurrence: Occurrence) -> None:
        now = self.kernel.now
        match occurrence:
            case Arrival(_, to, _):
                self._arrive(self.processes.get(to), occurrence)
            case Wake(who):
                self._wake(who)
            case Start(_, broker):
                known = [name for name, p in self.processes.items() if isinstance(p.engine, Broker)]
                self._start(broker, dict.fromkeys(known, ()))
            case Crash(_, who):
                self._crash(who)
            case Sleep(_, who, for_s) if who in self.processes:
                process = self.processes[who]
                process.asleep_until = max(process.asleep_until, now + for_s)
                self.story.diaries[who].slept.append((now, process.asleep_until))
                self.kernel.schedule(process.asleep_until, Wake(who))
            case Say() | Switch() | Go():
                self._act(occurrence)

    def _act(self, happening: Say | Switch | Go) -> None:
        """What an application does; who sleeps does it when it wakes up, who is gone does not."""
        process = self.processes.get(happening.who)
        if process is None:
            return
        if process.asleep_until > self.kernel.now:
            self.kernel.schedule(process.asleep_until, happening)
            return
        match happening:
            case Say(_, who, topic, lives_s):
                self._say(who, process, topic, lives_s)
            case Switch(_, who, add, remove):
                self._step(who, Change(add, remove))
            case Go(_, who, broker) if broker in self.processes:
                self._step(who, Move(broker))

    def _say(self, who: str, process: Process, topic: str, lives_s: float) -> None:
        n = self.said[who] = self.said.get(who, 0) + 1
        now = self.kernel.now
        publication = Publication(who, 0, n, topic, published_at=now + process.ahead_s)
        self.story.published(who, str(publication.id), topic, now, now + lives_s)
        self._step(who, Publish(publication, now + process.ahead_s + lives_s))

    def _crash(self, who: str) -> None:
        if self.processes.pop(who, None) is None:
            return
        self.story.diaries[who].died_at = self.kernel.now
        others = sorted(n for n, p in self.processes.items() if isinstance(p.engine, Broker))
        for name, process in self.processes.items():
            if isinstance(process.engine, Subscriber) and process.engine.broker == who and others:
                to = others[len(name) % len(others)]
                self.kernel.schedule(self.kernel.now + ORPHAN_S, Go(self.kernel.now + ORPHAN_S, name, to))

    def _arrive(self, process: Process | None, arrival: Arrival) -> None:
        if process is None:
            return
        if process.asleep_until > self.kernel.now:
            process.mail.append(arrival)
            return
        self._watch_arrival(process, arrival)
        self._step(arrival.to, Heard(arrival.source, arrival.frame))

    def _wake(self, who: str) -> None:
        process = self.processes.get(who)
        if process is None or process.asleep_until > self.kernel.now:
            return
        mail, process.mail = process.mail, []
        self._step(who, TICK)
        for arrival in mail:
            self._arrive(process, arrival)

    # Engines.

    def _step(self, who: str, input: Input) -> None:
        process, now = self.processes[who], self.kernel.now
        before = set(process.engine.hold.mine)
        effects = process.engine.handle(input, now + process.ahead_s)
        after = process.engine.hold.mine
        if after != before:
            self._topics_changed(who, sorted(after - before), sorted(before - after))
        if self.checks:
            try:
                process.engine.check()
            except AssertionError as error:
                self.faults.append(f"{who}: {error}")
        for effect in effects:
            self._carry_out(who, process, effect)
        if self.traces:
            self._trace(who, input, effects)
        due = process.engine.next_timer()
        if due is not None and due - process.ahead_s > process.wakes_at:
            process.wakes_at = max(now, due - process.ahead_s)
            self.kernel.schedule(process.wakes_at, Wake(who))

    def _topics_changed(self, who: str, joined: list[str], left: list[str]) -> None:
        diary, now = self.story.diaries[who], self.kernel.now
        diary.joined += [(now, topic) for topic in joined]
        diary.left += [(now, topic) for topic in left]
        if diary.patience_s is not None:
            self.processes[who].engine.hold.patience |= dict.fromkeys(joined, diary.patience_s)

    def _carry_out(self, who: str, process: Process, effect: Effect) -> None:
        now, round = self.kernel.now, process.engine.round
        match effect:
            case Send(to, frame) if to == EVERYBODY:
                for name in self._reached(who, frame):
                    self._carry_out(who, process, Send(name, frame))
            case Send(to, frame):
                other = self.processes.get(to)
                is_far = other is not None and process.zone and other.zone and other.zone != process.zone
                for time in (self.far if is_far else self.near).arrivals(who, to, now):
                    self.kernel.schedule(time, Arrival(who, to, frame))
            case Accept(id) if isinstance(process.engine, Broker):
                event = next(e for e in process.engine.cache.values() if e.publication.id == id)
                self.story.stamped(who, str(id), event.last, event.publication.published_at)
                if event.topic in process.engine.topics:
                    self.story.diaries[who].lines.append(Line("arrived", str(id), now, round))
            case Refuse():
                self.refused += 1
            case Deliver(event):
                self.story.delivered(who, str(event.publication.id), now, round)
                self._reply(who, process)
            case Discard(event, reason):
                self.story.discarded(who, str(event.publication.id), now, round, reason)

    def _reached(self, who: str, frame: Frame) -> list[str]:
        """Whom a multicast reaches."""
        brokers = {name: p.engine for name, p in self.processes.items() if isinstance(p.engine, Broker)}
        if isinstance(frame, Multicast):
            return [n for n, broker in brokers.items() if n != who and frame.event.topic in broker.topics]
        return [name for name in brokers if name != who]

    def _reply(self, who: str, process: Process) -> None:
        if self.replies_left and process.replies and self.answers.random() < process.replies:
            self.replies_left -= 1
            topics = sorted({topic for b in self.world.brokers for topic in b.topics})
            topic = topics[self.answers.randrange(len(topics))]
            self.kernel.schedule(self.kernel.now, Say(self.kernel.now, who, topic, self.world.reply_s))

    def _watch_arrival(self, process: Process, arrival: Arrival) -> None:
        """An event has come, as far as anybody outside can tell; that it is not wanted is no arrival."""
        engine, frame = process.engine, arrival.frame
        round = max(engine.round, engine.settings.round_at(self.kernel.now + process.ahead_s))
        publications: list[Publication] = []
        match frame:
            case Multicast(event) if isinstance(engine, Broker):
                past = engine.bases.read((event.broker, event.topic), event.stamp, event.matrix)
                if past is not None or not engine.multicast:
                    publications = [event.publication]
                # Who is reached without being known may not have the base: gossip brings it the whole past.
                if past is None and event.last >= round and not engine.multicast:
                    self.faults.append(f"{arrival.to} cannot read what {arrival.source} sent")
            case Repair(events):
                publications = [event.publication for event in events]
            case News(_, _, news):
                publications = [event.publication for event in news]
        lines = self.story.diaries[arrival.to].lines
        lines += [
            Line("arrived", str(p.id), self.kernel.now, round)
            for p in publications
            if p.topic in engine.hold.mine
        ]

    def _trace(self, who: str, input: Input, effects: list[Effect]) -> None:
        what = type(input.frame).__name__ if isinstance(input, Heard) else type(input).__name__
        shown = "; ".join(_show(effect) for effect in effects) or "-"
        self.lines.append(f"{self.kernel.now:.6f} {who} <- {what.lower()}: {shown}")


def _show(effect: Effect) -> str:
    match effect:
        case Send(to, frame):
            return f"send {to} {type(frame).__name__.lower()}"
        case Deliver(event):
            return f"deliver {event.publication.id} on {event.topic}"
        case Discard(event, reason):
            return f"drop {event.publication.id}: {reason}"
        case Accept(id):
            return f"accept {id}"
        case Refuse(id, reason):
            return f"refuse {id}: {reason}"
