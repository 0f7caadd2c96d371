"""A network of routers in the manner of GT-ITM's transit-stub graphs, and hosts attached to it in clusters (003).

Transit domains are connected to each other, and each of their routers serves stub domains, whose routers reach
the world through it only. Inside a domain routers form a random connected graph: a random tree, and more links
with a probability. Paper 003 has 10,000 routers and gives neither the sizes of domains nor delays: by
default there are 10 transit domains of 10 routers, each serving 9 stub domains of 11 (10,000 in all); a link
takes a delay drawn evenly from the range of its kind. Messages take the way with the least delay; nothing is
lost and nothing queues, as in the paper.
"""

from __future__ import annotations

from heapq import heappop, heappush

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Range = tuple[float, float]


class TransitStub(msgspec.Struct, frozen=True):
    """How many domains of how many routers, and what links take in milliseconds, from and to."""

    transit_domains: int = 10
    transit_routers: int = 10  # in each domain
    stub_domains: int = 9  # at each transit router
    stub_routers: int = 11  # in each domain
    extra_links: float = 0.1  # probability of a link between two routers of a domain beyond the tree
    between_transits_ms: Range = (20.0, 60.0)
    inside_transit_ms: Range = (5.0, 20.0)
    to_transit_ms: Range = (2.0, 10.0)
    inside_stub_ms: Range = (1.0, 4.0)

    @property
    def routers(self) -> int:
        """All routers."""
        at_each = self.stub_domains * self.stub_routers
        return self.transit_domains * self.transit_routers * (1 + at_each)


TEN_THOUSAND = TransitStub()


class Graph:
    """Routers and links, undirected, with the delay of each link in seconds."""

    def __init__(self, links: Ints, delays_s: Floats, domain: Ints, transit_domains: int) -> None:
        self.routers = routers = len(domain)
        self.links = links  # [link, end]
        self.delays_s = delays_s
        self.domain = domain  # of each router
        self.transit_domains = transit_domains  # the domains with the first numbers
        self._neighbours: list[list[tuple[int, float]]] = [[] for _ in range(routers)]
        for (a, b), delay in zip(links.tolist(), delays_s.tolist(), strict=True):
            self._neighbours[a].append((b, delay))
            self._neighbours[b].append((a, delay))
        self._ways: dict[int, tuple[Floats, Ints]] = {}

    def delays_from(self, source: int) -> Floats:
        """The least delay from a router to every other, in seconds."""
        return self._ways_from(source)[0]

    def delay_s(self, a: int, b: int) -> float:
        """The least delay between two routers."""
        return float(self.delays_from(a)[b])

    def path(self, a: int, b: int) -> list[int]:
        """The routers on the way with the least delay."""
        before, path = self._ways_from(a)[1], [b]
        while path[-1] != a:
            path.append(int(before[path[-1]]))
        return path[::-1]

    def delays_between(self, routers: Ints) -> Floats:
        """A matrix of the least delays between these routers."""
        return np.stack([self.delays_from(router)[routers] for router in routers.tolist()])

    def _ways_from(self, source: int) -> tuple[Floats, Ints]:
        if source not in self._ways:
            self._ways[source] = self._search(source)
        return self._ways[source]

    def _search(self, source: int) -> tuple[Floats, Ints]:
        """Dijkstra's search; ties go to the router with the smaller number."""
        delays, before = [float("inf")] * self.routers, [-1] * self.routers
        delays[source], heap = 0.0, [(0.0, source)]
        while heap:
            delay, here = heappop(heap)
            if delay > delays[here]:
                continue
            for there, link_s in self._neighbours[here]:
                if delay + link_s < delays[there]:
                    delays[there], before[there] = delay + link_s, here
                    heappush(heap, (delays[there], there))
        return np.array(delays), np.array(before, np.int64)


def transit_stub(seed: int, spec: TransitStub = TEN_THOUSAND) -> Graph:
    """A random graph of this description."""
    generator = np.random.default_rng([seed, 0x65])
    domains, size = spec.transit_domains, spec.transit_routers
    if min(domains, size) < 1 or min(spec.stub_domains, spec.stub_routers) < 0:
        raise ValueError(
            "a transit-stub graph has transit domains with routers, and no domain of less than none"
        )
    links: list[Ints] = []
    kinds: list[tuple[int, Range]] = []

    def add(ends: Ints, kind: Range) -> None:
        links.append(ends)
        kinds.append((len(ends), kind))

    transit = np.arange(domains * size).reshape(domains, size)
    pairs = _connected(domains, spec.extra_links, generator)
    add(_some_router(transit, pairs, generator), spec.between_transits_ms)
    for routers in transit:
        add(routers[_connected(size, spec.extra_links, generator)], spec.inside_transit_ms)
    stubs = domains * size * spec.stub_domains if spec.stub_routers else 0
    stub = transit.size + np.arange(stubs * spec.stub_routers).reshape(stubs, -1)
    for i, routers in enumerate(stub):
        add(routers[_connected(len(routers), spec.extra_links, generator)], spec.inside_stub_ms)
        gateway = routers[generator.integers(len(routers))]
        add(np.array([[i // spec.stub_domains, gateway]]), spec.to_transit_ms)
    delays_ms = np.concatenate([generator.uniform(*kind, size=count) for count, kind in kinds])
    domain = np.repeat(np.arange(domains + stubs), [size] * domains + [spec.stub_routers] * stubs)
    return Graph(np.concatenate(links), delays_ms / 1000, domain, domains)


def clustered_hosts(graph: Graph, hosts: int, clusters: int, seed: int) -> Ints:
    """The router of each host: clusters of equal size, each spread over the routers of a stub domain drawn evenly."""
    stub = np.flatnonzero(graph.domain >= graph.transit_domains)
    if not 1 <= clusters <= hosts or not len(stub):
        raise ValueError(f"{hosts} hosts do not go into {clusters} clusters on {len(stub)} stub routers")
    generator = np.random.default_rng([seed, 0xC1])
    homes = graph.domain[generator.choice(stub, clusters)]
    places = []
    for home, cluster in zip(homes, np.array_split(np.arange(hosts), clusters), strict=True):
        routers = np.flatnonzero(graph.domain == home)
        places.append(generator.choice(routers, len(cluster), replace=len(cluster) > len(routers)))
    return np.concatenate(places)


def _connected(nodes: int, extra: float, generator: np.random.Generator) -> Ints:
    """Links of a random connected graph: a random tree, and each other pair with a probability."""
    tree = [(int(generator.integers(i)), i) for i in range(1, nodes)]
    a, b = np.triu_indices(nodes, 1)
    is_more = generator.random(len(a)) < extra
    more = set(zip(a[is_more].tolist(), b[is_more].tolist(), strict=True)) - set(tree)
    return np.array(tree + sorted(more), np.int64).reshape(-1, 2)


def _some_router(transit: Ints, pairs: Ints, generator: np.random.Generator) -> Ints:
    """A link between two domains ends at any router of each."""
    chosen: Ints = transit[pairs, generator.integers(transit.shape[1], size=pairs.shape)]
    return chosen
