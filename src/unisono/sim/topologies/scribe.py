"""SCRIBE's multicast trees on a Pastry ring.

The root of a topic is the node whose id is nearest to the topic's key. A subscriber's join is routed towards it and
ends at the first node that is in the tree already; every node on the way forwards, whether it subscribes or
not. As each node has one next hop for a key, the tree is the union of the routes of its subscribers, whatever
order they join in. Events travel from the root to the leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unisono.sim.topologies.pastry import Ring, key_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Tree:
    """One topic's tree, in arrays over all nodes: -1 in `parent` at the root, -1 in `depth` outside of the tree."""

    def __init__(self, key: int, root: int, parent: Ints, subscribed: Bools) -> None:
        self.key = key  # what is for the root is routed by it
        self.root = root
        self.subscribed = subscribed
        self.parent: Ints
        self.depth: Ints
        self.levels: list[Ints]  # the nodes of each depth, the root alone in the first
        self.parent, self.depth, self.levels = _grown(root, parent, subscribed)
        self.nodes: Ints = np.concatenate(self.levels)  # parents before children
        self._children: list[list[int]] | None = None

    @property
    def forwarders(self) -> Ints:
        """Nodes that forward and do not subscribe, the root among them."""
        return self.nodes[~self.subscribed[self.nodes]]

    @property
    def depth_max(self) -> int:
        """The longest way from the root."""
        return len(self.levels) - 1

    def path(self, node: int) -> list[int]:
        """The nodes an event passes from the root to a node of the tree."""
        if self.depth[node] < 0:
            raise ValueError(f"node {node} is not in the tree")
        path = [node]
        while path[-1] != self.root:
            path.append(int(self.parent[path[-1]]))
        return path[::-1]

    def children(self, node: int) -> list[int]:
        """To whom a node forwards."""
        if self._children is None:
            self._children = [[] for _ in range(len(self.parent))]
            for child in self.nodes[1:].tolist():
                self._children[self.parent[child]].append(child)
        return self._children[node]

    def sums(self, values: Floats) -> Floats:
        """What adds up from the root to each node, if `values[..., i]` is what the link to node i takes.

        The values are per node in the last axis, events in the axes before; nodes outside of the tree get 0.
        """
        total = np.zeros_like(values)
        for level in self.levels[1:]:
            total[..., level] = total[..., self.parent[level]] + values[..., level]
        return total


def tree(ring: Ring, topic: str | int, subscribed: ArrayLike) -> Tree:
    """The tree of a topic, by name or key; `subscribed` says who holds it, or names the nodes that do."""
    key = np.uint64(key_of(topic) if isinstance(topic, str) else topic)
    held = _as_mask(subscribed, ring.nodes)
    parent = ring.next_hops(np.arange(ring.nodes), key)
    return Tree(int(key), int(ring.roots([key])[0]), parent, held)


def _as_mask(subscribed: ArrayLike, nodes: int) -> Bools:
    given = np.asarray(subscribed)
    if given.dtype == np.bool_:
        return given
    held = np.zeros(nodes, np.bool_)
    held[given.astype(np.int64)] = True
    return held


def _grown(root: int, parent: Ints, subscribed: Bools) -> tuple[Ints, Ints, list[Ints]]:
    """Of all next hops those that subscribers need, and how far from the root each node is."""
    needed = subscribed.copy()
    needed[root] = True
    fresh = np.flatnonzero(needed)
    while len(fresh):
        ahead = np.unique(parent[fresh])
        fresh = ahead[~needed[ahead]]
        needed[fresh] = True
    depth = np.full(len(parent), -1, np.int64)
    depth[root] = 0
    levels, waiting = [np.array([root], np.int64)], np.flatnonzero(needed)
    waiting = waiting[waiting != root]
    while len(waiting):
        is_next = depth[parent[waiting]] >= 0
        level, waiting = waiting[is_next], waiting[~is_next]
        assert len(level), "every route ends at the root"
        depth[level] = len(levels)
        levels.append(level)
    kept = np.where(needed, parent, -1)
    kept[root] = -1
    return kept, depth, levels
