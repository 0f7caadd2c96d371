"""Ways over a Pastry ring: packets hop by hop, notifications to the root of their topic and down its SCRIBE tree.

Every link draws a latency for every message, and may lose it. What goes down a tree passes each link once:
subscribers behind one forwarder wait for the same link, and miss what it has lost. Where lines are narrow, a node of
a tree sends one copy after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil, inf
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.sim.links import Links
from unisono.sim.network import CALM, Perturbation
from unisono.sim.topologies.pastry import Ring
from unisono.sim.topologies.scribe import Tree

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class _Branches(NamedTuple):
    """A tree, ready to be gone down again and again."""

    tree: Tree
    children: Ints  # every node but the root
    is_slow: Bools  # the links to them
    turn: Ints  # how many copies their parent sends before theirs


class RingRoutes:
    """A ring, the node of each process, and a tree for each topic."""

    def __init__(
        self,
        ring: Ring,
        links: Links,
        place: Mapping[str, int],
        tree_of: Callable[[str], Tree],
        seed: int,
        *,
        keys: Mapping[str, int] | None = None,
        direct: bool = False,
    ) -> None:
        """`keys`: of processes that are found by a key, not by the id of their node, as the managers of topics are.

        `direct`: senders know addresses, and use one link.
        """
        self.ring = ring
        self.links = links
        self.place = place
        self.keys = {name: int(ring.ids[node]) for name, node in place.items()} | dict(keys or {})
        self.tree_of = tree_of
        self.direct = direct
        self.loss = links.loss
        self.random = Random(f"{seed} ring routes")
        self.generator = np.random.default_rng([seed, 0x9A])
        self.perturbation = CALM
        self._rough: frozenset[int] = frozenset()  # the nodes that are perturbed
        self._seed = seed
        self._paths: dict[tuple[int, int], list[int]] = {}
        self._branches: dict[str, _Branches] = {}

    @property
    def is_narrow(self) -> bool:
        """Whether bytes take time."""
        return self.links.bandwidth is not None

    def perturb(self, perturbation: Perturbation) -> None:
        """Have a share of the nodes treat what passes them like this; a larger share has those of a smaller one."""
        self.perturbation = perturbation
        drawn = np.random.default_rng([self._seed, 0x9C]).permutation(self.ring.nodes).tolist()
        self._rough = frozenset(drawn[: ceil(perturbation.share * len(drawn))])

    def heal(self) -> None:
        """Lose nothing from now on, and perturb nothing."""
        self.loss = 0.0
        self.perturb(CALM)

    def packet_s(self, source: str, to: str, size_bytes: float = 0.0) -> float:
        """Hop by hop."""
        return self._travel_s(self.place[source], self.place[to], self.keys[to], size_bytes)

    def notices_s(
        self, source: str, topics: tuple[str, ...], to: Sequence[str], size_bytes: float = 0.0
    ) -> list[float]:
        """To the root of the topic, and down its tree; of several topics, down the first that has the subscriber."""
        here, there = self.place[source], [self.place[name] for name in to]
        found = self._down_s(here, topics[0], size_bytes)[there]
        for topic in topics[1:]:
            found = np.where(np.isnan(found), self._down_s(here, topic, size_bytes)[there], found)
        times: list[float] = found.tolist()
        if np.isnan(found).any():  # whoever joined and is in none of the trees is told by itself
            ways = zip(times, there, to, strict=True)
            return [
                s if s == s else self._travel_s(here, node, self.keys[name], size_bytes)
                for s, node, name in ways
            ]
        return times

    def _down_s(self, here: int, topic: str, size_bytes: float) -> Floats:
        """When each node hears it: not a number outside of the tree, infinity where a link has lost it."""
        tree, children, is_slow, turn = self._branch(topic)
        values = np.full(self.ring.nodes, np.nan)
        values[tree.root] = self._travel_s(here, tree.root, tree.key, size_bytes)
        links = self.links.mixture.sample_on(is_slow, self.generator)
        if self.links.bandwidth:
            links += self.links.bandwidth.transmission_s(size_bytes)
            links += turn * self.links.bandwidth.up_s(size_bytes)
        if self.loss:
            links[self.generator.random(len(children)) < self.loss] = inf
        if self._rough:
            rough = np.isin(children, list(self._rough))
            links[rough] += self.perturbation.latency_s
            links[rough & (self.generator.random(len(children)) < self.perturbation.loss)] = inf
            if here == tree.root:
                values[here] += self._passing_s([here])
        values[children] = links
        for level in tree.levels[1:]:
            values[level] += values[tree.parent[level]]
        return values

    def _branch(self, topic: str) -> _Branches:
        found = self._branches.get(topic)
        if found is None:
            tree = self.tree_of(topic)
            children = tree.nodes[1:]
            is_slow = self.links.is_slow_many(children, tree.parent[children])
            found = self._branches[topic] = _Branches(tree, children, is_slow, _turns(tree.parent[children]))
        return found

    def _passing_s(self, path: Sequence[int]) -> float:
        """What perturbed nodes on a path add; infinity if one of them loses it."""
        met = sum(node in self._rough for node in path)
        if met and self.random.random() >= (1 - self.perturbation.loss) ** met:
            return inf
        return met * self.perturbation.latency_s

    def _travel_s(self, here: int, there: int, key: int, size_bytes: float) -> float:
        if here == there:
            return 0.0
        path = self._paths.get((here, key))
        if path is None:
            path = [here, there] if self.direct else self.ring.route(here, key)
            self._paths[here, key] = path
        if self.loss and self.random.random() >= (1 - self.loss) ** (len(path) - 1):
            return inf
        sample, random = self.links.sample, self.random
        links_s = sum([sample(a, b, random, size_bytes) for a, b in pairwise(path)])
        return links_s + self._passing_s(path) if self._rough else links_s


def _turns(parents: Ints) -> Ints:
    """For each of some nodes, how many before it have the same parent."""
    order = np.argsort(parents, kind="stable")
    ordered = parents[order]
    firsts = np.searchsorted(ordered, ordered)
    turns = np.empty(len(parents), np.int64)
    turns[order] = np.arange(len(parents)) - firsts
    return turns
