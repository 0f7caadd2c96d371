"""Overlays: every route ends where it should, trees have no loops, and depth grows as it should."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from unisono.sim.links import Links
from unisono.sim.topologies.dispatchers import dispatcher_tree
from unisono.sim.topologies.pastry import Ring, key_of
from unisono.sim.topologies.scribe import Tree, tree
from unisono.sim.topologies.stub_delays import StubDelays
from unisono.sim.topologies.transit_stub import Graph, TransitStub, clustered_hosts, transit_stub

SIZES = (1, 2, 3, 17, 18, 100, 1000, 10_000)


def nearest(ring: Ring, key: int) -> int:
    """The slow way to the root of a key."""
    apart = [min((int(i) - key) % 2**64, (key - int(i)) % 2**64) for i in ring.ids]
    return apart.index(min(apart))


@pytest.mark.parametrize("nodes", SIZES)
def test_every_route_ends_at_the_root_without_coming_back(nodes: int):
    ring, generator = Ring(nodes, seed=nodes), np.random.default_rng(1)
    sources = generator.integers(0, nodes, 20_000)
    keys = generator.integers(0, 2**64, 20_000, np.uint64)
    paths = ring.paths(sources, keys)
    hops = (paths >= 0).sum(axis=1) - 1
    assert (np.take_along_axis(paths, hops[:, None], axis=1)[:, 0] == ring.roots(keys)).all()
    assert [nearest(ring, int(key)) for key in keys[:20]] == ring.roots(keys[:20]).tolist()
    assert hops.max() <= math.log(nodes, 16) + 3
    if nodes >= 100:
        assert hops.mean() == pytest.approx(math.log(nodes, 16), rel=0.15)
    for path in paths[:500]:
        passed = path[path >= 0]
        assert len(set(passed)) == len(passed)


def test_routes_to_nodes_end_there_and_singles_are_as_in_arrays():
    ring = Ring(500, seed=2)
    paths = ring.paths(np.arange(500), ring.ids[::-1])
    for source in range(0, 500, 25):
        route = ring.route_to(source, 499 - source)
        assert route[0] == source
        assert route[-1] == 499 - source
        assert route == [node for node in paths[source] if node >= 0]


def test_every_hop_shares_more_digits_or_is_nearer():
    ring, generator = Ring(3000, seed=5), np.random.default_rng(2)
    for _ in range(200):
        key = int(generator.integers(0, 2**64, dtype=np.uint64))
        route = ring.route(int(generator.integers(0, 3000)), key)
        shared = [64 - (int(ring.ids[node]) ^ key).bit_length() for node in route]
        apart = [min((int(ring.ids[n]) - key) % 2**64, (key - int(ring.ids[n])) % 2**64) for n in route]
        for i in range(len(route) - 1):
            assert shared[i + 1] // 4 > shared[i] // 4 or apart[i + 1] < apart[i]


def test_a_ring_is_its_seed():
    one, same, other = Ring(1000, 1), Ring(1000, 1), Ring(1000, 2)
    assert (one.table == same.table).all()
    assert (one.ids == same.ids).all()
    assert (one.ids != other.ids).any()


@pytest.mark.parametrize(("candidates", "route_s"), [(1, 0.208), (16, 0.107)])
def test_routes_among_ten_thousand_nodes_take_what_the_docs_say(candidates: int, route_s: float):
    links, generator = Links(1), np.random.default_rng(1)
    ring = Ring(10_000, 1, links=links, candidates=candidates)
    paths = ring.paths(generator.integers(0, 10_000, 5_000), ring.ids[generator.integers(0, 10_000, 5_000)])
    ends = paths[:, :-1].clip(0), paths[:, 1:].clip(0)
    is_slow = links.is_slow_many(*ends)
    mixture = links.mixture
    took = np.where(is_slow, mixture.slow.cut_mean_s, mixture.fast.cut_mean_s)
    is_hop = (paths[:, 1:] >= 0) & (ends[0] != ends[1])
    assert np.where(is_hop, took, 0.0).sum(axis=1).mean() == pytest.approx(route_s, rel=0.05)


def test_near_candidates_make_more_hops_fast():
    links = Links(1)
    shares = []
    for candidates in (1, 4):
        ring, generator = Ring(2000, 1, links=links, candidates=candidates), np.random.default_rng(1)
        paths = ring.paths(generator.integers(0, 2000, 5000), generator.integers(0, 2**64, 5000, np.uint64))
        is_hop = paths[:, 1:] >= 0
        shares.append(links.is_slow_many(paths[:, :-1].clip(0), paths[:, 1:].clip(0))[is_hop].mean())
    assert shares[0] == pytest.approx(0.2, abs=0.02)
    assert shares[1] < 0.6 * shares[0]


def check_tree(ring: Ring, grown: Tree, subscribers: set[int]) -> None:
    """A tree over all subscribers, rooted, without loops, and no node in it for nothing."""
    members = set(grown.nodes.tolist())
    assert subscribers | {grown.root} <= members
    assert set(grown.forwarders.tolist()) == members - subscribers
    parents = {int(grown.parent[node]) for node in members} - {-1}
    assert members - subscribers - {grown.root} <= parents, "a forwarder forwards"
    for node in members:
        path = grown.path(node)
        assert path[0] == grown.root
        assert len(path) - 1 == grown.depth[node]
        assert set(path) <= members
    outside = np.setdiff1d(np.arange(ring.nodes), grown.nodes)
    assert (grown.depth[outside] == -1).all()
    assert (grown.parent[outside] == -1).all()


@pytest.mark.parametrize("nodes", SIZES[:-1])
@pytest.mark.parametrize("share", [0.02, 1.0])
def test_trees_join_all_subscribers_to_the_root(nodes: int, share: float):
    ring, generator = Ring(nodes, seed=3), np.random.default_rng(nodes)
    held = generator.random(nodes) < share
    grown = tree(ring, "orders", held)
    assert grown.root == ring.roots([np.uint64(key_of("orders"))])[0]
    check_tree(ring, grown, set(np.flatnonzero(held).tolist()))
    assert tree(ring, "orders", np.flatnonzero(held)).nodes.tolist() == grown.nodes.tolist()


def test_branches_are_the_routes_of_joins():
    ring = Ring(1000, seed=4)
    subscribers = [3, 77, 500, 999]
    grown = tree(ring, "payments", subscribers)
    for node in subscribers:
        assert grown.path(node) == ring.route(node, key_of("payments"))[::-1]


def test_depth_grows_with_the_logarithm():
    for nodes in (100, 1000, 10_000):
        ring = Ring(nodes, seed=1)
        grown = [tree(ring, f"T{i}", np.ones(nodes, np.bool_)) for i in range(10)]
        mean = np.mean([t.depth.mean() for t in grown])
        assert mean == pytest.approx(math.log(nodes, 16), rel=0.2)
        assert max(t.depth_max for t in grown) <= math.log(nodes, 16) + 3


def test_what_links_take_adds_up_from_the_root():
    ring, generator = Ring(400, seed=6), np.random.default_rng(1)
    grown = tree(ring, "T", generator.random(400) < 0.2)
    values = generator.random((3, 400))
    sums = grown.sums(values)
    for node in grown.nodes.tolist():
        path = grown.path(node)[1:]
        assert sums[:, node] == pytest.approx(values[:, path].sum(axis=1))
    assert grown.children(grown.root) == grown.levels[1].tolist()


SMALL = TransitStub(transit_domains=3, transit_routers=2, stub_domains=2, stub_routers=4)


def floyd_warshall(graph: Graph) -> np.ndarray:
    """The slow way to all delays."""
    apart = np.full((graph.routers, graph.routers), np.inf)
    np.fill_diagonal(apart, 0)
    for (a, b), delay in zip(graph.links, graph.delays_s, strict=True):
        apart[a, b] = apart[b, a] = min(apart[a, b], delay)
    for k in range(graph.routers):
        apart = np.minimum(apart, apart[:, k, None] + apart[None, k, :])
    return apart


def test_ways_through_routers_take_the_least_delay():
    graph = transit_stub(3, SMALL)
    assert graph.routers == SMALL.routers == 54
    apart = floyd_warshall(graph)
    assert np.isfinite(apart).all(), "everybody reaches everybody"
    assert graph.delays_between(np.arange(54)) == pytest.approx(apart)
    links = {tuple(sorted(link)): d for link, d in zip(graph.links.tolist(), graph.delays_s, strict=True)}
    for a, b in ((0, 53), (10, 40), (7, 7)):
        path = graph.path(a, b)
        along = [links[tuple(sorted(pair))] for pair in itertools.pairwise(path)]
        assert sum(along) == pytest.approx(apart[a, b])


def test_stub_domains_reach_the_world_through_their_transit_router():
    graph = transit_stub(4, SMALL)
    for stub in range(graph.transit_domains, int(graph.domain.max()) + 1):
        crossing = [link for link in graph.links if (graph.domain[link] == stub).sum() == 1]
        assert len(crossing) == 1
        assert graph.domain[crossing[0]].min() < graph.transit_domains


def test_the_default_graph_has_ten_thousand_routers_and_near_clusters():
    graph = transit_stub(1)
    assert graph.routers == 10_000
    hosts = clustered_hosts(graph, 128, 8, seed=2)
    assert [len(set(graph.domain[hosts[i : i + 16]].tolist())) for i in range(0, 128, 16)] == [1] * 8
    assert (graph.domain[hosts] >= graph.transit_domains).all()
    chosen = hosts[::16]
    delays = graph.delays_between(chosen)
    assert delays == pytest.approx(delays.T)
    inside = graph.delays_from(int(hosts[0]))[hosts[:16]].mean()
    assert inside < 0.3 * delays[0, 1:].mean()
    assert (transit_stub(1).delays_s == graph.delays_s).all()
    with pytest.raises(ValueError, match="3 hosts do not go into 4 clusters"):
        clustered_hosts(graph, 3, 4, seed=1)


@pytest.mark.parametrize(("nodes", "degree"), [(1, 1), (2, 1), (50, 2), (100, 4), (1000, 10)])
def test_dispatchers_form_a_tree_of_bounded_degree(nodes: int, degree: int):
    grown = dispatcher_tree(nodes, degree, seed=nodes)
    assert len(grown.links) == nodes - 1
    assert max(len(n) for n in grown.neighbours) <= degree
    apart = grown.distances()
    for a, b in np.random.default_rng(1).integers(0, nodes, (50, 2)).tolist():
        path = grown.path(a, b)
        assert (path[0], path[-1]) == (a, b)
        assert len(path) - 1 == apart[a, b] == apart[b, a]
        assert all(y in grown.neighbours[x] for x, y in itertools.pairwise(path))
    assert (dispatcher_tree(nodes, degree, seed=nodes).parent == grown.parent).all()


def test_an_impossible_tree_of_dispatchers_is_refused():
    with pytest.raises(ValueError, match="degree of at least 2"):
        dispatcher_tree(3, 1, seed=1)


def test_tables_of_delays_say_what_searches_find():
    spec = TransitStub(transit_domains=3, transit_routers=4, stub_domains=3, stub_routers=5)
    for seed in range(3):
        graph = transit_stub(seed, spec)
        every = np.arange(graph.routers)
        assert StubDelays(graph).between(every, every) == pytest.approx(graph.delays_between(every))


def test_a_stub_domain_with_two_links_is_not_for_tables():
    graph = transit_stub(1, TransitStub(transit_domains=2, transit_routers=2, stub_domains=1, stub_routers=3))
    links = np.concatenate([graph.links, [[0, graph.routers - 1]]])
    two = Graph(links, np.append(graph.delays_s, 0.001), graph.domain, graph.transit_domains)
    with pytest.raises(ValueError, match="more than one link"):
        StubDelays(two)
