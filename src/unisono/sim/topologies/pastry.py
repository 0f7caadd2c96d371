"""A Pastry ring: nodes with random ids, and prefix routing to the node whose id is nearest to a key.

Ids have 64 bits, 16 digits of base 16, of the 128 in Pastry: no two of 10,000 random ids share more than about
8 digits, so the rest would never be looked at. Nodes are numbered in the order of their ids. The tables are
those of a ring at rest: a leaf set of the nearest nodes on both sides, and for each length of shared prefix and
each next digit one node that has it, if there is one. Where there are several, `candidates` of them are drawn
and the nearest is kept, as Pastry prefers what is near; with 1 proximity plays no part.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unisono.sim.links import Links

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

BASE_BITS = 4
DIGITS = 64 // BASE_BITS
LEAVES = 16  # half of them on each side


class Ring:
    """All nodes of a Pastry network, their ids and their tables."""

    def __init__(
        self, nodes: int, seed: int, *, links: Links | None = None, candidates: int = 1, leaves: int = LEAVES
    ) -> None:
        if nodes < 1:
            raise ValueError("a ring has at least one node")
        generator = np.random.default_rng([seed, 0x9A57])
        self.nodes = nodes
        self.ids: Keys = _distinct_ids(nodes, generator)
        self.half = max(1, leaves // 2)
        self.table = _table(self.ids, generator, links, candidates)  # [node, shared digits, next digit]

    def roots(self, keys: ArrayLike) -> Ints:
        """The node whose id is nearest to each key; of two equally near, the one above."""
        wanted = np.asarray(keys, np.uint64)
        above = np.searchsorted(self.ids, wanted) % self.nodes
        below = (above - 1) % self.nodes
        is_above = _apart(self.ids[above], wanted) <= _apart(self.ids[below], wanted)
        return np.where(is_above, above, below).astype(np.int64)

    def next_hops(self, at: ArrayLike, keys: ArrayLike) -> Ints:
        """Where each node sends what is for each key: itself, if it is the root."""
        here, wanted = np.broadcast_arrays(np.asarray(at, np.int64), np.asarray(keys, np.uint64))
        roots = self.roots(wanted)
        ahead = (roots - here) % self.nodes
        is_leaf = np.minimum(ahead, self.nodes - ahead) <= self.half
        shared = np.minimum(_shared_digits(self.ids[here], wanted), self.table.shape[1] - 1)
        listed = self.table[here, shared, _digit(wanted, shared)].astype(np.int64)
        there = np.where(is_leaf, roots, listed)
        is_rare = there < 0
        if is_rare.any():
            there[is_rare] = self._nearest_known(here[is_rare], wanted[is_rare], shared[is_rare])
        return there

    def _nearest_known(self, here: Ints, wanted: Keys, shared: Ints) -> Ints:
        """Nobody has the next digit: of the nodes known to share as much, the one nearest to the key.

        The furthest leaf towards the key is one of them, and nearer than the node itself.
        """
        is_upward = wanted - self.ids[here] < np.uint64(1 << 63)
        leaf = (here + np.where(is_upward, self.half, -self.half)) % self.nodes
        listed = self.table[here].astype(np.int64)
        is_fit = (np.arange(listed.shape[1])[:, None] >= shared[:, None, None]) & (listed >= 0)
        known = np.where(is_fit, listed, leaf[:, None, None]).reshape(len(here), -1)
        apart = _apart(self.ids[known], wanted[:, None])
        nearest: Ints = known[np.arange(len(here)), np.argmin(apart, axis=1)]
        return nearest

    def paths(self, sources: ArrayLike, keys: ArrayLike) -> Ints:
        """The nodes each message passes, a row for each, its source first; -1 behind its root."""
        here, wanted = np.broadcast_arrays(np.asarray(sources, np.int64), np.asarray(keys, np.uint64))
        columns, is_under_way = [here.copy()], np.ones(here.shape, np.bool_)
        while True:
            there = self.next_hops(here, wanted)
            is_under_way = is_under_way & (there != here)
            if not is_under_way.any():
                return np.stack(columns, axis=-1)
            columns.append(np.where(is_under_way, there, -1))
            here = there

    def hops(self, sources: ArrayLike, keys: ArrayLike) -> Ints:
        """How many links each message passes."""
        passed: Ints = np.count_nonzero(self.paths(sources, keys) >= 0, axis=-1)
        return passed - 1

    def route(self, source: int, key: int) -> list[int]:
        """The nodes one message passes, from its source to the root of the key."""
        path = self.paths([source], np.array([key], np.uint64))[0]
        return [int(node) for node in path if node >= 0]

    def route_to(self, source: int, node: int) -> list[int]:
        """The nodes one message passes to another node."""
        return self.route(source, int(self.ids[node]))


def key_of(name: str) -> int:
    """The key of a topic: a hash of its name."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big")


def _distinct_ids(nodes: int, generator: np.random.Generator) -> Keys:
    ids = np.unique(generator.integers(0, 2**64, nodes, np.uint64))
    while len(ids) < nodes:
        more = generator.integers(0, 2**64, nodes - len(ids), np.uint64)
        ids = np.unique(np.concatenate([ids, more]))
    return ids


def _shared_digits(a: Keys, b: Keys) -> Ints:
    """How many leading digits are equal."""
    difference, shared = a ^ b, np.zeros(a.shape, np.int64)
    for digits in range(1, DIGITS + 1):
        shared += difference < np.uint64(1 << (64 - BASE_BITS * digits))
    return shared


def _apart(a: Keys, b: Keys) -> Keys:
    """The distance on the ring."""
    apart: Keys = np.minimum(a - b, b - a)
    return apart


def _digit(keys: Keys, place: Ints) -> Ints:
    shift = (64 - BASE_BITS * (place + 1)).astype(np.uint64)
    return ((keys >> shift) & np.uint64(15)).astype(np.int64)


def _table(
    ids: Keys, generator: np.random.Generator, links: Links | None, candidates: int
) -> NDArray[np.int32]:
    nodes = len(ids)
    rows = 1 + (int(_shared_digits(ids[1:], ids[:-1]).max()) if nodes > 1 else 0)
    table = np.full((nodes, rows, 16), -1, np.int32)
    for row in range(rows):
        width = 64 - BASE_BITS * (row + 1)  # bits behind the digit
        tops = ids >> np.uint64(width)  # the prefix and the digit
        others = ((tops >> np.uint64(4)) << np.uint64(4))[:, None] | np.arange(16, dtype=np.uint64)
        first = np.searchsorted(tops, others, side="left")
        count = np.searchsorted(tops, others, side="right") - first
        is_other = (count > 0) & (others != tops[:, None])
        owner, digit = np.nonzero(is_other)
        chosen = _drawn(first[is_other], count[is_other], generator)
        for _ in range(candidates - 1 if links else 0):
            chosen = _nearer(links, owner, chosen, _drawn(first[is_other], count[is_other], generator))
        table[owner, row, digit] = chosen
    return table


def _drawn(first: Ints, count: Ints, generator: np.random.Generator) -> Ints:
    return first + (generator.random(len(first)) * count).astype(np.int64)


def _nearer(links: Links | None, owner: Ints, known: Ints, other: Ints) -> Ints:
    assert links is not None
    is_better = links.is_slow_many(owner, known) & ~links.is_slow_many(owner, other)
    return np.where(is_better, other, known)
