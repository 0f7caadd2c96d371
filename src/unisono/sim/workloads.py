"""What is published and what is subscribed: popularities of topics, and schedules drawn from them.

How 000's "power-law distribution with shapes 0.269 and 0.901" is read: the rank of the topic is a Pareto number
of that shape, rounded down, so that ranks up to r have the share 1 - (r + 1)^-shape. With 1,000 topics this gives
what the paper says of both shapes: the first 400 ranks (40 %) have 80.06 % under 0.269, and the first 5 (0.5 %)
have 80.10 % under 0.901. Ranks beyond the last topic are drawn again (0.2 % of the draws for 0.901 and 1,000
topics, 2.9 % for 50; 15.6 % for 0.269 and 1,000, which raises the share of its first 400 to 94.8 %).

Topics are numbers from 0, the order of ranks is the order of topics until `shuffled` changes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from random import Random
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pace: TypeAlias = Literal["regular", "poisson"]

SHAPES = (0.269, 0.901)  # paper 000, section 6.1


class Popularity:
    """How likely each topic is to be chosen."""

    def __init__(self, shares: Floats) -> None:
        if len(shares) == 0 or not shares.sum() > 0 or shares.min() < 0:
            raise ValueError("a popularity needs a share for each topic, none below zero and one above")
        self.shares: Floats = shares / shares.sum()
        self._below: list[float] = np.cumsum(self.shares).tolist()
        self._last = int(np.flatnonzero(self.shares)[-1])  # sums of shares may end a little below 1

    def __len__(self) -> int:
        return len(self.shares)

    def sample(self, random: Random) -> int:
        """One topic."""
        return min(bisect_right(self._below, random.random()), self._last)

    def sample_many(self, generator: np.random.Generator, n: int) -> Ints:
        """n topics."""
        drawn = np.searchsorted(np.asarray(self._below), generator.random(n), side="right")
        return np.minimum(drawn, self._last).astype(np.int64)

    def head_share(self, topics: int) -> float:
        """The share of the most popular topics together."""
        return float(np.sort(self.shares)[::-1][:topics].sum())

    def shuffled(self, generator: np.random.Generator) -> Popularity:
        """The same shares, given to other topics."""
        return Popularity(generator.permutation(self.shares))

    def reversed(self) -> Popularity:
        """The most popular topics last: the worst case for who orders topics by rank."""
        return Popularity(self.shares[::-1].copy())


def uniform(topics: int) -> Popularity:
    """Every topic alike."""
    return Popularity(np.ones(topics))


def power_law(topics: int, shape: float = 0.901) -> Popularity:
    """Ranks by a Pareto law of this shape, cut behind the last topic."""
    if shape <= 0:
        raise ValueError(f"the shape of a power law is above 0, not {shape}")
    ranks = np.arange(1, topics + 1, dtype=np.float64)
    return Popularity(ranks**-shape - (ranks + 1) ** -shape)


def power_law_head(shape: float, ranks: int) -> float:
    """The share of the first ranks in the law as it is, before it is cut."""
    return float(1 - (ranks + 1.0) ** -shape)


def zipf(topics: int, exponent: float = 1.0) -> Popularity:
    """Each rank by its inverse."""
    return Popularity(np.arange(1, topics + 1, dtype=np.float64) ** -exponent)


def worst_case(topics: int) -> Popularity:
    """Always the last topic of the order."""
    return Popularity(np.eye(1, topics, topics - 1)[0])


def zipf_group_sizes(groups: int, hosts: int, largest: float | None = None) -> Ints:
    """Members of each group, by rank, as in 003: in proportion to 1/r.

    The paper names the proportion, r^-1/H(hosts), and not the factor: unless `largest` says how many the first
    group has, the factor is the number of hosts. No group is empty.
    """
    ranks = np.arange(1, groups + 1)
    first = hosts / float((1 / np.arange(1, hosts + 1)).sum()) if largest is None else largest
    return np.clip(np.rint(first / ranks), 1, hosts).astype(np.int64)


def group_members(sizes: Ints, hosts: int, generator: np.random.Generator) -> Bools:
    """Who is in which group: a row for each host, a column for each group, members drawn evenly."""
    held = np.zeros((hosts, len(sizes)), np.bool_)
    for group, size in enumerate(sizes):
        held[generator.choice(hosts, int(size), replace=False), group] = True
    return held


def subscriptions(
    popularity: Popularity, subscribers: int, each: int, generator: np.random.Generator
) -> Bools:
    """Who holds what: a row for each subscriber, a column for each topic.

    Each holds `each` different topics, drawn one after the other by popularity; all topics if `each` is as many.
    """
    topics = len(popularity)
    if each >= topics:
        return np.ones((subscribers, topics), np.bool_)
    if each > np.count_nonzero(popularity.shares):
        raise ValueError(f"{each} different topics cannot be drawn: fewer have a share")
    held = np.zeros((subscribers, topics), np.bool_)
    with np.errstate(divide="ignore"):
        logs = np.log(popularity.shares)
    # The `each` largest of log(share) + Gumbel noise are a draw without replacement; rows in portions of 8 MB.
    portion = max(1, 1_000_000 // topics)
    for start in range(0, subscribers, portion):
        rows = min(portion, subscribers - start)
        keys = logs + generator.gumbel(size=(rows, topics))
        chosen = np.argpartition(-keys, each - 1, axis=1)[:, :each]
        held[np.arange(start, start + rows)[:, None], chosen] = True
    return held


class Published(NamedTuple):
    """One publication of a schedule or a trace."""

    at: float
    publisher: int
    topic: int


class Schedule(NamedTuple):
    """Publications in the order of time, as arrays."""

    at: Floats
    publisher: Ints
    topic: Ints

    def events(self) -> Iterator[Published]:
        """One by one."""
        for at, publisher, topic in zip(
            self.at.tolist(), self.publisher.tolist(), self.topic.tolist(), strict=True
        ):
            yield Published(at, publisher, topic)


def schedule(
    popularity: Popularity,
    generator: np.random.Generator,
    *,
    rate_s: float,
    duration_s: float,
    publishers: int = 1,
    pace: Pace = "regular",
    shuffle_at: float | None = None,
) -> Schedule:
    """Publications at a rate over all topics: topics by popularity, publishers evenly.

    From `shuffle_at` on the popularity is a shuffled one (000, figure 20: at 300 s).
    """
    if rate_s <= 0 or duration_s <= 0:
        raise ValueError("a schedule needs a rate and a duration above 0")
    if pace == "regular":
        at = np.arange(1, int(rate_s * duration_s) + 1) / rate_s
    else:
        at = np.sort(generator.random(generator.poisson(rate_s * duration_s)) * duration_s)
    topic = popularity.sample_many(generator, len(at))
    if shuffle_at is not None:
        later = at >= shuffle_at
        topic[later] = popularity.shuffled(generator).sample_many(generator, int(later.sum()))
    return Schedule(at, generator.integers(0, publishers, len(at)), topic)
