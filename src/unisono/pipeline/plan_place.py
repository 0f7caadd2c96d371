"""Which topics live on one host: the busiest edges of the plan are contracted while the host can carry it.

A host pays for each event that visits it, once, however many of its topics stamp it. Parts (`unisono.engines.plan`)
are contiguous, so a path enters and leaves each at most once and its hops are its hosts. Greedy, not optimal:
splitting a tree under a load cap contains bin packing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.engines.plan import Part, Plan, contract
from unisono.model.errors import ConfigError

SLACK = 1e-9  # sums of rates in another order differ in the last bits


class Host(msgspec.Struct, frozen=True):
    """A host, its topics in rank order, and the events per second that visit it."""

    name: str
    topics: tuple[str, ...]
    load: float


class Placement(msgspec.Struct, frozen=True):
    """Where every topic lives; `problem` says in words what does not fit."""

    hosts: tuple[Host, ...]
    capacity: float | None  # events per second that one host carries; None: any number
    nodes: int | None  # hosts there are; None: as many as it takes
    cut: int  # edges of the plan between two hosts
    fits: bool
    problem: str = ""

    def host_of(self) -> dict[str, str]:
        """The host of each topic."""
        return {topic: host.name for host in self.hosts for topic in host.topics}


def check_hosts(capacity: float | None, nodes: int | None) -> None:
    """Raise ConfigError unless there can be such hosts."""
    if capacity is not None and not capacity > 0:
        raise ConfigError(f"--capacity is events per second and greater than zero, not {capacity:g}")
    if nodes is not None and nodes < 1:
        raise ConfigError(f"--nodes is at least 1, not {nodes}")


def place(
    plan: Plan, rates: Mapping[str, float], *, capacity: float | None = None, nodes: int | None = None
) -> Placement:
    """Contract the busiest edges while a host can carry the part, then put the parts on hosts."""
    check_hosts(capacity, nodes)
    parts = contract(plan, rates, capacity)
    place_of = {topic: i for i, topic in enumerate(plan.rank)}
    bins, problem = _pack(parts, place_of, capacity, nodes)
    hosts = tuple(
        Host(f"node-{i}", tuple(sorted(part.topics, key=place_of.__getitem__)), round(part.load, 6))
        for i, part in enumerate(bins, start=1)
    )
    home = {topic: host.name for host in hosts for topic in host.topics}
    cut = sum(
        1 for topic, parent in plan.parent.items() if parent is not None and home[topic] != home[parent]
    )
    return Placement(hosts, capacity, nodes, cut, not problem, problem)


def _pack(
    parts: list[Part], place_of: Mapping[str, int], capacity: float | None, nodes: int | None
) -> tuple[list[Part], str]:
    """The heaviest first, each on the first host with room; without a cap, on the least loaded of the hosts."""
    order = sorted(parts, key=lambda p: (-p.load, min(place_of[topic] for topic in p.topics)))
    limit = float("inf") if capacity is None else capacity * (1 + SLACK)
    bins: list[Part] = []
    problem = ""
    for part in order:
        if part.load > limit and not problem:
            problem = (
                f"topic '{part.topics[0]}' alone is visited by {part.load:g} events/s, "
                f"and a host carries {capacity:g}"
            )
        fitting = [b for b in bins if b.load + part.load <= limit]
        if capacity is None and nodes is not None:
            chosen = min(bins, key=lambda b: b.load) if len(bins) >= nodes else None
        else:
            chosen = fitting[0] if fitting else None
        if chosen is None and (nodes is None or len(bins) < nodes):
            bins.append(Part(list(part.topics), part.load))
            continue
        if chosen is None:
            chosen = min(bins, key=lambda b: b.load)
            problem = problem or f"{nodes} hosts of {capacity:g} events/s are not enough"
        chosen.topics += part.topics
        chosen.load += part.load
    return bins, problem
