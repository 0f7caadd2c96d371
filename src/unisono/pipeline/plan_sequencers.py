"""What the two sequencers would cost with the plan, and which of them to choose.

`topics` keeps topics that are sequenced together on one host; `atoms` cuts their forest into parts on several hosts.
The atom of two topics lives at whichever of them is above the other, so to place topics is to place atoms, and stamps
are the same. Nothing is measured here but what the work of a host takes: that is from docs/sequencers.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.engines.plan import Plan, edge_traffic, top
from unisono.engines.takeover.control import Sequencer
from unisono.engines.takeover.spreading import spread
from unisono.pipeline.plan_cost import topic_costs
from unisono.pipeline.plan_place import Host, Placement, place

# µs of CPU. An event whose order one host decides alone, and times the entries of its stamp squared:
WHOLE_US, WIDE_US = 0.9, 0.0004
# Any other, one by one: for each host that it visits, and for each topic that it stops at.
VISIT_US, STOP_US = 32.0, 8.0
CORES_ENOUGH = 0.7  # of the one core that a host uses; beyond that events wait for each other
EVENTS_KNOWN = 10_000_000  # by which the parts of a plan are weighed
GAIN_MIN = 0.1  # a busiest host that has less to do by less than this is none the better for it
FIXED_MESSAGES = 3  # to the first host, to the subscribers' service, and back to the publisher


class Atoms(msgspec.Struct, frozen=True):
    """The graph of atoms on the forest: atoms are `overlaps`, and each lives at the first of its two ranks."""

    count: int
    at: dict[str, int]  # how many live with each topic, where there are any
    edges: tuple[tuple[int, int, float], ...]  # rank, its parent's rank, and the events/s that pass up
    transit: float  # of the stops at topics, the share at those that number nothing, wherever they live


class SequencerCosts(msgspec.Struct, frozen=True):
    """What one sequencer comes to; means over events, and events per second."""

    hosts: tuple[Host, ...]  # their load is the events/s that visit them
    cut: int  # edges of the plan between two hosts
    messages: float  # between processes, per event, were each to go alone
    hops: float  # hosts that sequence an event
    hops_max: int
    stretch: float  # legs from publisher to subscriber, where unordered publication has one
    stretch_max: int
    stamp_bytes: float
    transit: float  # of the visits to hosts, the share at which nothing is numbered
    whole: float  # share of events whose order is decided on one host
    load_max: float  # events/s that visit the busiest host
    cores: float  # of CPU, all hosts together
    cores_max: float  # and the busiest
    fits: bool  # whether the busiest can do it


class Sequencers(msgspec.Struct, frozen=True):
    """Both sequencers beside each other, on as many hosts, and which one to choose."""

    nodes: int
    recommended: Sequencer
    reasons: tuple[str, ...]  # in words
    topics: SequencerCosts
    atoms: SequencerCosts


def atoms_of_plan(plan: Plan, rates: Mapping[str, float]) -> Atoms:
    """The atoms of a plan, where they live, and what passes between the topics they live with."""
    rank = {topic: i for i, topic in enumerate(plan.rank, start=1)}
    at = {topic: len(below) for topic in plan.rank if (below := plan.below(topic))}
    edges = []
    for topic, events in edge_traffic(plan, rates).items():
        parent = plan.parent[topic]
        assert parent is not None
        edges.append((rank[topic], rank[parent], round(events, 6)))
    alone = Placement((Host("node-1", plan.rank, 0.0),), None, 1, 0, True)
    costs, weight = topic_costs(plan, alone), weights(plan, rates)
    stops = sum(weight[t] * c.path_topics for t, c in costs.items())
    stamped = sum(weight[t] * c.stamp_entries_upward for t, c in costs.items())
    return Atoms(sum(at.values()), at, tuple(sorted(edges)), round(1 - stamped / (stops or 1.0), 4))


def compare_sequencers(
    plan: Plan, rates: Mapping[str, float], *, nodes: int, capacity: float | None = None
) -> Sequencers:
    """Price both on so many hosts, each of which carries `capacity` events/s of whole groups, and choose."""
    budget = CORES_ENOUGH if capacity is None else capacity * _whole_s(plan, rates)
    together = sequencer_costs(plan, place(plan, rates, nodes=nodes).host_of(), rates, budget)
    apart = sequencer_costs(plan, spread_over(plan, rates, nodes), rates, budget)
    chosen, reasons = recommend(together, apart, nodes, budget)
    return Sequencers(nodes, chosen, reasons, together, apart)


def spread_over(plan: Plan, rates: Mapping[str, float], nodes: int) -> dict[str, str]:
    """The host of each topic as nodes decide it themselves, given the same events."""
    events = {topic: round(share * EVENTS_KNOWN) for topic, share in weights(plan, rates).items()}
    return spread(plan, {}, [f"node-{i}" for i in range(1, nodes + 1)], events)


def sequencer_costs(
    plan: Plan, home: Mapping[str, str], rates: Mapping[str, float], budget: float
) -> SequencerCosts:
    """What it costs to have each topic on that host, where a host has so much of a core."""
    whole = {topic for topic in plan.rank if _is_whole(plan, home, topic)}
    visits, work = dict.fromkeys(home.values(), 0.0), dict.fromkeys(home.values(), 0.0)
    traffic = edge_traffic(plan, rates)
    singly = {topic: 0.0 if topic in whole else rates.get(topic, 0.0) for topic in plan.rank}
    passing = edge_traffic(plan, singly)
    cuts = 0
    for topic in plan.rank:
        here, parent = home[topic], plan.parent[topic]
        visits[here] += rates.get(topic, 0.0)
        work[here] += (VISIT_US + STOP_US) * singly[topic]
        if topic in whole:
            work[here] += _whole_us(plan, topic) * rates.get(topic, 0.0)
        if parent is None:
            continue
        work[home[parent]] += STOP_US * passing[topic]
        if home[parent] != here:
            cuts += 1
            visits[home[parent]] += traffic[topic]
            work[home[parent]] += VISIT_US * passing[topic]
    hosts = tuple(
        Host(host, tuple(topic for topic in plan.rank if home[topic] == host), round(visits[host], 6))
        for host in sorted(visits)
    )
    costs = topic_costs(plan, Placement(hosts, None, len(hosts), cuts, True))
    weight = weights(plan, rates)

    def mean(value: Mapping[str, float]) -> float:
        return round(sum(weight[topic] * value[topic] for topic in plan.rank), 4)

    hops = {topic: float(costs[topic].hops) for topic in plan.rank}
    done = {topic: float(home[topic] != home[top(plan, topic)]) for topic in plan.rank}
    passed = {topic: 0.0 if topic in whole else float(_transit(plan, home, topic)) for topic in plan.rank}
    busiest = max(work.values(), default=0.0) / 1e6
    return SequencerCosts(
        hosts=hosts,
        cut=cuts,
        messages=round(FIXED_MESSAGES + mean({t: hops[t] - 1 + done[t] for t in hops}), 4),
        hops=mean(hops),
        hops_max=int(max(hops.values(), default=0)),
        stretch=round(mean(hops) + 1, 4),
        stretch_max=int(max(hops.values(), default=0)) + 1,
        stamp_bytes=mean({topic: float(costs[topic].stamp_bytes) for topic in hops}),
        transit=round(mean(passed) / (mean(hops) or 1.0), 4),
        whole=mean({topic: float(topic in whole) for topic in hops}),
        load_max=round(max(visits.values(), default=0.0), 6),
        cores=round(sum(work.values()) / 1e6, 6),
        cores_max=round(busiest, 6),
        fits=busiest <= budget * (1 + 1e-9),
    )


def weights(plan: Plan, rates: Mapping[str, float]) -> dict[str, float]:
    """The share of each topic in all events; of all topics when nothing is published."""
    weight = {topic: rates.get(topic, 0.0) for topic in plan.rank}
    if not any(weight.values()):
        weight = dict.fromkeys(plan.rank, 1.0)
    total = sum(weight.values()) or 1.0
    return {topic: rate / total for topic, rate in weight.items()}


def _whole_us(plan: Plan, topic: str) -> float:
    return WHOLE_US + WIDE_US * len(plan.group[topic]) ** 2


def _whole_s(plan: Plan, rates: Mapping[str, float]) -> float:
    """Seconds of CPU for an event, while groups are whole."""
    return sum(share * _whole_us(plan, topic) for topic, share in weights(plan, rates).items()) / 1e6


def _is_whole(plan: Plan, home: Mapping[str, str], topic: str) -> bool:
    """Whether nothing that its events' stamps depend on is elsewhere: parts hang together, so neither is the way."""
    here = home[topic]
    return all(home[x] == here for x in plan.group[topic]) and all(home[x] == here for x in plan.path(topic))


def _transit(plan: Plan, home: Mapping[str, str], topic: str) -> int:
    """Visits to hosts at which events of the topic are only passed on."""
    count, here, numbered = 0, home[topic], True
    for above in plan.path(topic)[1:]:
        if home[above] != here:
            count += not numbered
            here, numbered = home[above], False
        numbered |= above in plan.group[topic]
    return count + (not numbered)


def recommend(
    topics: SequencerCosts, atoms: SequencerCosts, nodes: int, budget: float
) -> tuple[Sequencer, tuple[str, ...]]:
    """Whole groups while one host can do them, because each event then visits one; else whatever leaves more room."""
    if nodes == 1:
        return "topics", ("there is one host, and both put everything on it; --nodes compares them on more",)
    if not atoms.cut:
        return "topics", ("no group of topics is worth cutting: both put whole groups on hosts",)
    together = (
        f"whole groups: the busiest host is visited by {topics.load_max:,.0f} events/s, "
        f"work for {topics.cores_max:.2g} cores, and it has {budget:.2g}"
    )
    apart = (
        f"spread over {len(atoms.hosts)} hosts: the busiest is visited by {atoms.load_max:,.0f} events/s, "
        f"work for {atoms.cores_max:.2g} cores"
    )
    price = (
        f"the price of spreading: {atoms.hops:.3g} hosts sequence an event instead of {topics.hops:.3g}, "
        f"{atoms.messages:.3g} messages instead of {topics.messages:.3g}, {atoms.transit:.0%} of the visits only "
        f"pass it on, and {atoms.whole:.0%} of the events can still be ordered in bundles"
    )
    if topics.fits:
        return "topics", (f"{together}: enough", apart, price)
    if atoms.fits:
        return "atoms", (f"{together}: not enough", f"{apart}: enough", price)
    if atoms.cores_max < (1 - GAIN_MIN) * topics.cores_max:
        return "atoms", (f"{together}: not enough", f"{apart}: not enough either, but less", price)
    remedy = "what helps is fewer shared subscribers, or topics that become a system of their own"
    return "topics", (f"{together}: not enough", f"{apart}: no better", price, remedy)
