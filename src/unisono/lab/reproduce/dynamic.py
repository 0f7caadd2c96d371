"""Paper 000, figures 16 to 20: the topic order follows popularity at run time. What is measured.

10,000 nodes, 1,000 topics, 100 subscriptions each, one event a second. The text does not say for how long: with 600
events the numbers of swaps come nearest to the paper's, and its shuffle at 300 s is then in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from unisono.engines.plan import Conflicts
from unisono.engines.topic_managers.ranking import Known, Ranking, RankingSettings, Saturating
from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.experiments import WINDOWS
from unisono.lab.reproduce.overhead import ENTRY_BYTES
from unisono.lab.reproduce.subscribing import SHAPE, draw_held
from unisono.sim.fast.chains import Visits, conflicts_of, names_of
from unisono.sim.fast.latency import Stamped, notify, stamp_and_return, stamp_at_one_host
from unisono.sim.fast.overlay import Overlay
from unisono.sim.fast.reranking import replan, swap, visits_by, visits_while_ranked
from unisono.sim.workloads import Schedule, power_law, schedule, subscriptions, uniform

JOINS = (
    4  # what joins have added to every sequence number before the first event; see docs/protocols/ranking.md
)
JOINED = 100  # topics that a join names
HALF_LIFE_S = 120.0  # ours: after which a publication counts half
INTERVAL_S = 5.0  # ours: between two changes at least


def papers_ranking(rank: list[str], alpha: float, beta: float) -> Ranking:
    """The rule of the paper: x is the sequence number, every manager asks for itself, nothing fades."""
    ranking = Ranking(
        rank, RankingSettings(beta=beta, half_life_s=math.inf, interval_s=0.0), Saturating(alpha)
    )
    for topic in rank:
        ranking.observe(topic, JOINS, 0.0)
    return ranking


def our_ranking(rank: list[str]) -> Ranking:
    """Counts that fade; a topic that is more than twice as busy as one above it makes all be ranked anew."""
    return Ranking(
        rank, RankingSettings(beta=1.0, half_life_s=HALF_LIFE_S, interval_s=INTERVAL_S), _doublings
    )


def _doublings(known: Known) -> float:
    return math.log2(1 + known.count)


def count_swaps(parameters: Mapping[str, Value], seed: int) -> Figures:
    """How often topics change places by the paper's rule, and how far down events are then published.

    Who subscribes plays no part, but that they do: each join adds one to the numbers of the topics it names.
    """
    topics, events = int(parameters["topics"]), int(parameters["events"])
    joins_s, joining = float(parameters["joins_s"]), str(parameters["joining"])
    generator, joins = np.random.default_rng([seed, 16]), np.random.default_rng([seed, 17])
    names = names_of(topics)
    ranking = papers_ranking(
        [names[i] for i in generator.permutation(topics)],
        float(parameters["alpha"]),
        float(parameters["beta"]),
    )
    wanted = power_law(topics, SHAPE) if joining == "popular" else uniform(topics)
    published = schedule(power_law(topics, SHAPE), generator, rate_s=1, duration_s=events)
    places = []
    for now, _, topic in published.events():
        joined = subscriptions(wanted, int(joins.poisson(joins_s)), min(JOINED, topics // 2), joins)
        for other in np.nonzero(joined)[1].tolist():
            ranking.observe(names[other], 1, now)
        places.append(ranking.rank.index(names[topic]))
        ranking.observe(names[topic], 1, now)
        swap(ranking, names[topic], now)
    return {"swaps": float(ranking.swaps), "late_place": float(np.mean(places[2 * events // 3 :]))}


def run(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One run of figures 16 to 20: latency and bytes as time goes by."""
    nodes, topics, each, events = (int(parameters[n]) for n in ("nodes", "topics", "subscriptions", "events"))
    generator, popularity = np.random.default_rng([seed, 18]), power_law(topics, SHAPE)
    held = draw_held(popularity, nodes, each, str(parameters["subscribing"]), generator)
    shuffle_at = float(parameters["shuffle_s"]) or None
    published = schedule(
        popularity, generator, rate_s=1, duration_s=events, publishers=nodes, shuffle_at=shuffle_at
    )
    shuffled = [names_of(topics)[i] for i in generator.permutation(topics)]
    overlay = Overlay(nodes, topics, seed, held)
    order = str(parameters["order"])
    visits, changes = _visits(order, conflicts_of(held), shuffled, published, parameters)
    if order == "together":
        host = int(overlay.roots[0])
        stamped: Stamped = stamp_at_one_host(overlay, host, published, generator, direct=True)
    else:
        stamped = stamp_and_return(overlay, visits, published, generator)
    latency = notify(overlay, stamped, published, generator, direct=order == "together").total_s
    sizes = ENTRY_BYTES * visits.lengths.astype(np.float64)
    late = slice(2 * events // 3, None)
    return {
        "changes": float(changes),
        "late_latency_s": float(latency[late].mean()),
        "late_bytes": float(sizes[late].mean()),
        "late_bytes_median": float(np.median(sizes[late])),
        **{
            f"latency_s_{i:02}": float(part.mean()) for i, part in enumerate(np.array_split(latency, WINDOWS))
        },
        **{f"bytes_{i:02}": float(part.mean()) for i, part in enumerate(np.array_split(sizes, WINDOWS))},
    }


def _visits(
    order: str, conflicts: Conflicts, rank: list[str], events: Schedule, parameters: Mapping[str, Value]
) -> tuple[Visits, int]:
    if order == "dynamic":
        ranking = papers_ranking(rank, float(parameters["alpha"]), float(parameters["beta"]))
        return visits_while_ranked(conflicts, ranking, events, swap)
    if order == "ours":
        return visits_while_ranked(conflicts, our_ranking(rank), events, replan)
    return visits_by(conflicts, sorted(rank) if order == "best" else rank, events.topic), 0
