"""How long messages take: over the routes of a ring, over one link, and down the trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.sim.links import Links
from unisono.sim.topologies.pastry import Ring
from unisono.sim.topologies.scribe import Tree

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]

PORTION = 256  # events that go down a tree at once: the arrays of 10,000 nodes then stay at 20 MB


def routed_s(ring: Ring, links: Links, sources: Ints, keys: Keys, generator: np.random.Generator) -> Floats:
    """What each message takes along its route to the root of its key; nothing if it is there already."""
    if not len(sources):
        return np.zeros(0)
    paths = ring.paths(sources, keys)
    total = np.zeros(len(sources))
    for hop in range(1, paths.shape[1]):
        on = np.flatnonzero(paths[:, hop] >= 0)
        total[on] += links.sample_many(paths[on, hop - 1], paths[on, hop], generator)
    return total


def direct_s(links: Links, sources: Ints, to: Ints, generator: np.random.Generator) -> Floats:
    """What each message takes over the one link between who knows each other's address."""
    return links.sample_many(sources, to, generator)


class Heard(NamedTuple):
    """When a portion of events reaches its subscribers, counted from the root: [subscriber, event]."""

    events: slice
    seconds: Floats


def down_s(tree: Tree, links: Links, events: int, generator: np.random.Generator) -> Iterator[Heard]:
    """Events go down a tree, portion by portion; each link draws a latency for each event."""
    place = np.empty(len(tree.parent), np.int64)
    place[tree.nodes] = np.arange(len(tree.nodes))
    children = tree.nodes[1:]
    is_slow = links.is_slow_many(children, tree.parent[children])[:, None]
    hearing = np.flatnonzero(tree.subscribed[tree.nodes])
    for start in range(0, events, PORTION):
        count = min(PORTION, events - start)
        total = np.zeros((len(tree.nodes), count))
        total[1:] = links.mixture.sample_on(np.broadcast_to(is_slow, (len(children), count)), generator)
        at = 1
        for level in tree.levels[1:]:
            total[at : at + len(level)] += total[place[tree.parent[level]]]
            at += len(level)
        yield Heard(slice(start, start + count), total if len(hearing) == len(total) else total[hearing])
