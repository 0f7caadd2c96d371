"""Which node owns which topic where the work is spread (`sequencer="atoms"`).

The atom of two topics lives with whichever of them ranks above the other, so to place topics is to place atoms. The
plan is cut into parts that hang together, each with no more than its share of the load (`unisono.engines.plan`), and
every epoch puts the parts on nodes anew: the heaviest first, where it makes the least load, but with who owns most of
it already if there is room. A topic weighs one, and what was published on it in the epochs that are remembered.

Near the top of a deep tree every single topic is visited by more than a share, and a cut between any two of them costs
another visit of all that passes. Larger parts are tried as well, and taken if the busiest node then has less to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unisono.engines.plan import Plan, contract, edge_traffic
from unisono.model.frames import EpochNotice

ROOM = 1.25  # of an even share of the load: how much a node may have before it matters
LARGER = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)  # caps that are tried, times what some topic has alone
GAIN_MIN = 0.1  # what larger parts must take off the busiest node
ALIKE = 1.05  # busiest nodes that differ by less: then fewer visits count


def published(notices: Mapping[int, EpochNotice]) -> dict[str, int]:
    """How many events each topic has had between the oldest epoch that is remembered and the newest."""
    if not notices:
        return {}
    first, last = notices[min(notices)].numbers, notices[max(notices)].numbers
    return {topic: number - first.get(topic, 0) for topic, number in last.items()}


def spread(
    plan: Plan, owner: Mapping[str, str], nodes: Sequence[str], events: Mapping[str, int]
) -> dict[str, str]:
    """The owner of every topic of the plan, given who owns it now and what was published on it."""
    weights = {topic: 1.0 + events.get(topic, 0) for topic in plan.rank}
    share = ROOM * sum(weights.values()) / len(nodes)
    near = _neighbours(plan, weights)
    owners, load = _put(plan, owner, nodes, weights, share, near)
    alone = max((part.load for part in contract(plan, weights, 0.0)), default=0.0)
    if alone <= share:
        return owners
    larger = [_put(plan, owner, nodes, weights, alone * times, near) for times in LARGER]
    least = min(max(loads.values()) for _, loads in larger)
    others, their = min(
        ((o, loads) for o, loads in larger if max(loads.values()) <= least * ALIKE),
        key=lambda found: sum(found[1].values()),
    )
    return others if max(their.values()) < (1 - GAIN_MIN) * max(load.values()) else owners


def _put(
    plan: Plan,
    owner: Mapping[str, str],
    nodes: Sequence[str],
    weights: Mapping[str, float],
    share: float,
    near: Mapping[str, Sequence[tuple[str, float]]],
) -> tuple[dict[str, str], dict[str, float]]:
    """The owners when parts have no more than this share, and what visits each node."""
    place = {topic: i for i, topic in enumerate(plan.rank)}
    owners: dict[str, str] = {}
    load = dict.fromkeys(sorted(nodes), 0.0)
    parts = contract(plan, weights, share)
    # Roughly the heaviest first: what is a little lighter or heavier than an epoch ago is no reason to move.
    for part in sorted(
        parts, key=lambda p: (-round(p.load / share, 1), min(map(place.__getitem__, p.topics)))
    ):
        after = {node: load[node] + part.load for node in load}
        held = dict.fromkeys(load, 0.0)
        for topic in part.topics:
            if owner.get(topic) in held:
                held[owner[topic]] += weights[topic]
            for other, crossing in near[topic]:
                if other in owners:
                    after[owners[other]] -= crossing  # who visits both visits the node once
        enough = max(share, min(after.values()))
        home = min(load, key=lambda n: (after[n] > enough, -held[n], after[n], n))
        owners |= dict.fromkeys(part.topics, home)
        load[home] = after[home]
    return owners, load


def _neighbours(plan: Plan, weights: Mapping[str, float]) -> dict[str, list[tuple[str, float]]]:
    """For every topic those beside it in the plan, and how much passes between them."""
    near: dict[str, list[tuple[str, float]]] = {topic: [] for topic in plan.rank}
    for topic, crossing in edge_traffic(plan, weights).items():
        parent = plan.parent[topic]
        assert parent is not None
        near[topic].append((parent, crossing))
        near[parent].append((topic, crossing))
    return near
