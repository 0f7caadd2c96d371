"""Chains while the topic order changes: each event goes by the plan in force when it is published.

The order changes when the engine's `Ranking` says so, and to what it says. A change takes no time here: the next
event goes by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unisono.engines.plan import Conflicts, rank_line
from unisono.engines.topic_managers.ranking import Ranking
from unisono.sim.fast.chains import Visits, around, names_of, paper_chains
from unisono.sim.workloads import Schedule

Ints = NDArray[np.int64]
Rule: TypeAlias = Callable[[Ranking, str, float], tuple[str, ...] | None]


def swap(ranking: Ranking, topic: str, now: float) -> tuple[str, ...] | None:
    """Paper 000: after each of its events a topic may change places with one above it."""
    wanted = ranking.candidate(now, topic)
    if wanted is None or ranking.request(wanted, now) is None:
        return None
    return ranking.accept(wanted, ranking.epoch + 1)


def replan(ranking: Ranking, topic: str, now: float) -> tuple[str, ...] | None:
    """Ours: all topics that are out of place at once, in one epoch."""
    rank = ranking.replan(now)
    if rank is not None:
        # A ranking made from a mere rank has all topics in one component: those that conflict with its top.
        top, *others = rank
        star = {top: frozenset(others), **dict.fromkeys(others, frozenset((top,)))}
        ranking.adopt(rank_line(star, rank=rank, epoch=ranking.epoch + 1), now)
    return rank


def visits_while_ranked(
    conflicts: Conflicts, ranking: Ranking, events: Schedule, rule: Rule = swap
) -> tuple[Visits, int]:
    """The managers each event passes, and how often the order changed."""
    names = names_of(len(ranking.rank))
    parts: list[Visits] = []
    rank, start = ranking.rank, 0
    for i, (now, _, topic) in enumerate(events.events(), 1):
        ranking.observe(names[topic], 1, now)
        changed = rule(ranking, names[topic], now)
        if changed is not None:
            parts.append(visits_by(conflicts, rank, events.topic[start:i]))
            rank, start = changed, i
    changes = len(parts)
    return joined([*parts, visits_by(conflicts, rank, events.topic[start:])]), changes


def visits_by(conflicts: Conflicts, rank: Sequence[str], topics: Ints) -> Visits:
    """The managers that events of these topics pass by the plan of this rank."""
    plan = rank_line(around(conflicts, topics), rank=rank)
    return paper_chains(plan, topics).visits(topics)


def joined(parts: Sequence[Visits]) -> Visits:
    """Batches of events one behind the other."""
    managers, lengths = zip(*parts, strict=True)
    return Visits(np.concatenate(managers), np.concatenate(lengths))
