"""From a subscription matrix of any size to which topics share how many subscribers.

Identical subscriptions are collapsed first: a set of topics held by a thousand subscribers is one row that
weighs a thousand. The pairs of each set are then counted in numpy, one Arrow batch at a time, and only the
counts travel: what is moved depends on the number of pairs of topics, not on the number of subscribers. A
subscriber of k topics has k² / 2 pairs, which a self-join would all write down: sets of few topics are unfolded a
bounded number of pairs at a time, and those of many become rows of 0 and 1, of which one product of matrices counts
all pairs whatever k is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Integers: TypeAlias = npt.NDArray[np.int64]

DENSE_PAIRS_MAX = 16_000_000  # up to here a worker counts in one table of all pairs: 128 MB
CHUNK_PAIRS = 4_000_000  # pairs unfolded at once
SETS_AT_ONCE = 65_536
PRODUCT_SHARE = 12  # who holds more than one topic in so many is counted by products: measured
PRODUCT_CELLS = 2_000_000  # of one such matrix: 16 MB
_PAIRS = "a bigint, b bigint, weight bigint"


@dataclass(frozen=True, slots=True)
class Matrix:
    """The subscription matrix, as much of it as a plan needs; topics are sorted by name."""

    topics: tuple[str, ...]
    holders: Integers  # how many subscriptions hold each topic
    low: Integers  # the pairs that share at least `threshold`: the first of two topics,
    high: Integers  # the second,
    shared: Integers  # and the weight of the subscriptions that hold both
    threshold: int
    subscriptions: int  # how many there are
    distinct: int  # and how many are left when identical ones are collapsed

    def graph(self) -> dict[str, frozenset[str]]:
        """The conflict graph, by topic name."""
        near: list[set[str]] = [set() for _ in self.topics]
        for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True):
            near[low].add(self.topics[high])
            near[high].add(self.topics[low])
        return {topic: frozenset(near[i]) for i, topic in enumerate(self.topics)}


def collapse(subscriptions: DataFrame) -> DataFrame:
    """One row for each distinct set of topics: `topics` sorted, `weight`, and how many `subscriptions` it stands for."""
    from pyspark.sql import functions as f

    return (
        subscriptions.select(f.sort_array(f.array_distinct("topics")).alias("topics"), "weight")
        .groupBy("topics")
        .agg(f.sum("weight").alias("weight"), f.count("*").alias("subscriptions"))
    )


def count_overlaps(subscriptions: DataFrame, threshold: int = 2) -> Matrix:
    """The overlaps of subscriptions given as rows of `topics` (an array) and `weight`."""
    from pyspark.sql import functions as f

    if threshold < 1:
        raise ConfigError(f"the overlap threshold is at least 1, not {threshold}")
    sets = collapse(subscriptions).persist()
    try:
        sizes = sets.agg(f.count("*"), f.sum("subscriptions")).first()
        held = (
            sets.select(f.explode("topics").alias("topic"), "subscriptions")
            .groupBy("topic")
            .agg(f.sum("subscriptions"))
            .orderBy("topic")
            .toArrow()
        )
        topics = tuple(held.column(0).to_pylist())
        counted = sets.select("topics", "weight").mapInArrow(_PairCounter(topics), _PAIRS)
        pairs = (
            counted.groupBy("a", "b")
            .agg(f.sum("weight").alias("weight"))
            .where(f.col("weight") >= threshold)
            .orderBy("a", "b")
            .toArrow()
        )
    finally:
        sets.unpersist()
    assert sizes is not None
    low, high, shared = (pairs.column(i).to_numpy() for i in range(3))
    holders = held.column(1).to_numpy().astype(np.int64)
    return Matrix(topics, holders, low, high, shared, threshold, int(sizes[1] or 0), int(sizes[0]))


def count_sets(sets: Sequence[tuple[tuple[str, ...], int, int]], threshold: int = 2) -> Matrix:
    """The same without Spark, of (sorted distinct topics, weight, subscriptions) that are collapsed already."""
    if threshold < 1:
        raise ConfigError(f"the overlap threshold is at least 1, not {threshold}")
    topics = tuple(sorted({topic for held, _, _ in sets for topic in held}))
    place = {topic: i for i, topic in enumerate(topics)}
    holders = np.zeros(len(topics), np.int64)
    counts = PairCounts(len(topics))
    for first in range(0, len(sets), SETS_AT_ONCE):
        part = sets[first : first + SETS_AT_ONCE]
        sizes = np.array([len(held) for held, _, _ in part], np.int64)
        places = np.array([place[topic] for held, _, _ in part for topic in held], np.int64)
        np.add.at(holders, places, np.repeat([n for _, _, n in part], sizes))
        counts.add(places, sizes, np.array([weight for _, weight, _ in part], np.int64))
    low, high, shared = counts.result()
    enough = shared >= threshold
    subscriptions = sum(n for _, _, n in sets)
    return Matrix(
        topics, holders, low[enough], high[enough], shared[enough], threshold, subscriptions, len(sets)
    )


class _PairCounter:
    """What a Spark task does to its share of the collapsed sets."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        self.topics = topics

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        names = pa.array(self.topics, pa.string())
        counts = PairCounts(len(self.topics))
        for batch in batches:
            sets = batch.column(0)
            places = pc.index_in(sets.flatten(), value_set=names).to_numpy()
            sizes = pc.list_value_length(sets).to_numpy()
            counts.add(places.astype(np.int64), sizes.astype(np.int64), batch.column(1).to_numpy())
        low, high, weight = counts.result()
        yield pa.RecordBatch.from_arrays(
            [pa.array(low), pa.array(high), pa.array(weight)], ["a", "b", "weight"]
        )


class PairCounts:
    """Adds up, over many sets of topics, the weight of the sets that hold each pair."""

    def __init__(self, topics: int) -> None:
        self.topics = topics
        dense = topics * topics <= DENSE_PAIRS_MAX
        # Floating point, because that is what bincount adds in; exact up to 2**53 subscribers.
        self._table = np.zeros(topics * topics, np.float64) if dense else None
        self._sparse: list[tuple[Integers, Integers]] = []

    def add(self, places: Integers, sizes: Integers, weights: Integers) -> None:
        """Take in sets: their places one after the other, sorted within a set, and the size of each."""
        starts = np.cumsum(sizes) - sizes
        if self._table is not None:
            wide = np.flatnonzero(sizes * PRODUCT_SHARE > self.topics)
            self._multiply(self._table, places, starts, sizes, weights, wide)
            sizes = np.where(sizes * PRODUCT_SHARE > self.topics, 0, sizes)
        for size in np.unique(sizes[sizes > 1]).tolist():
            rows = np.flatnonzero(sizes == size)
            step = max(1, CHUNK_PAIRS // (size * (size - 1) // 2))
            for first in range(0, len(rows), step):
                chosen = rows[first : first + step]
                sets = places[starts[chosen][:, None] + np.arange(size)]
                self._add_equal(sets, weights[chosen])

    def _multiply(
        self,
        table: npt.NDArray[np.float64],
        places: Integers,
        starts: Integers,
        sizes: Integers,
        weights: Integers,
        rows: Integers,
    ) -> None:
        """Sets of many topics, as rows of 0 and 1: the product with their transpose counts every pair."""
        step = max(1, PRODUCT_CELLS // max(1, self.topics))
        for first in range(0, len(rows), step):
            chosen = rows[first : first + step]
            row = np.repeat(np.arange(len(chosen)), sizes[chosen])
            within = np.arange(len(row)) - np.repeat(np.cumsum(sizes[chosen]) - sizes[chosen], sizes[chosen])
            held = np.zeros((len(chosen), self.topics))
            held[row, places[starts[chosen][row] + within]] = 1.0
            table += ((held * weights[chosen][:, None]).T @ held).ravel()

    def _add_equal(self, sets: Integers, weights: Integers) -> None:
        low, high = np.triu_indices(sets.shape[1], 1)
        codes = (sets[:, low] * self.topics + sets[:, high]).ravel()
        each = np.repeat(weights, len(low))
        if self._table is not None:
            self._table += np.bincount(codes, each, len(self._table))
            return
        self._sparse.append(_sum_by_code(codes, each))
        if len(self._sparse) > 16:
            self._fold()

    def _fold(self) -> None:
        if self._sparse:
            codes = np.concatenate([c for c, _ in self._sparse])
            weights = np.concatenate([w for _, w in self._sparse])
            self._sparse = [_sum_by_code(codes, weights)]

    def result(self) -> tuple[Integers, Integers, Integers]:
        """The pairs that some set holds (the first place below the second), and their weights."""
        if self._table is not None:
            # Products count each pair from both sides, and every topic with itself.
            codes = np.flatnonzero(np.triu(self._table.reshape(self.topics, self.topics), 1))
            weights = self._table[codes].astype(np.int64)
        else:
            self._fold()
            empty = np.zeros(0, np.int64)
            codes, weights = self._sparse[0] if self._sparse else (empty, empty)
        return codes // self.topics, codes % self.topics, weights


def _sum_by_code(codes: Integers, weights: Integers) -> tuple[Integers, Integers]:
    order = np.argsort(codes, kind="stable")
    codes, weights = codes[order], weights[order]
    first = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, np.int64)
    return codes[first], np.add.reduceat(weights, first) if len(first) else weights
