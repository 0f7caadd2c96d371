"""A plan: for every topic the road its events climb to be sequenced, fixed for one epoch.

An event of T starts at T and climbs parent by parent to the top-most topic that T conflicts with. It is
stamped by the members of T's group on the way; the others are transit, and stay on the road because leaving
it would let one event overtake another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeVar

import msgspec

from unisono.engines.plan.laws import check_plan
from unisono.model.errors import PlanError

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Plan:
    """Which topics are ordered together, and the forest along which their events are stamped.

    Parents rank above their children, so a plan cannot loop; whether conflicting topics also meet is for
    `check_plan` to say.
    """

    rank: tuple[str, ...]  # every topic once, the top first
    parent: Mapping[str, str | None] = field(hash=False)  # one step towards the top
    group: Mapping[str, frozenset[str]] = field(hash=False)  # the topic and those it conflicts with
    epoch: int = 0
    _above: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _below: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    # Filled when first asked for: a node asks for the topics it hosts, and on a line all paths together are
    # quadratic in the number of topics.
    _paths: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        place = {topic: i for i, topic in enumerate(self.rank)}
        _check_shape(self, place)
        above: dict[str, tuple[str, ...]] = {}
        below: dict[str, tuple[str, ...]] = {}
        for topic, here in place.items():
            members = sorted(self.group[topic], key=place.__getitem__)
            above[topic] = tuple(member for member in members if place[member] < here)
            below[topic] = tuple(member for member in members if place[member] > here)
        # Copies, so that nobody who built the plan can change it afterwards.
        object.__setattr__(self, "parent", {topic: self.parent[topic] for topic in self.rank})
        object.__setattr__(self, "group", {topic: frozenset(self.group[topic]) for topic in self.rank})
        object.__setattr__(self, "_above", above)
        object.__setattr__(self, "_below", below)
        object.__setattr__(self, "_paths", {})

    def path(self, topic: str) -> tuple[str, ...]:
        """The road of the topic's events: itself first, its top-most conflict last, transit included."""
        path = self._paths.get(topic)
        if path is None:
            path = self._paths[topic] = self._climb(topic)
        return path

    def path_to(self, topic: str, above: tuple[str, ...]) -> tuple[str, ...]:
        """The road of the topic's events when these topics above it (in rank order) must stamp them."""
        if above == self.above(topic):
            return self.path(topic)
        climb = self.climb(topic)
        return climb[: climb.index(above[0]) + 1] if above else (topic,)

    def climb(self, topic: str) -> tuple[str, ...]:
        """Every topic from this one up to the root of its tree."""
        climb = [topic]
        _look_up(self._above, topic)
        while (parent := self.parent[climb[-1]]) is not None:
            climb.append(parent)
        return tuple(climb)

    def above(self, topic: str) -> tuple[str, ...]:
        """The topics it conflicts with that rank above it, in rank order."""
        return _look_up(self._above, topic)

    def below(self, topic: str) -> tuple[str, ...]:
        """The topics it conflicts with that rank below it, in rank order."""
        return _look_up(self._below, topic)

    def emitter(self, topic: str) -> str:
        """The topic that completes the stamps of this topic's events and hands them out."""
        return self.path(topic)[-1]

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The trees of the plan, each in rank order, in the order of their roots."""
        tree: dict[str, list[str]] = {}
        for topic in self.rank:  # a parent comes before its children
            parent = self.parent[topic]
            tree[topic] = [] if parent is None else tree[parent]
            tree[topic].append(topic)
        return tuple(tuple(tree[topic]) for topic in self.rank if self.parent[topic] is None)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON-able data, the same for equal plans."""
        return {
            "epoch": self.epoch,
            "rank": list(self.rank),
            "parent": dict(self.parent),
            "group": {topic: sorted(self.group[topic]) for topic in self.rank},
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """The plan that `to_dict` described; raises PlanError if it is not one or breaks a law."""
        try:
            wire = msgspec.convert(data, _Wire)
        except msgspec.ValidationError as error:
            raise PlanError(f"not a plan: {error}") from None
        plan = cls(rank=wire.rank, parent=wire.parent, group=wire.group, epoch=wire.epoch)
        check_plan(plan)
        return plan

    def _climb(self, topic: str) -> tuple[str, ...]:
        path = [topic]
        above = self.above(topic)
        # A plan that breaks C1 may never meet its top: then the climb ends at the root, and the law tells.
        while above and path[-1] != above[0] and (parent := self.parent[path[-1]]) is not None:
            path.append(parent)
        return tuple(path)


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    epoch: Annotated[int, msgspec.Meta(ge=0)]
    rank: tuple[str, ...]
    parent: dict[str, str | None]
    group: dict[str, frozenset[str]]


def _check_shape(plan: Plan, place: Mapping[str, int]) -> None:
    if len(place) != len(plan.rank):
        twice = sorted({topic for i, topic in enumerate(plan.rank) if place[topic] != i})
        raise PlanError(f"topics are ranked once, but these more often: {twice}")
    for name, keys in (("parent", plan.parent.keys()), ("group", plan.group.keys())):
        if odd := sorted(keys ^ place.keys()):
            raise PlanError(f"rank and {name} must name the same topics, but differ in {odd}")
    for topic, parent in plan.parent.items():
        if parent is not None and place.get(parent, len(place)) >= place[topic]:
            raise PlanError(f"the parent of '{topic}' must rank above it, but '{parent}' does not")
    for topic, members in plan.group.items():
        if unknown := sorted(members - place.keys()):
            raise PlanError(f"the group of '{topic}' holds topics that are not ranked: {unknown}")


def _look_up(table: Mapping[str, _V], topic: str) -> _V:
    try:
        return table[topic]
    except KeyError:
        raise PlanError(f"topic '{topic}' is not in the plan") from None
