"""Ways between the processes of a world: over links, over a ring, through routers."""

from __future__ import annotations

from statistics import mean

import pytest

from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.history import Kind
from unisono.sim.ground import Ground
from unisono.sim.links import WAN
from unisono.sim.network import Conditions
from unisono.sim.routes import make_routes
from unisono.sim.simulation import Simulation
from unisono.sim.topologies.pastry import Ring, key_of
from unisono.sim.topologies.scribe import tree
from unisono.sim.world import Burst, SubscriberSpec, World

SUBSCRIBERS = {f"s{i}": ("A", "B") if i % 2 else ("B",) for i in range(1, 9)}


def ways(ground: Ground, seed: int = 3):
    return make_routes(ground, seed, SUBSCRIBERS, ["p1", "p2"], {"node-A": "A", "node-B": "B"})


def test_links_of_the_paper_are_fast_or_slow_for_good():
    routes = ways(Ground())
    pairs = [(a, b) for a in SUBSCRIBERS for b in ("p1", "p2", "node-A", "node-B")]
    means = {pair: mean(routes.packet_s(*pair) for _ in range(200)) for pair in pairs}
    slow = [found for found in means.values() if found > 0.1]
    assert 1 <= len(slow) <= 14
    assert mean(slow) == pytest.approx(WAN.slow.cut_mean_s, rel=0.1)
    assert mean(set(means.values()) - set(slow)) == pytest.approx(WAN.fast.cut_mean_s, rel=0.1)
    told = routes.notices_s("node-B", ("B",), list(SUBSCRIBERS))
    assert len(told) == 8
    assert min(told) > 0


def test_packets_take_every_hop_of_the_ring():
    routes, ring = ways(Ground("pastry", hop_s=0.01, peers=500)), Ring(500, 3)
    places = routes.place
    assert places["node-A"] == ring.roots([key_of("A")])[0], "a manager is the root of its topic"
    assert len({places[name] for name in (*SUBSCRIBERS, "p1", "p2")}) == 10
    for source, to in (("p1", "node-A"), ("node-A", "node-B"), ("s1", "p2")):
        hops = len(ring.route_to(places[source], places[to])) - 1
        assert routes.packet_s(source, to) == pytest.approx(0.01 * hops)
    assert routes.packet_s("s1", "s1") == 0.0


def test_notifications_go_to_the_root_and_down_the_tree():
    routes, ring = ways(Ground("pastry", hop_s=0.01, peers=500)), Ring(500, 3)
    holders = [name for name, topics in SUBSCRIBERS.items() if "A" in topics]
    grown = tree(ring, "A", [routes.place[name] for name in holders])
    hops = len(ring.route_to(routes.place["p1"], grown.root)) - 1
    expected = [0.01 * (hops + int(grown.depth[routes.place[name]])) for name in holders]
    assert routes.notices_s("p1", ("A",), holders) == pytest.approx(expected)
    # Who does not hold the first topic hears by the second.
    both = routes.notices_s("node-A", ("A", "B"), list(SUBSCRIBERS))
    assert all(0 <= seconds < 1 for seconds in both)


def test_a_link_of_a_tree_takes_one_time_for_all_below_it():
    routes = ways(Ground("pastry", peers=2000))
    grown = tree(Ring(2000, 3, links=routes.links), "B", [routes.place[name] for name in SUBSCRIBERS])
    paths = {name: grown.path(routes.place[name]) for name in SUBSCRIBERS}
    inner = [(a, b) for a in paths for b in paths if paths[b][: len(paths[a])] == paths[a] and a != b]
    for _ in range(20):
        told = dict(zip(SUBSCRIBERS, routes.notices_s("node-B", ("B",), list(SUBSCRIBERS)), strict=True))
        assert all(told[a] < told[b] for a, b in inner), "nobody hears before who forwards it"


def test_hosts_on_routers_take_the_least_delay():
    routes = ways(Ground("transit-stub", clusters=3))
    there = routes.packet_s("s1", "node-A")
    assert there == pytest.approx(routes.graph.delay_s(routes.router["s1"], routes.router["node-A"]))
    assert there == pytest.approx(routes.packet_s("node-A", "s1"))
    assert there == pytest.approx(routes.notices_s("node-A", ("A",), ["s1"])[0])
    assert 0 <= there < 0.5
    assert len({routes.router[name] for name in SUBSCRIBERS}) > 1


def test_a_world_on_a_ring_keeps_its_promises_and_its_seed():
    world = World(
        seed=4,
        topics=("A", "B"),
        subscribers=tuple(SubscriberSpec(n, t, SubscriberSettings()) for n, t in SUBSCRIBERS.items()),
        bursts=tuple(Burst(0.1 * i, f"p{i % 2 + 1}", ("AB"[i % 2],)) for i in range(20)),
        packets=Conditions(latency_s=0.0),
        notifications=Conditions(latency_s=0.0),
        heals_at=2.0,
        ground=Ground("pastry", peers=300),
    )
    one, two = (Simulation(world, traces=True).run() for _ in range(2))
    assert one.digest == two.digest
    assert one.is_quiet
    assert sum(r.kind is Kind.DELIVERED for r in one.records) == 10 * 4 + 10 * 8
