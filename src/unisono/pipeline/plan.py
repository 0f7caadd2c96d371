"""From overlaps and rates to the best plan we know: ranks, groups, forest, hosts, and what it saves.

The busiest topic on top is the best rank for upward stamps, whatever the conflicts; for paths it is the best on
complete groups and a heuristic on others, where the minimum-degree forest competes (docs/plan.md has the proofs
and the counter-examples).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Literal, TypeAlias

from unisono.engines.plan import Conflicts, Plan, check_plan, components, elimination_forest, rank_line
from unisono.model.errors import ConfigError
from unisono.pipeline.plan_cost import Costs, plan_costs, topic_costs
from unisono.pipeline.plan_document import VERSION, PlanDocument, PlannedTopic
from unisono.pipeline.plan_inputs import fill_rates
from unisono.pipeline.plan_overlaps import Matrix
from unisono.pipeline.plan_place import Placement, place
from unisono.pipeline.plan_sequencers import atoms_of_plan, compare_sequencers

KindOfPlan: TypeAlias = Literal["line", "forest"]


def make_plan(
    matrix: Matrix,
    rates: Mapping[str, float] | None = None,
    *,
    kind: KindOfPlan = "forest",
    capacity: float | None = None,
    nodes: int | None = None,
    current: PlanDocument | None = None,
) -> PlanDocument:
    """Plan for these overlaps and rates, and compare with the plan in force, or with alphabetical ranks."""
    if kind not in ("line", "forest"):
        raise ConfigError(f"--kind is 'line' or 'forest', not '{kind}'")
    started = perf_counter()
    graph = matrix.graph()
    known = fill_rates(graph, rates)
    graph |= {topic: frozenset() for topic in known if topic not in graph}

    def price(plan: Plan, ranks: str, kind: str) -> tuple[Costs, Placement]:
        placement = place(plan, known, capacity=capacity, nodes=nodes)
        return plan_costs(plan, placement, known, ranks=ranks, kind=kind), placement

    before, _ = price(*_before(graph, current))
    priced = [(plan, *price(plan, ranks, kind)) for plan, ranks in _candidates(graph, known, kind)]
    # The first of equals: the busiest on top.
    plan, after, placement = min(priced, key=lambda p: (p[1].hops, p[1].path_topics))
    check_plan(plan)
    return _document(
        plan, matrix, known, placement, before, after, 0 if current is None else current.epoch + 1, started
    )


def busiest_first(topics: Conflicts | Sequence[str], rates: Mapping[str, float]) -> list[str]:
    """The topics by rate, the busiest first; of equals, the first name."""
    return sorted(topics, key=lambda topic: (-rates.get(topic, 0.0), topic))


def _candidates(graph: Conflicts, rates: Mapping[str, float], kind: KindOfPlan) -> list[tuple[Plan, str]]:
    rank = busiest_first(graph, rates)
    if kind == "line":
        return [(rank_line(graph, rank=rank), "busiest on top")]
    return [
        (elimination_forest(graph, rank=rank), "busiest on top"),
        (elimination_forest(graph, rates=rates), "minimum degree"),
    ]


def _before(graph: Conflicts, current: PlanDocument | None) -> tuple[Plan, str, str]:
    if current is None:
        return rank_line(graph, rank=sorted(graph)), "alphabetical", "line"
    # Topics the plan in force does not know yet come last, as a running system would take them in.
    known = [topic for topic in current.ranks if topic in graph]
    rank = [*known, *sorted(graph.keys() - current.ranks.keys())]
    build = rank_line if current.kind == "line" else elimination_forest
    return build(graph, rank=rank), "current", current.kind


def _document(
    plan: Plan,
    matrix: Matrix,
    rates: Mapping[str, float],
    placement: Placement,
    before: Costs,
    after: Costs,
    epoch: int,
    started: float,
) -> PlanDocument:
    rank = {topic: i for i, topic in enumerate(plan.rank, start=1)}
    together = sorted(
        (sorted(group, key=rank.__getitem__) for group in components(plan_conflicts(plan))),
        key=lambda g: rank[g[0]],
    )
    group_of = {topic: i for i, group in enumerate(together) for topic in group}
    holders = dict(zip(matrix.topics, matrix.holders.tolist(), strict=True))
    costs, home = topic_costs(plan, placement), placement.host_of()
    rows = tuple(
        PlannedTopic(
            topic=topic,
            rate=round(rates[topic], 6),
            subscribers=holders.get(topic, 0),
            rank=rank[topic],
            group=group_of[topic],
            parent=plan.parent[topic],
            host=home[topic],
            stamp_entries=costs[topic].stamp_entries,
            stamp_entries_upward=costs[topic].stamp_entries_upward,
            path_topics=costs[topic].path_topics,
            hops=costs[topic].hops,
        )
        for topic in plan.rank
    )
    return PlanDocument(
        version=VERSION,
        epoch=epoch,
        threshold=matrix.threshold,
        kind="line" if after.kind == "line" else "forest",
        subscriptions=matrix.subscriptions,
        distinct=matrix.distinct,
        topics=rows,
        ranks=rank,
        groups=tuple(map(tuple, together)),
        overlaps=_overlaps(matrix, rank),
        placement=placement,
        before=before,
        after=after,
        seconds=round(perf_counter() - started, 3),
        atoms=atoms_of_plan(plan, rates),
        sequencers=compare_sequencers(
            plan, rates, nodes=placement.nodes or max(1, len(placement.hosts)), capacity=placement.capacity
        ),
    )


def plan_conflicts(plan: Plan) -> dict[str, frozenset[str]]:
    """The conflict graph that a plan was made for."""
    return {topic: plan.group[topic] - {topic} for topic in plan.rank}


def _overlaps(matrix: Matrix, rank: Mapping[str, int]) -> tuple[tuple[int, int, int], ...]:
    places = [rank[topic] for topic in matrix.topics]
    pairs = zip(matrix.low.tolist(), matrix.high.tolist(), matrix.shared.tolist(), strict=True)
    return tuple(sorted((*sorted((places[low], places[high])), shared) for low, high, shared in pairs))
