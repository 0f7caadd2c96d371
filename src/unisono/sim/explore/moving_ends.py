"""Ends of moving worlds, judged: what members were told, and everything observers may have been told."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from unisono.engines.takeover.patterns import is_match
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.publisher import Publisher
from unisono.history import Kind, Record
from unisono.history.checkers import PROMISES
from unisono.model.frames import EpochNotice, Stamped
from unisono.model.lanes import EpochRecord
from unisono.sim.explore.arrivals import Outcomes
from unisono.sim.explore.explorer import Explored
from unisono.sim.explore.moving import ANSWERS, BOUNDS, JOINS, KEPT, KEYS, PATTERNS, MovingScenario, lacking
from unisono.sim.explore.moving_world import MovingWorld
from unisono.sim.explore.pairs import Pair, has_cycle, shortest_cycle, untagged_pairs
from unisono.sim.explore.search import STATES_MAX, Search
from unisono.sim.explore.storage import Storage
from unisono.sim.explore.story import Entry, Finding, Log, judged, waiting

_TOGETHER = ("total_notification_order", "acyclic_order")


def explore_moving(scenario: MovingScenario, states_max: int = STATES_MAX, *, cut: bool = False) -> Explored:
    """Every end of a moving scenario, judged; `cut`: or as many as the bound allows."""
    search = Search(MovingWorld(scenario), states_max, cut=cut)
    judge = Judge(scenario)
    found: dict[str, Finding] = {}
    ends = 0
    with _no_collection():
        for end in search.ends():
            ends += 1
            for finding in judge.findings(end):
                if finding.promise not in found:
                    found[finding.promise] = msgspec.structs.replace(finding, trace=search.trace(end))
            if found.keys() >= set(scenario.promises):
                break
    return Explored(search.states + judge.states, ends, tuple(found.values()), search.whole)


@contextmanager
def _no_collection() -> Iterator[None]:
    """A search makes hundreds of thousands of small things and no rings of them: looking for rings is half the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Judge:
    """Judges ends of one scenario, and remembers what observers can be told."""

    def __init__(self, scenario: MovingScenario) -> None:
        self.scenario = scenario
        self.states = 0
        self._outcomes: dict[Hashable, Outcomes] = {}
        self._judged: dict[Hashable, tuple[Finding, ...]] = {}

    def findings(self, end: MovingWorld) -> Iterator[Finding]:
        """Every promise that this end breaks."""
        world = end.settled()
        if world.broken:
            yield Finding("invariants", world.broken)
            return
        for finding in (*self._kept(world), *self._came(world)):
            if finding.promise in self.scenario.promises:
                yield finding
        logs = {name: self._log_of(world, name) for name in self.scenario.members}
        if self.scenario.lane_is_read:
            logs["lane"] = _lane_order(world)
        events = world.sequenced()
        notices = _notices(world.storage)
        key = msgspec.msgpack.encode((events, notices)), tuple(sorted(logs.items()))
        if key not in self._judged:
            self._judged[key] = tuple(self._orders(world, events, notices, logs))
        yield from self._judged[key]

    def _log_of(self, world: MovingWorld, name: str) -> Log:
        first = tuple(Entry(Kind.SUBSCRIBED, None, t, 0) for t in sorted(self.scenario.members[name]))
        engine = world.engines[name]
        assert isinstance(engine, Member)
        return first + world.logs.get(name, ()) + waiting(engine.inner)

    # What only a moving world promises.

    def _kept(self, world: MovingWorld) -> Iterator[Finding]:
        stored = {event.publication.id for event in world.storage.events()}
        for id in sorted(world.acknowledged - stored):
            yield Finding(KEPT, f"{id} was acknowledged, and no lane holds it")
        yield from self._keys_kept(world)
        most = max(len(self.scenario.topics), self.scenario.nodes_are.topics_max)
        if len(world.storage.control.owner) > most:
            yield Finding(BOUNDS, f"there are {len(world.storage.control.owner)} topics, and may be {most}")

    def _keys_kept(self, world: MovingWorld) -> Iterator[Finding]:
        """A key of a topic has one place, and everybody who asked was told that one."""
        events = world.storage.events()
        keys = {(event.topic, event.number): event.publication.key for event in events}
        asked = {publication.id: publication.key for publication in world.publications.values()}
        for id, topic, number in sorted(world.repeated):
            if asked[id] is None or keys.get((topic, number)) != asked[id]:
                yield Finding(KEPT, f"{id} was given the place of {topic} #{number}, which is not its own")
        places = Counter((event.topic, event.publication.key) for event in events)
        for (topic, key), count in sorted((p, c) for p, c in places.items() if p[1] is not None):
            if count > 1:
                yield Finding(KEYS, f"key '{key}' has {count} places on {topic}")

    def _came(self, world: MovingWorld) -> Iterator[Finding]:
        for name, engine in world.engines.items():
            if isinstance(engine, Member) and (topics := lacking(engine, world.storage.control)):
                yield Finding(JOINS, f"{name} still waits to join {', '.join(sorted(topics))}")
            elif isinstance(engine, Publisher) and (engine.outgoing or engine.strangers):
                asked = [
                    *engine.outgoing,
                    *(p for aside in engine.strangers.values() for p in aside),
                ]
                yield Finding(ANSWERS, f"{asked[0].id} was never answered")
        for name in sorted(self.scenario.patterns.keys() & self.scenario.members.keys()):
            yield from self._missed(world, name, world.storage.events())

    def _missed(self, world: MovingWorld, name: str, events: list[Stamped]) -> Iterator[Finding]:
        """Who held a pattern from the start is owed every event of topics that were made since."""
        floors = {e.topic: e.number for e in world.logs.get(name, ()) if e.kind is Kind.SUBSCRIBED}
        for event in events:
            if event.topic in self.scenario.topics or not is_match(self.scenario.patterns[name], event.topic):
                continue
            if floors.get(event.topic, event.number) >= event.number:
                yield Finding(PATTERNS, f"{name} is not owed {event.publication.id} on {event.topic}")

    # What is promised to subscribers.

    def _orders(
        self, world: MovingWorld, events: list[Stamped], notices: list[EpochNotice], logs: dict[str, Log]
    ) -> Iterator[Finding]:
        promises = [p for p in self.scenario.promises if p in PROMISES]
        apart = [p for p in promises if p not in _TOGETHER]
        finding = judged(self._tell(world, events, logs), apart)
        if finding is not None:
            yield finding
        pairs: dict[str, Mapping[Pair, Log]] = {
            name: dict.fromkeys(untagged_pairs(log), log) for name, log in logs.items()
        }
        for name, held in self.scenario.observers.items():
            outcomes = self._told(name, [e for e in events if e.topic in held], notices)
            pairs[name] = outcomes.pairs
            yield from self._judge_observer(world, events, name, outcomes, apart)
        together = [p for p in promises if p in _TOGETHER]
        if together and has_cycle({pair for mine in pairs.values() for pair in mine}):
            longest = len(pairs) if "acyclic_order" in together else 2
            cycle = shortest_cycle(pairs, longest)
            if cycle:
                told = {name: self._whole_log(name, pairs[name][pair]) for name, pair in cycle.items()}
                found = judged(self._tell(world, events, told), together)
                said = "; ".join(f"{name} saw {a} before {b}" for name, (a, b) in cycle.items())
                yield found or Finding(together[0], said)

    def _told(self, name: str, events: list[Stamped], notices: list[EpochNotice]) -> Outcomes:
        """Everything an observer can be told."""
        held, settings = self.scenario.observers[name], self.scenario.settings.get(name)
        key = (held, settings, msgspec.msgpack.encode((events, notices)))
        if key not in self._outcomes:
            engine = self.scenario.subscriber(name)
            # It gets everything in the end, so it need not ask for it.
            engine.settings = msgspec.structs.replace(engine.settings, repair=False)
            outcomes = Outcomes(
                engine, [*events, *notices], losses=0, doubles=0, checked=self.scenario.invariants
            )
            self._outcomes[key] = outcomes
            self.states += outcomes.states
        return self._outcomes[key]

    def _judge_observer(
        self, world: MovingWorld, events: list[Stamped], name: str, outcomes: Outcomes, promises: list[str]
    ) -> Iterator[Finding]:
        logs: dict[str, Log] = {}
        for i, (log, broken) in enumerate(outcomes.runs):
            if broken:
                yield Finding("invariants", f"{name}: {broken}")
                return
            logs[f"{name}@{i}"] = self._whole_log(name, log)
        finding = judged(self._tell(world, events, logs), promises)
        if finding is not None:
            yield msgspec.structs.replace(finding, explanation=_plain(finding.explanation))

    def _whole_log(self, name: str, log: Log) -> Log:
        if name not in self.scenario.observers:
            return log
        held = self.scenario.observers[name]
        return tuple(Entry(Kind.SUBSCRIBED, None, topic, 0) for topic in sorted(held)) + log

    def _tell(self, world: MovingWorld, events: list[Stamped], logs: Mapping[str, Log]) -> list[Record]:
        """The history of a run with these logs of subscribers."""
        records: list[Record] = []
        stamps = {(e.publication.id, e.number): e for e in events}

        def add(process: str, entry: Entry, seq: int) -> None:
            event = stamps.get((entry.event, entry.number)) if entry.event else None
            joined = entry.kind is Kind.SUBSCRIBED
            records.append(
                Record(
                    entry.kind,
                    process,
                    seq,
                    0.0,
                    "" if entry.event is None else str(entry.event),
                    entry.topic,
                    entry.number,
                    event.entries if event is not None else None,
                    event.epoch if event is not None else 0,
                    entry.in_order,
                    self.scenario.order if joined else "",
                    self._on_gap(process) if joined else "",
                    entry.reason,
                )
            )

        for seq, event in enumerate(events):
            add("lanes", Entry(Kind.SEQUENCED, event.publication.id, event.topic, event.number), seq + 1)
        senders = {p.publisher for p in world.publications.values()}
        for process, log in [(name, world.logs[name]) for name in sorted(senders)] + list(logs.items()):
            for seq, entry in enumerate(log):
                add(process, entry, seq + 1)
        records.append(Record(Kind.HEALED, "world", 1, 0.0))
        return records

    def _on_gap(self, process: str) -> str:
        name = process.split("@")[0]
        return self.scenario.settings.get(name, self.scenario.subscribers).on_gap


def _plain(explanation: str) -> str:
    """Without the number of the run: one observer in many runs is one observer."""
    return " ".join(word.split("@")[0] for word in explanation.split(" "))


def _notices(storage: Storage) -> list[EpochNotice]:
    """What epochs were announced, each once; the first one had begun before anybody came."""
    found: dict[int, EpochNotice] = {}
    for records in storage.lanes.values():
        for _, record in records:
            if isinstance(record, EpochRecord) and record.epoch:
                found.setdefault(record.epoch, record.notice)
    return [found[epoch] for epoch in sorted(found)]


def _lane_order(world: MovingWorld) -> Log:
    """The events of all lanes as somebody would see them who takes that order for the order."""
    joined = tuple(Entry(Kind.SUBSCRIBED, None, topic, 0) for topic in world.scenario.topics)
    return joined + tuple(
        Entry(Kind.DELIVERED, event.publication.id, event.topic, event.number)
        for event in world.storage.events()
    )
