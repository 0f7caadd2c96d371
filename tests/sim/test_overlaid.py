"""Exact worlds on an overlay: promises hold, messages take the ways of the ring, and a seed is a seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

import msgspec
import numpy as np
import pytest

from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.history import Kind, Outcome, judge
from unisono.sim.fast.journeys import down_s
from unisono.sim.fast.overlay import Overlay
from unisono.sim.latencies import LatencyRecorder
from unisono.sim.links import ADSL, Channel, Links, Mixture
from unisono.sim.network import Perturbation
from unisono.sim.overlaid import FORWARD, PAPER, TAGGING, node_name, overlaid
from unisono.sim.ring_routes import RingRoutes
from unisono.sim.simulation import Ending
from unisono.sim.workloads import Schedule, power_law, schedule, subscriptions, worst_case

WAITING = SubscriberSettings(on_gap="wait")
STEADY = Mixture(Channel(0.020, 0.0), Channel(0.200, 0.0))


def events(topics: int, nodes: int, count: int, seed: int = 1) -> Schedule:
    generator = np.random.default_rng(seed)
    return schedule(power_law(topics), generator, rate_s=20, duration_s=count / 20, publishers=nodes)


def run(overlay: Overlay, made: Schedule, *, seed: int = 1, traces: bool = False, **how: object) -> Ending:
    laid = overlaid(overlay, made, seed=seed, **how)
    simulation = laid.simulation(checks=True)
    simulation.traces = traces
    return simulation.run()


def check_promises(ending: Ending) -> None:
    assert ending.is_quiet
    assert not ending.faults
    assert not ending.unacknowledged
    for verdict in judge(ending.records):
        assert verdict.outcome is not Outcome.VIOLATED, verdict


@pytest.mark.parametrize("managers", [FORWARD, PAPER])
@pytest.mark.parametrize("host", [None, 3])
def test_promises_hold_on_a_ring(managers: ManagerSettings, host: int | None):
    held = subscriptions(power_law(8), 60, 3, np.random.default_rng(2))
    ending = run(Overlay(60, 8, 1, held), events(8, 60, 40), managers=managers, host=host)
    check_promises(ending)
    delivered = sum(r.kind is Kind.DELIVERED for r in ending.records)
    published = [int(r.topic[1:]) for r in ending.records if r.kind is Kind.PUBLISHED]
    assert delivered == sum(held[:, topic].sum() for topic in published)


def test_who_waits_is_told_everything_in_order():
    ending = run(Overlay(40, 5, 1), events(5, 40, 50), subscriber=WAITING)
    check_promises(ending)
    told = [r for r in ending.records if r.kind is Kind.DELIVERED]
    assert len(told) == 40 * 50
    assert all(r.in_order for r in told)


def test_what_links_lose_is_asked_for_again():
    overlay = Overlay(30, 4, 1, links=Links(1, loss=0.05))
    repairing = msgspec.structs.replace(WAITING, repair=True, nack_delay_s=1.0, nack_retry_s=1.0)
    keeping = ManagerSettings(ring_events=1000, heartbeat_s=1.0)
    laid = overlaid(overlay, events(4, 30, 40), seed=1, managers=keeping, subscriber=repairing)
    routes, lost = laid.routes(), 0
    told = routes.notices_s

    def counted(source: str, topics: tuple[str, ...], to: Sequence[str], size_bytes: float) -> list[float]:
        nonlocal lost
        times = told(source, topics, to, size_bytes)
        lost += times.count(inf)
        return times

    routes.notices_s = counted  # type: ignore[method-assign]
    ending = laid.simulation(routes=routes, checks=True).run()
    check_promises(ending)
    assert lost > 20
    assert sum(r.kind is Kind.DELIVERED for r in ending.records) == 30 * 40


def test_a_seed_is_a_seed():
    overlay, made = Overlay(30, 4, 1), events(4, 30, 15)
    first = run(overlay, made, traces=True)
    assert first.digest == run(Overlay(30, 4, 1), made, traces=True).digest
    assert first.digest != run(overlay, made, seed=2, traces=True).digest


def ways(overlay: Overlay, **how: object) -> RingRoutes:
    return overlaid(overlay, events(len(overlay.keys), overlay.nodes, 1), seed=1).routes(**how)


def test_packets_take_the_links_of_their_route():
    overlay = Overlay(300, 1, 1, links=Links(1, STEADY))
    routed, direct = ways(overlay), ways(overlay, direct=True)
    for a, b in ((0, 250), (17, 18), (299, 100), (5, 5)):
        path = overlay.ring.route_to(a, b)
        expected = sum(overlay.links.mean_s(x, y) for x, y in pairwise(path))
        assert routed.packet_s(node_name(a), node_name(b)) == pytest.approx(expected)
        assert direct.packet_s(node_name(a), node_name(b)) == pytest.approx(overlay.links.mean_s(a, b))


def test_a_link_that_loses_a_notification_loses_it_for_everybody_below():
    overlay = Overlay(200, 1, 1, links=Links(1, loss=0.2))
    routes, tree = ways(overlay), overlay.tree(0)
    names, shares = [node_name(i) for i in range(200)], []
    for _ in range(60):
        heard = np.array(routes.notices_s(node_name(tree.root), ("t00000",), names))
        shares.append(np.isfinite(heard).mean())
        for node in tree.nodes[1:].tolist():
            assert heard[node] > heard[tree.parent[node]] or heard[node] == inf
    assert np.mean(shares) == pytest.approx((0.8**tree.depth).mean(), abs=0.06)
    routes.heal()
    assert inf not in routes.notices_s(node_name(0), ("t00000",), names)
    assert all(routes.packet_s(node_name(0), name) < inf for name in names)


def test_bytes_take_their_time_on_every_link_one_copy_after_the_other():
    overlay = Overlay(50, 1, 1, links=Links(1, STEADY, ADSL))
    names, tree = [node_name(i) for i in range(50)], overlay.tree(0)
    empty, full = (
        np.array(ways(overlay).notices_s(node_name(tree.root), ("t00000",), names, size))
        for size in (0, 1000)
    )
    took = full - empty
    for node in range(50):
        below = [child for child in tree.nodes[1:].tolist() if tree.parent[child] == node]
        waits = sorted(took[child] - took[node] for child in below)
        assert waits == pytest.approx([0.009 + 0.008 * turn for turn in range(len(below))])
    route = overlay.ring.route_to(3, 40)
    times = [ways(overlay).packet_s(node_name(3), node_name(40), size) for size in (0, 1000)]
    assert times[1] - times[0] == pytest.approx(0.009 * (len(route) - 1))


def test_perturbed_nodes_slow_down_or_lose_whatever_passes_them():
    overlay = Overlay(300, 1, 1, links=Links(1, STEADY))
    names, tree = [node_name(i) for i in range(300)], overlay.tree(0)
    calm = np.array(ways(overlay).notices_s(node_name(tree.root), ("t00000",), names))
    slow, deaf = ways(overlay), ways(overlay)
    slow.perturb(Perturbation(0.2, latency_s=10.0))
    deaf.perturb(Perturbation(0.2, loss=1.0))
    rough = np.array(slow.notices_s(node_name(tree.root), ("t00000",), names))
    heard = np.array(deaf.notices_s(node_name(tree.root), ("t00000",), names))
    met = np.rint((rough - calm) / 10)
    assert (rough - calm) == pytest.approx(10 * met)
    assert 0.2 * 300 <= np.count_nonzero(met) < 300, "those nodes, and who is below them"
    assert np.isinf(heard).tolist() == (met > 0).tolist()
    for a, b in ((3, 40), (5, 250), (17, 99), (8, 200)):
        path = overlay.ring.route_to(a, b)
        extra = slow.packet_s(node_name(a), node_name(b)) - ways(overlay).packet_s(node_name(a), node_name(b))
        on_the_way = sum(node in slow._rough for node in path)
        assert extra == pytest.approx(10 * on_the_way)
        assert (deaf.packet_s(node_name(a), node_name(b)) == inf) == (on_the_way > 0)
    deaf.heal()
    assert np.isfinite(deaf.notices_s(node_name(0), ("t00000",), names)).all()


def test_sums_say_what_records_say():
    overlay, made = Overlay(40, 6, 1), events(6, 40, 40)
    laid = overlaid(overlay, made, seed=3, subscriber=TAGGING)
    sums = LatencyRecorder()
    with_sums = laid.simulation(recorder=sums)
    assert [r.kind for r in with_sums.run().records] == [Kind.HEALED]
    records = laid.simulation().run().records
    found = sums.latencies()
    published = {r.event: r.at for r in records if r.kind is Kind.PUBLISHED}
    sequenced = {r.event: r.at for r in records if r.kind is Kind.SEQUENCED}
    for i, event in enumerate(published):
        told = [r for r in records if r.kind is Kind.DELIVERED and r.event == event]
        took = [r.at - published[event] for r in told]
        assert found.ordering_s[i] == pytest.approx(sequenced[event] - published[event])
        assert found.total_s[i] == pytest.approx(max(took))
        assert found.heard_s[i] == pytest.approx(np.mean(took))
        assert found.within[i] == pytest.approx(np.mean([t <= 1.0 for t in took]))
        assert found.delivered[i] == len(told) == 40
        assert found.tagged[i] == sum(not r.in_order for r in told)


def test_managers_on_one_node_order_ten_times_sooner_than_the_papers_chain():
    nodes, topics = 100, 50
    overlay = Overlay(nodes, topics, 1)
    made = schedule(worst_case(topics), np.random.default_rng(1), rate_s=1, duration_s=30, publishers=nodes)
    host = int(overlay.roots[0])
    found = []
    for managers, at, direct in ((PAPER, None, False), (FORWARD, host, False), (FORWARD, host, True)):
        laid, sums = overlaid(overlay, made, seed=1, managers=managers, host=at), LatencyRecorder()
        assert laid.simulation(routes=laid.routes(direct=direct), recorder=sums).run().is_quiet
        found.append(sums.latencies())
    chain, routed, direct_ones = found
    assert chain.ordering_s.mean() > 10 * routed.ordering_s.mean()
    # The bound: from publisher to sequencer, from there to the root, and down the tree.
    root = int(overlay.roots[topics - 1])
    legs = [overlay.links.mean_s(p, host) + overlay.links.mean_s(host, root) for p in made.publisher.tolist()]
    tree = overlay.tree(topics - 1)
    down = [
        portion.seconds.max(axis=0) for portion in down_s(tree, overlay.links, 300, np.random.default_rng(1))
    ]
    assert direct_ones.total_s.mean() < 1.2 * (np.mean(legs) + np.concatenate(down).mean())
