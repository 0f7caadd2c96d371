"""Which node owns which topic: the one place where that is decided.

Topics that share subscribers are cheapest on one node, where a chain of managers is a function call. So a
component stays together while it fits; what is alone goes where there is least; and a component that does not fit
is split along the rank, neighbours first. Load is counted in topics. A node that comes along is given something
only when another one has more than it should.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from unisono.engines.takeover.control import Control
from unisono.engines.takeover.patterns import matching


def components(groups: Iterable[Iterable[str]]) -> dict[str, str]:
    """Topic -> the name of its component: two topics in one group are in one component."""
    up: dict[str, str] = {}

    def root(topic: str) -> str:
        while up.setdefault(topic, topic) != topic:
            up[topic] = up[up[topic]]
            topic = up[topic]
        return topic

    for group in groups:
        first = None
        for topic in group:
            found = root(topic)
            if first is None:
                first = found
            elif found != first:
                up[found] = first
    return {topic: root(topic) for topic in list(up)}


def place(
    control: Control,
    new: Sequence[str],
    together: Iterable[Iterable[str]],
    nodes: Sequence[str],
    topics_max: int,
) -> dict[str, str]:
    """The owners of new topics, given which topics will share subscribers and which nodes may own any."""
    if not new:
        return {}
    rank = (*control.plan.rank, *new)
    holders = [matching(held.topics, rank) for held in control.holders()]
    part = components([*set(control.plan.group.values()), *together, *holders])
    load = dict.fromkeys(nodes, 0)
    shares: dict[tuple[str, str], int] = {}  # (component, node) -> topics of it that the node owns
    last: dict[str, str] = {}  # component -> the owner of its lowest topic
    for topic in control.plan.rank:
        owner = control.owner[topic]
        if owner in load:
            load[owner] += 1
            shares[part[topic], owner] = shares.get((part[topic], owner), 0) + 1
            last[part[topic]] = owner
    owners: dict[str, str] = {}
    for topic in new:
        component = part.get(topic, topic)
        home = last.get(component)
        if home is None or shares[component, home] >= topics_max:
            home = min(load, key=lambda node: (load[node], node))
        owners[topic] = last[component] = home
        load[home] += 1
        shares[component, home] = shares.get((component, home), 0) + 1
    return owners


def relieve(control: Control, nodes: Sequence[str], topics_max: int) -> dict[str, str]:
    """Moves that help a node with more topics than it should have: whole components go to whoever has least."""
    part = components(set(control.plan.group.values()))
    load = dict.fromkeys(nodes, 0)
    owned: dict[str, dict[str, list[str]]] = {node: {} for node in nodes}
    for topic in control.plan.rank:
        owner = control.owner[topic]
        if owner in load:
            load[owner] += 1
            owned[owner].setdefault(part[topic], []).append(topic)
    moves: dict[str, str] = {}
    for node in sorted(nodes):
        for topics in sorted(owned[node].values(), key=len):
            least = min(load, key=lambda other: (load[other], other))
            if load[node] <= topics_max or load[least] + len(topics) >= load[node]:
                break
            moves |= dict.fromkeys(topics, least)
            load[node] -= len(topics)
            load[least] += len(topics)
    return moves


def valid_moves(moves: Mapping[str, str], control: Control, nodes: Sequence[str]) -> dict[str, str]:
    """Those that move a topic there is to a node that may own it."""
    return {t: n for t, n in moves.items() if n in nodes and t in control.owner}
