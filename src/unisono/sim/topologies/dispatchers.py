"""Random trees of dispatchers, unrooted and of bounded degree, as 002 has them under its subscriptions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class DispatcherTree:
    """Dispatchers and their neighbours; numbered so that `parent[i] < i`, with 0 as the end of all ways up."""

    def __init__(self, parent: Ints) -> None:
        self.parent = parent  # -1 for dispatcher 0
        self.depth = np.zeros(len(parent), np.int64)
        self.neighbours: list[list[int]] = [[] for _ in range(len(parent))]
        for node, above in enumerate(parent.tolist()):
            if above >= 0:
                self.depth[node] = self.depth[above] + 1
                self.neighbours[node].append(above)
                self.neighbours[above].append(node)

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def links(self) -> Ints:
        """The two ends of each link."""
        nodes = np.arange(1, len(self.parent))
        return np.stack([self.parent[1:], nodes], axis=1)

    def path(self, a: int, b: int) -> list[int]:
        """The one way between two dispatchers."""
        up, down = [a], [b]
        while up[-1] != down[-1]:
            side = up if self.depth[up[-1]] >= self.depth[down[-1]] else down
            side.append(int(self.parent[side[-1]]))
        return up + down[-2::-1]

    def distances(self) -> Ints:
        """Links between every two dispatchers, as a matrix."""
        n = len(self.parent)
        apart = np.zeros((n, n), np.int64)
        for node in range(1, n):  # everybody before it reaches it through its parent
            apart[node, :node] = apart[:node, node] = apart[self.parent[node], :node] + 1
        return apart


def dispatcher_tree(dispatchers: int, degree_max: int, seed: int) -> DispatcherTree:
    """A random tree: each new dispatcher is attached to one that has room, all of them alike."""
    if dispatchers < 1 or (dispatchers > 2 and degree_max < 2) or degree_max < 1:
        raise ValueError(
            "a tree of dispatchers has at least one, and a degree of at least 2 beyond two of them"
        )
    generator = np.random.default_rng([seed, 0xD1])
    parent, degree, open_ones = np.full(dispatchers, -1, np.int64), [0] * dispatchers, [0]
    for node in range(1, dispatchers):
        place = int(generator.integers(len(open_ones)))
        above = open_ones[place]
        parent[node] = above
        degree[above] += 1
        degree[node] = 1
        if degree[above] == degree_max:
            open_ones[place] = open_ones[-1]
            open_ones.pop()
        if degree_max > 1:
            open_ones.append(node)
    return DispatcherTree(parent)
