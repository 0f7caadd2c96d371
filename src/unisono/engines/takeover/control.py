"""The control record: who sequences what, in which epoch. It changes by compare-and-set and in no other way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from unisono.engines.plan import Plan, Registration, conflict_graph, elimination_forest
from unisono.model.frames import Registration as Held

PlanKind = Literal["line", "forest"]


@dataclass(frozen=True, slots=True)
class Intent:
    """What the next epoch is to be like; the plan itself follows from it and from the sealed lanes."""

    kind: PlanKind
    rank: tuple[str, ...]  # top first; every topic once
    wants: tuple[tuple[str, ...], ...] = ()  # topics that a subscriber will want on one path
    reports: tuple[Held, ...] = ()  # what subscribers said they hold; none for those that are gone


@dataclass(frozen=True, slots=True)
class Control:
    """One component of topics: its plan, its owners, its lanes."""

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

    def is_light(self, topics: Iterable[str]) -> bool:
        """Whether these topics lie on one path to a root, so that joining them needs no epoch."""
        return self.join_path(topics) is not None

    def join_path(self, topics: Iterable[str]) -> tuple[str, ...] | None:
        """The path of a join: from the lowest of the topics to the highest; None if there is no such path."""
        wanted = set(topics)
        if not wanted <= self.plan.parent.keys():
            return None
        lowest = max(wanted, key=self.plan.rank.index)
        climb = self.plan.climb(lowest)
        if not wanted <= set(climb):
            return None
        return climb[: max(climb.index(topic) for topic in wanted) + 1]

    def sealing(
        self,
        node: str,
        intent: Intent,
        *,
        dead: Iterable[str] = (),
        alive: Iterable[str] = (),
        moves: Mapping[str, str] | None = None,
    ) -> Control:
        """The record by which `node` decides on the next epoch."""
        gone = tuple(sorted({*self.dead, *dead}.difference(alive)))
        live = [n for n in self.nodes if n not in gone]
        owner = dict(self.owner) | dict(moves or {})
        for i, topic in enumerate(sorted(t for t, n in owner.items() if n in gone)):
            owner[topic] = live[i % len(live)]
        return replace(
            self,
            version=self.version + 1,
            epoch=self.epoch + 1,
            state="sealing",
            owner=owner,
            lanes=tuple(sorted(set(owner.values()))),
            sealed=self.lanes,
            archive=tuple(sorted({*self.archive, *self.lanes})),
            dead=gone,
            intent=intent,
            decider=node,
        )

    def active(self, plan: Plan) -> Control:
        """The record that begins the epoch."""
        return replace(self, version=self.version + 1, state="active", plan=plan, intent=None)


def first_control(plan: Plan, owner: Mapping[str, str], nodes: Sequence[str]) -> Control:
    """The record of a component nobody has used yet."""
    lanes = tuple(sorted(set(owner.values())))
    return Control(1, plan.epoch, "active", plan, dict(owner), tuple(sorted(nodes)), lanes)


def next_plan(intent: Intent, registrations: Iterable[Held], threshold: int, epoch: int) -> Plan:
    """The plan of an epoch: the same for everybody who has read the same lanes.

    Paths are laid so that everything one subscriber holds lies on one of them, also topics that only it
    holds together: its next join must be able to climb through all of them.
    """
    held = [Registration(frozenset(r.topics), r.weight) for r in registrations if r.topics]
    conflicts = conflict_graph(held, topics=intent.rank, threshold=threshold)
    group = {topic: conflicts[topic] | {topic} for topic in intent.rank}
    if intent.kind == "line":
        parent = dict(zip(intent.rank, (None, *intent.rank[:-1]), strict=True))
        return Plan(rank=intent.rank, parent=parent, group=group, epoch=epoch)
    wanted = [Registration(frozenset(topics)) for topics in intent.wants]
    together = conflict_graph([*held, *wanted], topics=intent.rank, threshold=1)
    forest = elimination_forest(together, rank=intent.rank, epoch=epoch)
    return Plan(rank=forest.rank, parent=forest.parent, group=group, epoch=epoch)
