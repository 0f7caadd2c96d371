"""The plan cut into parts that hang together: the busiest edges are contracted while a part stays under a cap.

Whoever hosts a part pays for each event that visits it, once, however many of its topics stamp it. Two parts of a
tree are joined by one edge, and exactly the events that cross it visit both, so the load of the joined part is the
sum of the two less the traffic of the edge: no path is ever walked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.engines.plan.plan import Plan

SLACK = 1e-9  # sums of rates in another order differ in the last bits


@dataclass
class Part:
    """Topics that hang together, and the events per second that visit them."""

    topics: list[str]
    load: float


def edge_traffic(plan: Plan, rates: Mapping[str, float]) -> dict[str, float]:
    """Events per second on the edge from each topic to its parent: those from below that go further up."""
    # Each topic's events enter at the topic and leave at its emitter, an ancestor: sums over subtrees suffice.
    change = {topic: rates.get(topic, 0.0) for topic in plan.rank}
    for topic in plan.rank:
        change[top(plan, topic)] -= rates.get(topic, 0.0)
    for topic in reversed(plan.rank):
        parent = plan.parent[topic]
        if parent is not None:
            change[parent] += change[topic]
    return {topic: max(0.0, change[topic]) for topic in plan.rank if plan.parent[topic] is not None}


def top(plan: Plan, topic: str) -> str:
    """The emitter of the topic's events, without walking the path."""
    above = plan.above(topic)
    return above[0] if above else topic


def contract(plan: Plan, rates: Mapping[str, float], capacity: float | None) -> list[Part]:
    """The parts, each visited by no more than `capacity` events per second unless it is a single topic."""
    traffic = edge_traffic(plan, rates)
    load = {topic: rates.get(topic, 0.0) for topic in plan.rank}
    for topic, crossing in traffic.items():
        parent = plan.parent[topic]
        assert parent is not None
        load[parent] += crossing
    part = {topic: Part([topic], load[topic]) for topic in plan.rank}
    for topic in sorted(traffic, key=lambda topic: -traffic[topic]):  # stable: equals in rank order
        parent = plan.parent[topic]
        assert parent is not None
        small, large = sorted((part[topic], part[parent]), key=lambda p: len(p.topics))
        joined = small.load + large.load - traffic[topic]
        if capacity is not None and joined > capacity * (1 + SLACK):
            continue
        large.topics += small.topics
        large.load = joined
        for moved in small.topics:
            part[moved] = large
    return list({id(p): p for p in part.values()}.values())
