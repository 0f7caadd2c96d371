"""The control record: who sequences what, in which epoch. It changes by compare-and-set and in no other way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from unisono.engines.plan import Plan, Registration, conflict_graph, elimination_forest
from unisono.engines.takeover.patterns import matching
from unisono.engines.takeover.volumes import EVERYTHING, Mark, Retention, Volume, move_marks, turn_volume
from unisono.model.frames import Registration as Held

PlanKind = Literal["line", "forest"]
Sequencer = Literal["topics", "atoms"]
"""How the work is spread: topics that share subscribers stay on one node, or parts of their forest on several."""
VIEW = "view "  # how the names begin under which views are registered; no subscriber is called like that


@dataclass(frozen=True, slots=True)
class Intent:
    """What the next epoch is to be like; the plan itself follows from it and from the sealed lanes."""

    kind: PlanKind
    rank: tuple[str, ...]  # top first; every topic once
    wants: tuple[tuple[str, ...], ...] = ()  # topics that a subscriber will want on one path
    reports: tuple[Held, ...] = ()  # what subscribers said they hold; none for those that are gone
    gone: tuple[str, ...] = ()  # holders of patterns that are not counted any more


@dataclass(frozen=True, slots=True)
class Control:
    """All topics that are ordered together, now or some day: their plan, their owners, their lanes."""

    version: int  # what compare-and-set compares
    epoch: int
    state: Literal["active", "sealing"]
    plan: Plan
    owner: Mapping[str, str] = field(hash=False)  # topic -> node
    nodes: tuple[str, ...]  # every node that takes part, owners or not
    lanes: tuple[str, ...]  # lanes written in this epoch: those of the owners
    sealed: tuple[str, ...] = ()  # lanes of the epoch before
    archive: tuple[str, ...] = ()  # every lane that was ever written
    dead: tuple[str, ...] = ()
    patterns: Mapping[str, Held] = field(
        hash=False, default_factory=dict
    )  # subscriber -> what it holds by pattern
    views: Mapping[str, Held] = field(hash=False, default_factory=dict)  # name -> what it holds for good
    begins: Mapping[str, int] = field(hash=False, default_factory=dict)  # see volumes.py
    marks: Mapping[str, Mark] = field(hash=False, default_factory=dict)
    began_at: float = 0.0  # by the clock of whoever decided on the epoch; 0.0: nobody knows
    closed: tuple[str, ...] = ()  # topics that take no more events
    sequencer: Sequencer = "topics"  # by which rule topics are given to nodes, for good
    retained: bool = False  # whether the past is kept for those who ask for it
    volumes: tuple[Volume, ...] = field(hash=False, default=())  # what is kept of it
    intent: Intent | None = None  # while sealing
    decider: str = ""

    @property
    def live(self) -> tuple[str, ...]:
        """The nodes that are not declared dead."""
        return tuple(node for node in self.nodes if node not in self.dead)

    @property
    def leader(self) -> str:
        """The node that plans changes: the first that is not declared dead."""
        return self.live[0]

    def threshold(self, asked: int) -> int:
        """How many must hold two topics for them to be ordered together: a history counts as one of them."""
        return 1 if self.retained else asked

    def is_light(self, topics: Iterable[str]) -> bool:
        """Whether these topics lie on one path to a root, so that joining them needs no epoch."""
        return self.join_path(topics) is not None

    def join_path(self, topics: Iterable[str]) -> tuple[str, ...] | None:
        """The path of a join: from the lowest of the topics to the highest; None if there is no such path."""
        wanted = set(topics)
        if not wanted or not wanted <= self.plan.parent.keys():
            return None
        lowest = next(topic for topic in reversed(self.plan.rank) if topic in wanted)
        climb = self.plan.climb(lowest)
        if not wanted <= set(climb):
            return None
        return climb[: max(i for i, topic in enumerate(climb) if topic in wanted) + 1]

    def holders(self) -> list[Held]:
        """Who is registered by what the control record says: subscribers by their patterns, and views."""
        views = [Held(VIEW + v.subscriber, v.version, v.topics, v.weight) for v in self.views.values()]
        return [self.patterns[name] for name in sorted(self.patterns)] + sorted(
            views, key=lambda view: view.subscriber
        )

    def matched(self, subscriber: str) -> frozenset[str]:
        """The topics of this epoch for which a subscriber is registered by its patterns."""
        held = self.patterns.get(subscriber)
        return frozenset() if held is None else frozenset(matching(held.topics, self.plan.rank))

    def viewed(self, view: str) -> frozenset[str]:
        """The topics of this epoch that a view stands for."""
        held = self.views.get(view)
        return frozenset() if held is None else frozenset(matching(held.topics, self.plan.rank))

    def sealing(
        self,
        node: str,
        intent: Intent,
        *,
        dead: Iterable[str] = (),
        alive: Iterable[str] = (),
        moves: Mapping[str, str] | None = None,
        leaving: Iterable[str] = (),
        patterns: Mapping[str, Held] | None = None,
        views: Mapping[str, Held] | None = None,
        close: Iterable[str] = (),
        forget: Iterable[str] = (),
        at: float = 0.0,
    ) -> Control:
        """The record by which `node` decides on the next epoch, `at` this time of day.

        `forget` names lanes that need not be read any more to go on.
        """
        lost = {*self.dead, *dead}.difference(alive)
        nodes = tuple(sorted({*self.nodes, *alive}.difference(leaving)))
        live = [n for n in nodes if n not in lost]
        owner = dict(self.owner) | dict(moves or {})
        for i, topic in enumerate(sorted(t for t, n in owner.items() if n not in live)):
            owner[topic] = live[i % len(live)]
        lanes = _lanes(owner, live)
        ended = {lane: self.marks[lane].at_end() for lane in forget if lane in self.marks}
        told = {lane for volume in self.volumes for lane in volume.begins}
        gone = {lane for lane in forget if lane not in told and ended.get(lane) == self.marks.get(lane)}
        archive = tuple(sorted({*self.archive, *self.lanes}.difference(gone)))
        return replace(
            self,
            version=self.version + 1,
            epoch=self.epoch + 1,
            state="sealing",
            owner=owner,
            nodes=nodes,
            lanes=lanes,
            sealed=self.lanes,
            archive=archive,
            dead=tuple(sorted(lost.intersection(nodes))),
            patterns=self.patterns if patterns is None else dict(patterns),
            views=self.views if views is None else dict(views),
            closed=tuple(sorted({*self.closed, *close})),
            marks={n: ended.get(n, mark) for n, mark in self.marks.items() if n in {*archive, *lanes}},
            began_at=max(self.began_at, at),
            intent=intent,
            decider=node,
        )

    def active(
        self,
        plan: Plan,
        written: Mapping[str, int] | None = None,
        kept: int = 0,
        retain: Retention = EVERYTHING,
        extra: Mapping[str, int] | None = None,
    ) -> Control:
        """The record that begins the epoch; `written` says where that is written down, lane by lane.

        Nodes that adopt it read so many records that are `kept` for repair, if there are as many. Lanes may hold more
        events than records: `extra` says how many more it were in the epoch that ends.
        """
        written, extra = written or {}, extra or {}
        begins = {lane: written[lane] for lane in self.lanes if lane in written}
        volumes = self.volumes
        if self.retained:
            over = [lane for lane in self.begins if lane in written]
            ended = sum(written[lane] - self.begins[lane] + extra.get(lane, 0) for lane in over)
            volumes = turn_volume(volumes, Volume(self.epoch, self.began_at, begins), ended, retain)
        return replace(
            self,
            version=self.version + 1,
            state="active",
            plan=plan,
            begins=begins,
            marks=dict(self.marks) | move_marks(self.marks, self.begins, written, kept, extra),
            volumes=volumes,
            intent=None,
        )

    @property
    def read_lanes(self) -> tuple[str, ...]:
        """The lanes that a node reads when it adopts this epoch."""
        return tuple(sorted({*self.lanes, *self.archive}))

    def reads_after(self, lane: str) -> int:
        """Behind which sequence a node reads a lane when it adopts this epoch; nothing before it is needed."""
        return self.marks[lane].older - 1 if lane in self.marks else 0

    def spare(self, lane: str) -> int:
        """Up to which sequence nobody needs the records of a lane, neither to go on nor to read about the past."""
        told = [volume.begins[lane] - 1 for volume in self.volumes if lane in volume.begins]
        return min([*told, self.reads_after(lane)])


def first_control(
    plan: Plan,
    owner: Mapping[str, str],
    nodes: Sequence[str],
    *,
    retained: bool = False,
    at: float = 0.0,
    sequencer: Sequencer = "topics",
) -> Control:
    """The record of a system nobody has used yet; it may have no topics at all."""
    nodes = tuple(sorted(nodes))
    lanes = _lanes(owner, nodes)
    begins = dict.fromkeys(lanes, 1)
    return Control(
        version=1,
        epoch=plan.epoch,
        state="active",
        plan=plan,
        owner=dict(owner),
        nodes=nodes,
        lanes=lanes,
        begins=begins,
        began_at=at,
        retained=retained,
        volumes=(Volume(plan.epoch, at, begins),) if retained else (),
        sequencer=sequencer,
    )


def _lanes(owner: Mapping[str, str], live: Sequence[str]) -> tuple[str, ...]:
    """The lanes of the owners; without topics the first node keeps one, so that every epoch is written down."""
    return tuple(sorted(set(owner.values()))) or tuple(live[:1])


def next_plan(intent: Intent, registrations: Iterable[Held], threshold: int, epoch: int) -> Plan:
    """The plan of an epoch: the same for everybody who has read the same lanes.

    Paths are laid so that everything one subscriber holds lies on one of them, also topics that only it
    holds together: its next join must be able to climb through all of them.
    """
    weights: dict[frozenset[str], int] = {}  # many hold the same, as a pattern has it: count them once
    for r in registrations:
        if r.topics:
            weights[frozenset(r.topics)] = weights.get(frozenset(r.topics), 0) + r.weight
    held = [Registration(topics, weight) for topics, weight in weights.items()]
    conflicts = conflict_graph(held, topics=intent.rank, threshold=threshold)
    group = {topic: conflicts[topic] | {topic} for topic in intent.rank}
    if intent.kind == "line":
        parent = dict(zip(intent.rank, (None, *intent.rank), strict=False))
        return Plan(rank=intent.rank, parent=parent, group=group, epoch=epoch)
    wanted = [Registration(frozenset(topics)) for topics in intent.wants]
    together = conflict_graph([*held, *wanted], topics=intent.rank, threshold=1)
    forest = elimination_forest(together, rank=intent.rank, epoch=epoch)
    return Plan(rank=forest.rank, parent=forest.parent, group=group, epoch=epoch)
