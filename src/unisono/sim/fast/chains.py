"""Which managers an event passes: read from a plan, in arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.engines.plan import Conflicts, Plan, Registration, conflict_graph

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def names_of(topics: int) -> list[str]:
    """Names for topics that are numbers elsewhere; their order is the order of the numbers."""
    return [f"t{topic:05d}" for topic in range(topics)]


def conflicts_of(held: Bools, threshold: int = 2) -> dict[str, frozenset[str]]:
    """The conflict graph of subscriptions given as a matrix: a row for each subscriber, a column for each topic.

    How many hold each pair is counted here; for each such number the plan's code says whether they conflict.
    """
    names = names_of(held.shape[1])
    # Exact in 32 bits up to 16 million subscribers, and many times as fast as with integers.
    ones = held.astype(np.float32)
    shared = (ones.T @ ones).astype(np.int64)
    np.fill_diagonal(shared, 0)
    is_enough = np.zeros(int(shared.max(initial=0)) + 1, np.bool_)
    for count in np.unique(shared[shared > 0]).tolist():
        pair = conflict_graph([Registration(frozenset("AB"), count)], threshold=threshold)
        is_enough[count] = bool(pair["A"])
    rows = [np.flatnonzero(row).tolist() for row in is_enough[shared]]
    return {name: frozenset(names[i] for i in row) for name, row in zip(names, rows, strict=True)}


def around(conflicts: Conflicts, topics: Ints) -> dict[str, frozenset[str]]:
    """The conflicts that these topics have, and no others: enough for their own chains, and much smaller."""
    names = names_of(len(conflicts))
    kept = frozenset(names[topic] for topic in np.unique(topics).tolist())
    return {n: frozenset(others if n in kept else others & kept) for n, others in conflicts.items()}


def conflicts_of_all(topics: int, subscribers: int, threshold: int = 2) -> dict[str, frozenset[str]]:
    """The conflict graph if everybody holds everything."""
    names = names_of(topics)
    return conflict_graph([Registration(frozenset(names), subscribers)], names, threshold)


class Visits(NamedTuple):
    """The managers that events pass, event behind event, and how many each passes."""

    managers: Ints  # as numbers of topics
    lengths: Ints  # also: how many entries each stamp has


class Chains(NamedTuple):
    """For each topic that was asked for: the managers its events pass, its own first, as numbers of topics."""

    managers: Mapping[int, Ints]

    def visits(self, topics: Ints) -> Visits:
        """All chains of these events, one behind the other."""
        chains = [self.managers[topic] for topic in topics.tolist()]
        lengths = np.array([len(chain) for chain in chains], np.int64)
        return Visits(np.concatenate(chains) if chains else lengths, lengths)


def paper_chains(plan: Plan, topics: Sequence[int] | Ints) -> Chains:
    """The chains of paper 000: from the topic's manager to each conflicting one above it, without transit."""
    names = names_of(len(plan.rank))
    number = {name: topic for topic, name in enumerate(names)}
    wanted = np.unique(np.asarray(topics, np.int64)).tolist()
    return Chains({t: _numbers(number, (names[t], *reversed(plan.above(names[t])))) for t in wanted})


def plan_chains(plan: Plan, topics: Sequence[int] | Ints) -> Chains:
    """The chains of our plans: every topic on the path, transit included."""
    names = names_of(len(plan.rank))
    number = {name: topic for topic, name in enumerate(names)}
    wanted = np.unique(np.asarray(topics, np.int64)).tolist()
    return Chains({t: _numbers(number, plan.path(names[t])) for t in wanted})


def _numbers(number: Mapping[str, int], chain: Sequence[str]) -> Ints:
    return np.array([number[name] for name in chain], np.int64)
