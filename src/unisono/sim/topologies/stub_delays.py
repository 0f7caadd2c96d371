"""All least delays of a transit-stub graph, without a search.

A stub domain has one link to the world. So the way between routers of different domains is the way out of the one, through
the transit routers, and the way into the other; inside a domain it never leaves. Small tables then hold what 10,000
searches would find.
"""

from __future__ import annotations

import numpy as np

from unisono.sim.topologies.transit_stub import Floats, Graph, Ints


class StubDelays:
    """The least delays between all routers of a graph, in seconds."""

    def __init__(self, graph: Graph) -> None:
        first_stub = int((graph.domain < graph.transit_domains).sum())
        a, b = graph.links.T
        is_core = (a < first_stub) & (b < first_stub)
        self._core = _least(
            first_stub, 1, np.zeros(is_core.sum(), np.int64), a[is_core], b[is_core], graph.delays_s[is_core]
        )[0]
        # Each domain of either kind gets a table of the size of the largest.
        starts = np.searchsorted(graph.domain, np.arange(int(graph.domain.max()) + 1))
        self._domain = graph.domain
        self._place = np.arange(graph.routers) - starts[graph.domain]  # within its domain
        inside = graph.domain[a] == graph.domain[b]
        self._inside = _least(
            int(self._place.max()) + 1,
            len(starts),
            graph.domain[a[inside]],
            self._place[a[inside]],
            self._place[b[inside]],
            graph.delays_s[inside],
        )
        exits = ~inside & ~is_core
        low, high = np.minimum(a[exits], b[exits]), np.maximum(a[exits], b[exits])
        by_stub = graph.domain[high]
        if len(np.unique(by_stub)) != len(by_stub):
            raise ValueError("a stub domain has more than one link to the world; search the ways instead")
        gateway = np.zeros(len(starts), np.int64)
        transit = np.zeros(len(starts), np.int64)
        exit_s = np.zeros(len(starts))
        gateway[by_stub], transit[by_stub], exit_s[by_stub] = high, low, graph.delays_s[exits]
        self._transit = np.where(
            np.arange(graph.routers) < first_stub, np.arange(graph.routers), transit[graph.domain]
        )
        out_s = (
            exit_s[graph.domain] + self._inside[graph.domain, self._place, self._place[gateway[graph.domain]]]
        )
        self._out_s = np.where(np.arange(graph.routers) < first_stub, 0.0, out_s)
        self._first_stub = first_stub

    def between(self, some: Ints, others: Ints) -> Floats:
        """A matrix of the least delays from these routers to those."""
        a, b = np.asarray(some)[:, None], np.asarray(others)[None, :]
        apart = self._out_s[a] + self._core[self._transit[a], self._transit[b]] + self._out_s[b]
        is_near = (self._domain[a] == self._domain[b]) & (a >= self._first_stub)
        delays: Floats = np.where(
            is_near, self._inside[self._domain[a], self._place[a], self._place[b]], apart
        )
        return delays


def _least(size: int, tables: int, table: Ints, a: Ints, b: Ints, delays_s: Floats) -> Floats:
    """The least delays in each of some small graphs, all of them at once."""
    least = np.full((tables, size, size), np.inf)
    least[:, np.arange(size), np.arange(size)] = 0.0
    least[table, a, b] = least[table, b, a] = delays_s
    for via in range(size):
        np.minimum(least, least[:, :, via, None] + least[:, None, via, :], out=least)
    return least
