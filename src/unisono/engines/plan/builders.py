"""Two ways from a conflict graph to a lawful plan; both keep C1, C2 and C3 by construction.

The rank line puts each component on one line: any two of its topics may come to conflict later without a new
road, and events pay for every topic between. The elimination forest lets topics that never meet climb
different branches, so its paths are never longer than those of the line with the same rank. Neither is the
shortest possible plan: that is NP-hard. Every result depends on names, rates and ranks only, never on the
order in which they were given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from unisono.engines.plan.conflicts import Conflicts, components
from unisono.engines.plan.laws import check_conflicts
from unisono.engines.plan.plan import Plan
from unisono.model.errors import PlanError


def rank_line(
    conflicts: Conflicts,
    *,
    rank: Sequence[str] | None = None,
    rates: Mapping[str, float] | None = None,
    epoch: int = 0,
) -> Plan:
    """One line per component in rank order; without a rank the busiest topic is on top, then by name."""
    check_conflicts(conflicts)
    rates = rates or {}
    if rank is None:
        rank = sorted(conflicts, key=lambda topic: (-rates.get(topic, 0), topic))
    place = _places(rank, conflicts)
    parent: dict[str, str | None] = {}
    for component in components(conflicts):
        higher: str | None = None
        for topic in sorted(component, key=place.__getitem__):
            parent[topic] = higher
            higher = topic
    return _plan(conflicts, rank, parent, epoch)


def elimination_forest(
    conflicts: Conflicts,
    *,
    rates: Mapping[str, float] | None = None,
    rank: Sequence[str] | None = None,
    epoch: int = 0,
) -> Plan:
    """The elimination forest of the conflict graph, by minimum degree or, with a rank, from its last topic up."""
    check_conflicts(conflicts)
    if rank is None:
        rank = _minimum_degree_order(conflicts, rates or {})[::-1]
    return _plan(conflicts, rank, _elimination_tree(conflicts, _places(rank, conflicts)), epoch)


def _minimum_degree_order(conflicts: Conflicts, rates: Mapping[str, float]) -> list[str]:
    """Eliminate a topic with the fewest remaining neighbours, join those neighbours, and so on.

    Ties go to the lowest rate, then the first name: quiet topics sink to the bottom, where paths are long.
    """
    home = {topic: i for i, component in enumerate(components(conflicts)) for topic in component}
    left = Counter(home.values())
    near = {topic: set(conflicts[topic]) for topic in conflicts}
    waiting = [(len(near[topic]), rates.get(topic, 0), topic) for topic in near]
    heapify(waiting)
    order: list[str] = []
    while waiting:
        degree, _, topic = heappop(waiting)
        if topic not in near or degree != len(near[topic]):
            continue  # its degree has changed since; the newer entry counts
        neighbours = near.pop(topic)
        order.append(topic)
        left[home[topic]] -= 1
        # Once the fewest neighbours are all that is left, everything is joined already: dense graphs get
        # there early, and would otherwise cost the cube of their size.
        joined = degree == left[home[topic]]
        for other in neighbours:
            around = near[other]
            if not joined:
                around |= neighbours
                around.discard(other)
            around.discard(topic)
            heappush(waiting, (len(around), rates.get(other, 0), other))
    return order


def _elimination_tree(conflicts: Conflicts, place: dict[str, int]) -> dict[str, str | None]:
    """The parent of T is the lowest topic above T that T meets, itself or through topics below both.

    This is Liu's algorithm: it finds the parents that fill-in would give without computing the fill. Topics
    are taken from the last rank up; each becomes the parent of the roots of the trees that it conflicts with.
    """
    parent: dict[str, str | None] = dict.fromkeys(place)
    towards_root: dict[str, str] = {}
    for topic in reversed(place):
        for lower in conflicts[topic]:
            if place[lower] < place[topic]:
                continue
            node = lower
            while (up := towards_root.get(node, topic)) != topic:
                towards_root[node] = topic  # shorten the climb of the next one
                node = up
            if node not in towards_root:
                towards_root[node] = topic
                parent[node] = topic
    return parent


def _plan(conflicts: Conflicts, rank: Sequence[str], parent: Mapping[str, str | None], epoch: int) -> Plan:
    group = {topic: frozenset(conflicts[topic]) | {topic} for topic in conflicts}
    return Plan(rank=tuple(rank), parent=parent, group=group, epoch=epoch)


def _places(rank: Sequence[str], conflicts: Conflicts) -> dict[str, int]:
    place = {topic: i for i, topic in enumerate(rank)}
    if len(place) != len(rank):
        raise PlanError("a rank names every topic once, but this one repeats some")
    if odd := sorted(place.keys() ^ conflicts.keys()):
        raise PlanError(f"rank and conflict graph must name the same topics, but differ in {odd}")
    return place
