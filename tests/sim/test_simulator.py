"""The simulator: time, networks, determinism, and that it sees what is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest

from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.history import Kind
from unisono.sim.kernel import Kernel
from unisono.sim.network import Conditions, Network, Weather
from unisono.sim.simulation import Simulation
from unisono.sim.trial import try_seed, try_world
from unisono.sim.world import Burst, SubscriberSpec, World, draw_world


def test_occurrences_come_by_time_and_then_as_scheduled():
    kernel: Kernel[str] = Kernel()
    for at, name in ((2.0, "c"), (1.0, "a"), (1.0, "b"), (2.0, "d")):
        kernel.schedule(at, name)
    assert [kernel.advance() for _ in range(len(kernel))] == ["a", "b", "c", "d"]
    assert kernel.now == 2.0
    kernel.schedule(0.5, "late")
    assert kernel.next_time() == 2.0, "time never goes back"


def test_a_network_loses_doubles_and_spreads_as_told():
    network = Network(Conditions(latency_s=1.0, spread_s=1.0, loss=0.5, duplication=0.5), Random(1))
    copies = [len(network.arrivals("a", "b", 0.0)) for _ in range(4000)]
    assert copies.count(0) == pytest.approx(2000, rel=0.1)
    assert copies.count(2) == pytest.approx(1000, rel=0.1)
    times = [time for _ in range(100) for time in network.arrivals("a", "b", 0.0)]
    assert all(1.0 <= time <= 2.0 for time in times)
    network.heal()
    assert all(network.arrivals("a", "b", 0.0) for _ in range(100))


def test_a_route_without_overtaking_keeps_its_order():
    conditions = Conditions(latency_s=0.0, spread_s=1.0, overtaking=False)
    network = Network(conditions, Random(1))
    times = [network.arrivals("a", "b", now / 100)[0] for now in range(100)]
    assert times == sorted(times)
    assert network.arrivals("c", "d", 0.0)[0] < times[-1], "routes do not wait for each other"


TWO = (
    SubscriberSpec("s1", ("A", "B"), SubscriberSettings()),
    SubscriberSpec("s2", ("A", "B"), SubscriberSettings(on_gap="tag")),
)
SMALL = World(
    seed=1,
    topics=("A", "B"),
    subscribers=TWO,
    bursts=(Burst(0.0, "p1", ("A", "B")), Burst(0.1, "p2", ("B",))),
    notifications=Conditions(spread_s=0.02),
)


def test_a_small_world_leaves_a_whole_history():
    ending = Simulation(SMALL).run()
    kinds = [record.kind for record in ending.records]
    assert ending.is_quiet
    assert kinds.count(Kind.SUBSCRIBED) == 4
    assert kinds.count(Kind.PUBLISHED) == kinds.count(Kind.SEQUENCED) == 3
    assert kinds.count(Kind.DELIVERED) == 6
    assert kinds.count(Kind.HEALED) == 1
    assert try_world(SMALL).is_good


def test_a_lossy_world_is_mended_or_accounted_for():
    world = World(
        seed=3,
        topics=("A",),
        subscribers=(SubscriberSpec("s1", ("A",), SubscriberSettings(repair=True, nack_retry_s_max=0.4)),),
        bursts=tuple(Burst(0.01 * i, "p1", ("A",)) for i in range(20)),
        managers=ManagerSettings(ring_events=64, heartbeat_s_max=0.4),
        notifications=Conditions(loss=0.5),
        packets=Conditions(loss=0.3),
    )
    ending = Simulation(world).run()
    delivered = [record.number for record in ending.records if record.kind is Kind.DELIVERED]
    assert delivered == list(range(1, 21))


def test_who_waits_for_what_is_lost_and_cannot_ask_is_found_waiting():
    world = World(
        seed=3,
        topics=("A",),
        subscribers=(SubscriberSpec("s1", ("A",), SubscriberSettings()),),
        bursts=tuple(Burst(0.01 * i, "p1", ("A",)) for i in range(20)),
        notifications=Conditions(loss=0.5),
    )
    ending = Simulation(world).run()
    assert any(record.kind is Kind.HELD for record in ending.records)


def test_a_seed_replays_to_the_same_trace_under_another_hash_seed():
    seeds = range(0, 60, 3)
    here = [try_seed(seed, traces=True).digest for seed in seeds]
    script = (
        "from unisono.sim.trial import try_seed\n"
        f"for seed in {list(seeds)!r}: print(try_seed(seed, traces=True).digest)"
    )
    for hash_seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert there.stdout.split() == here


def test_different_seeds_are_different_worlds():
    assert len({try_seed(seed, traces=True).digest for seed in range(30)}) == 30


def test_worlds_are_data():
    assert draw_world(5) == draw_world(5)
    assert draw_world(5) != draw_world(6)


# A simulator that cannot see a broken engine proves nothing.


def failures(seeds: int = 300) -> set[str]:
    trials = [try_seed(seed) for seed in range(seeds)]
    return {problem.split(":")[0] for trial in trials for problem in (*trial.violations, *trial.stuck)}


def test_a_tag_rule_that_looks_at_one_entry_is_caught(monkeypatch):
    monkeypatch.setattr(Subscriber, "is_clean", lambda self, e: e.number > self.clock[e.topic])
    assert failures() >= {"total_notification_order", "tags"}


def test_managers_that_forget_lower_topics_are_caught(monkeypatch):
    monkeypatch.setattr(TopicManager, "learn", lambda self, entries: None)
    assert "total_notification_order" in failures()


def test_subscribers_that_never_ask_are_caught(monkeypatch):
    monkeypatch.setattr(Subscriber, "_ask", lambda self, now: self.missing.due(now) and None)
    assert failures() & {"nothing_lost", "no_endless_wait"}


def test_the_networks_of_a_world_change_when_it_says_so():
    calm = Conditions(latency_s=0.01)
    stormy = Conditions(latency_s=0.05, loss=0.0)
    world = World(
        seed=1,
        topics=("A",),
        subscribers=(SubscriberSpec("s1", ("A",), SubscriberSettings()),),
        bursts=tuple(Burst(at, "p", ("A",)) for at in (0.1, 0.2, 0.3)),
        packets=calm,
        notifications=calm,
        weather=(Weather(0.15, stormy, stormy), Weather(0.28, calm, calm)),
    )
    records = Simulation(world).run().records
    took = [round(r.at, 3) for r in records if r.kind is Kind.DELIVERED]
    assert took == [0.12, 0.3, 0.32]


def test_whoever_watches_a_run_is_told_the_time():
    told: list[float] = []
    bursts = tuple(Burst(0.001 * i, "p", ("A",)) for i in range(2000))
    subscribers = (SubscriberSpec("s1", ("A",), SubscriberSettings()),)
    world = World(seed=1, topics=("A",), subscribers=subscribers, bursts=bursts, heals_at=2.0)
    Simulation(world).run(told.append)
    assert told
    assert told == sorted(told)
    assert not Simulation(world, steps_max=10).run().is_quiet
