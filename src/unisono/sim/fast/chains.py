"""Which managers an event passes: read from a plan, in arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.engines.plan import Plan, Registration, conflict_graph

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def names_of(topics: int) -> list[str]:
    """Names for topics that are numbers elsewhere; their order is the order of the numbers."""
    return [f"t{topic:05d}" for topic in range(topics)]


def conflicts_of(held: Bools, threshold: int = 2) -> dict[str, frozenset[str]]:
    """The conflict graph of subscriptions given as a matrix: a row for each subscriber, a column for each topic.

    How many hold each pair is counted here; from how many on they conflict is for the plan's code to say.
    """
    names = names_of(held.shape[1])
    # Exact in 32 bits up to 16 million subscribers, and many times as fast as with integers.
    ones = held.astype(np.float32)
    shared = np.triu(ones.T @ ones, 1).astype(np.int64)
    registrations = [
        Registration(frozenset((names[i], names[j])), int(shared[i, j]))
        for i, j in np.argwhere(shared).tolist()
    ]
    return conflict_graph(registrations, names, threshold)


def conflicts_of_all(topics: int, subscribers: int, threshold: int = 2) -> dict[str, frozenset[str]]:
    """The conflict graph if everybody holds everything."""
    names = names_of(topics)
    return conflict_graph([Registration(frozenset(names), subscribers)], names, threshold)


class Chains(NamedTuple):
    """For each topic that was asked for: the managers its events pass, its own first, as numbers of topics."""

    managers: Mapping[int, Ints]

    def lengths(self, topics: Ints) -> Ints:
        """How many managers each of these events passes: as many entries its stamp has."""
        found, place = np.unique(topics, return_inverse=True)
        sizes = np.array([len(self.managers[topic]) for topic in found.tolist()], np.int64)
        return np.asarray(sizes[place], np.int64)

    def laid_out(self, topics: Ints) -> tuple[Ints, Ints]:
        """All chains of these events one behind the other, and the length of each."""
        chains = [self.managers[topic] for topic in topics.tolist()]
        return np.concatenate(chains), np.array([len(chain) for chain in chains], np.int64)


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
