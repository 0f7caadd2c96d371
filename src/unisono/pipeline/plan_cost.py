"""What a plan costs per event: entries and bytes of stamps, topics on the path, hosts on the path.

All are means over events, so each topic counts by its rate. Nothing is measured here: it follows from the plan.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.engines.plan import Plan, top
from unisono.pipeline.plan_place import Placement

NUMBER_BYTES = 5  # a number up to four thousand million, as msgpack writes it


class Costs(msgspec.Struct, frozen=True):
    """Expected costs per event. Full stamps do not depend on the rank; upward stamps and paths do."""

    ranks: str  # where they come from
    kind: str  # line or forest
    stamp_entries: float  # full stamps: the topic and all it conflicts with
    stamp_bytes: float
    stamp_entries_upward: float  # upward stamps: the topic and what it conflicts with above it
    stamp_bytes_upward: float
    path_topics: float  # = hops if every topic had a host of its own
    path_topics_max: int
    hops: float  # hosts on the path, with this placement
    hosts: int
    load_max: float  # events per second that visit the busiest host


class TopicCost(msgspec.Struct, frozen=True):
    """The same for the events of one topic."""

    stamp_entries: int
    stamp_bytes: int
    stamp_entries_upward: int
    stamp_bytes_upward: int
    path_topics: int
    hops: int


def entry_bytes(topic: str) -> int:
    """What one entry of a stamp takes on the wire: the name with its header, and a number."""
    size = len(topic.encode())
    return size + (1 if size < 32 else 2) + NUMBER_BYTES


def topic_costs(plan: Plan, placement: Placement) -> dict[str, TopicCost]:
    """What an event of each topic costs."""
    home = placement.host_of()
    depth: dict[str, int] = {}
    changes: dict[str, int] = {}  # of host, from the root down to the topic
    for topic in plan.rank:  # a parent comes before its children
        parent = plan.parent[topic]
        depth[topic] = 0 if parent is None else depth[parent] + 1
        changes[topic] = 0 if parent is None else changes[parent] + (home[parent] != home[topic])
    size = {topic: entry_bytes(topic) for topic in plan.rank}
    costs: dict[str, TopicCost] = {}
    for topic in plan.rank:
        above, end = plan.above(topic), top(plan, topic)
        costs[topic] = TopicCost(
            stamp_entries=len(plan.group[topic]),
            stamp_bytes=sum(map(size.__getitem__, plan.group[topic])),
            stamp_entries_upward=1 + len(above),
            stamp_bytes_upward=size[topic] + sum(map(size.__getitem__, above)),
            path_topics=depth[topic] - depth[end] + 1,
            hops=changes[topic] - changes[end] + 1,
        )
    return costs


def plan_costs(
    plan: Plan, placement: Placement, rates: Mapping[str, float], *, ranks: str, kind: str
) -> Costs:
    """The mean over all events; over all topics when nothing is published."""
    costs = topic_costs(plan, placement)
    weight = {topic: rates.get(topic, 0.0) for topic in plan.rank}
    if not any(weight.values()):
        weight = dict.fromkeys(plan.rank, 1.0)
    total = sum(weight.values()) or 1.0

    def mean(field: str) -> float:
        return round(sum(weight[t] * float(getattr(c, field)) for t, c in costs.items()) / total, 4)

    return Costs(
        ranks=ranks,
        kind=kind,
        stamp_entries=mean("stamp_entries"),
        stamp_bytes=mean("stamp_bytes"),
        stamp_entries_upward=mean("stamp_entries_upward"),
        stamp_bytes_upward=mean("stamp_bytes_upward"),
        path_topics=mean("path_topics"),
        path_topics_max=max((c.path_topics for c in costs.values()), default=0),
        hops=mean("hops"),
        hosts=len(placement.hosts),
        load_max=max((host.load for host in placement.hosts), default=0.0),
    )
