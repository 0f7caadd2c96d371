"""Which node owns which topic where the work is spread (`sequencer="atoms"`).

The atom of two topics lives with whichever of them ranks above the other, so to place topics is to place atoms. The
plan is cut into parts that hang together, each with no more than its share of the load (`unisono.engines.plan`), and
every epoch puts the parts on nodes anew: the heaviest first, where it makes the least load, but with who owns most of
it already if there is room. A topic weighs one, and what was published on it in the epochs that are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unisono.engines.plan import Plan, contract, edge_traffic
from unisono.model.frames import EpochNotice

ROOM = 1.25  # of an even share of the load: how much a node may have before it matters


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
    place = {topic: i for i, topic in enumerate(plan.rank)}
    owners: dict[str, str] = {}
    load = dict.fromkeys(sorted(nodes), 0.0)
    parts = contract(plan, weights, share)
    for part in sorted(parts, key=lambda p: (-p.load, min(place[topic] for topic in p.topics))):
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
    return owners


def _neighbours(plan: Plan, weights: Mapping[str, float]) -> dict[str, list[tuple[str, float]]]:
    """For every topic those beside it in the plan, and how much passes between them."""
    near: dict[str, list[tuple[str, float]]] = {topic: [] for topic in plan.rank}
    for topic, crossing in edge_traffic(plan, weights).items():
        parent = plan.parent[topic]
        assert parent is not None
        near[topic].append((parent, crossing))
        near[parent].append((topic, crossing))
    return near
