"""A ring, its links, and the trees of its topics: what a batch of events travels over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unisono.sim.fast.chains import names_of
from unisono.sim.links import Links
from unisono.sim.topologies.pastry import Ring, key_of
from unisono.sim.topologies.scribe import Tree, tree

Bools = NDArray[np.bool_]


class Overlay:
    """Pastry with SCRIBE, every node a subscriber; the manager of a topic is the root of its tree."""

    def __init__(
        self,
        nodes: int,
        topics: int,
        seed: int,
        held: Bools | None = None,
        links: Links | None = None,
        *,
        candidates: int = 1,
    ) -> None:
        """`held`: who holds what, a row for each node and a column for each topic; without it all hold all.

        `candidates`: of how many nodes that fit an entry of a routing table is the nearest; with 1 none is preferred.
        """
        self.links = links or Links(seed)
        self.ring = Ring(nodes, seed, links=self.links, candidates=candidates)
        self.keys = np.array([key_of(name) for name in names_of(topics)], np.uint64)
        self.roots = self.ring.roots(self.keys)
        self.held = held
        self._trees: dict[int, Tree] = {}

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.ring.nodes

    def tree(self, topic: int) -> Tree:
        """The tree of a topic, grown when it is first asked for."""
        found = self._trees.get(topic)
        if found is None:
            hearing = np.ones(self.nodes, np.bool_) if self.held is None else self.held[:, topic]
            found = self._trees[topic] = tree(self.ring, int(self.keys[topic]), hearing)
        return found
