"""The three laws of a plan, checked on the paths themselves so that no builder has to be trusted.

C1  two topics that conflict meet: one of them lies on the path of the other.
C2  the union of all paths has no loop.
C3  every edge is travelled in one direction only.

The papers' direct hops keep C1 and break C2; orienting each path on its own keeps C1 and C2 and breaks C3.
Both can leave every subscriber waiting for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from unisono.engines.plan.conflicts import Conflicts
from unisono.model.errors import PlanError

if TYPE_CHECKING:
    from unisono.engines.plan.plan import Plan


def check_plan(plan: Plan) -> None:
    """Raise PlanError, naming the law and the topics, unless the plan keeps C1, C2 and C3."""
    for topic in plan.rank:
        if topic not in plan.group[topic]:
            raise PlanError(f"the group of '{topic}' does not contain '{topic}' itself")
    check_paths(
        {topic: plan.path(topic) for topic in plan.rank},
        {topic: plan.group[topic] - {topic} for topic in plan.rank},
    )


def check_paths(paths: Mapping[str, Sequence[str]], conflicts: Conflicts) -> None:
    """Raise PlanError unless these paths, each from its topic upwards, keep C1, C2 and C3."""
    check_conflicts(conflicts)
    for topic in sorted(conflicts.keys() | paths.keys()):
        path = paths.get(topic, ())
        if not path or path[0] != topic:
            raise PlanError(f"the path of '{topic}' does not start at '{topic}': {_road(path)}")
    _check_meetings(paths, conflicts)
    edges = sorted({edge for path in paths.values() for edge in pairwise(path)})
    _check_loop_free(edges)
    _check_one_way(edges)


def check_conflicts(conflicts: Conflicts) -> None:
    """Raise PlanError unless every conflict is mutual, between two different topics of the graph."""
    for topic in sorted(conflicts):
        for other in sorted(conflicts[topic]):
            if other == topic:
                raise PlanError(f"topic '{topic}' conflicts with itself")
            if topic not in conflicts.get(other, ()):
                raise PlanError(f"'{topic}' conflicts with '{other}' but not the other way round")


def _check_meetings(paths: Mapping[str, Sequence[str]], conflicts: Conflicts) -> None:
    visits = {topic: frozenset(path) for topic, path in paths.items()}
    for topic in sorted(conflicts):
        for other in sorted(conflicts[topic]):
            if topic < other and topic not in visits[other] and other not in visits[topic]:
                raise PlanError(
                    f"C1: '{topic}' and '{other}' conflict but do not meet: "
                    f"{_road(paths[topic])} and {_road(paths[other])}"
                )


def _check_loop_free(edges: Iterable[tuple[str, str]]) -> None:
    near: dict[str, list[str]] = {}
    tree: dict[str, str] = {}
    for low, high in edges:
        if low in near.get(high, ()):
            continue  # the same edge the other way: for C3 to judge
        if _root(tree, low) == _root(tree, high):
            raise PlanError(f"C2: the paths form a loop: {_road([*_way(near, low, high), low])}")
        tree[_root(tree, low)] = _root(tree, high)
        near.setdefault(low, []).append(high)
        near.setdefault(high, []).append(low)


def _check_one_way(edges: Iterable[tuple[str, str]]) -> None:
    travelled = set(edges)
    for low, high in edges:
        if (high, low) in travelled:
            raise PlanError(f"C3: the edge between '{low}' and '{high}' is travelled both ways")


def _root(tree: dict[str, str], node: str) -> str:
    while (up := tree.get(node, node)) != node:
        tree[node] = tree.get(up, up)  # halve the way for the next one
        node = up
    return node


def _way(near: Mapping[str, Sequence[str]], start: str, end: str) -> list[str]:
    """The one way between two nodes of a tree."""
    came: dict[str, str] = {start: start}
    queue = [start]
    for node in queue:  # grows while it is walked
        fresh = [other for other in near.get(node, ()) if other not in came]
        came.update(dict.fromkeys(fresh, node))
        queue.extend(fresh)
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _road(path: Sequence[str]) -> str:
    return " -> ".join(path) or "(empty)"
