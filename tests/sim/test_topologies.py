"""Overlays: every route ends where it should, trees have no loops, and depth grows as it should."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unisono.sim.links import Links
from unisono.sim.topologies.pastry import Ring, key_of
from unisono.sim.topologies.scribe import Tree, tree

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
