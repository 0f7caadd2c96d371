"""Moving worlds: lives, clocks, storage, partitions, and that a world by hand goes as it was written."""

from __future__ import annotations

from random import Random

import pytest

from unisono.engines.effects import Append, Decide, Look, Read
from unisono.engines.inputs import Appended, Controlled, ReadBack
from unisono.engines.takeover.control import Intent
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.history import Kind
from unisono.lab.churn import measure_costs, measure_week
from unisono.model.lanes import SealRecord
from unisono.sim.moving.cluster import Cluster
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.processes import HONEST, Clock, Detector, draw_clock
from unisono.sim.moving.simulation import Simulation
from unisono.sim.moving.storage import Storage, StorageRoute
from unisono.sim.moving.trial import try_moving, try_moving_seed
from unisono.sim.moving.world import (
    STORE,
    Burst,
    ClockConditions,
    Crash,
    MemberSpec,
    MovingWorld,
    Partition,
    Pause,
    Rerank,
    StorageConditions,
    Suspicion,
    Want,
)

WAIT = SubscriberSettings(repair=True)


def world(*script, members=("s1", "s2"), topics=("A", "B"), owners=("N1", "N2"), **more) -> MovingWorld:
    return MovingWorld(
        seed=1,
        topics=topics,
        nodes=("N1", "N2", "N3"),
        owners=owners,
        publishers=("p1", "p2"),
        members=tuple(MemberSpec(name, WAIT) for name in members),
        script=tuple(sorted(script, key=lambda step: step.at)),
        **more,
    )


BOTH = (Want(0.0, "s1", ("A", "B")), Want(0.0, "s2", ("A", "B")))
EVENTS = tuple(Burst(0.1 + i / 10, f"p{i % 2 + 1}", ("A", "B")) for i in range(15))


def seen(ending, member):
    return [r.event for r in ending.records if r.kind is Kind.DELIVERED and r.process == member]


def check(world):
    """Run a world that must be good; return how it ended."""
    trial = try_moving(world)
    assert trial.is_good, (trial.violations, trial.stuck)
    return Simulation(world).run()


def test_a_quiet_world_delivers_everything_to_everybody_in_one_order():
    ending = check(world(*BOTH, *EVENTS))
    assert len(seen(ending, "s1")) == 30
    assert seen(ending, "s1") == seen(ending, "s2")
    assert len(ending.acknowledged) == len(ending.stored) == 30
    assert not ending.facts["epochs"]


@pytest.mark.parametrize("keeps_output", [True, False])
@pytest.mark.parametrize("back_at", [None, 0.9])
def test_a_node_that_crashes_is_taken_over_or_begins_again(back_at, keeps_output):
    ending = check(world(*BOTH, *EVENTS, Crash(0.6, "N2", keeps_output, back_at)))
    assert ending.facts["epochs"]
    assert len(ending.acknowledged) == 30
    assert seen(ending, "s1") == seen(ending, "s2")


def test_a_zombie_wakes_into_an_epoch_that_went_on_without_it():
    ending = check(world(*BOTH, *EVENTS, Pause(0.5, "N2", 2.5)))
    assert ending.facts["takeovers"]
    assert len(ending.acknowledged) == 30


def test_a_false_suspicion_costs_an_epoch_and_nothing_else():
    ending = check(world(*BOTH, *EVENTS, Suspicion(0.5, "N3", "N1")))
    assert ending.facts["takeovers"] == 1
    assert len(seen(ending, "s1")) == 30


def test_a_storage_that_cannot_be_reached_delays():
    ending = check(world(*BOTH, *EVENTS, Partition(0.4, 1.6, (STORE,))))
    assert len(ending.acknowledged) == 30


def test_a_publisher_that_restarts_is_another():
    ending = check(world(*BOTH, *EVENTS, Crash(0.55, "p1", True, 0.65)))
    lives = {event.publication.incarnation for event in ending.stored if event.publication.publisher == "p1"}
    assert lives == {1, 2}


def test_a_member_that_restarts_is_another_subscription():
    ending = check(world(*BOTH, *EVENTS, Crash(0.55, "s2", True, 0.65)))
    before, after = seen(ending, "s2"), seen(ending, "s2.2")
    assert before
    assert after
    assert not set(before) & set(after)


def test_joins_and_leaves_while_events_flow():
    ending = check(world(*BOTH, *EVENTS, Want(0.5, "s1", remove=("A",)), Want(0.9, "s1", add=("A",))))
    assert len(seen(ending, "s2")) == 30
    assert 15 < len(seen(ending, "s1")) < 30


def test_a_better_rank_is_an_epoch_in_which_nothing_is_lost():
    ending = check(world(*BOTH, *EVENTS, Rerank(0.5, ("B", "A"))))
    assert ending.facts["re-ranks"] == 1
    assert len(seen(ending, "s1")) == 30


def test_whoever_watches_popularity_asks_for_a_better_rank():
    busy = tuple(Burst(0.1 + i / 20, "p1", ("B",)) for i in range(30))
    ending = check(world(*BOTH, *busy, ranking=True))
    assert ending.facts["swaps"] == 1


def test_clocks_that_differ_change_nothing():
    skewed = world(*BOTH, *EVENTS, Crash(0.6, "N1"), clocks=ClockConditions(offset_s=30.0, drift=0.1))
    assert len(check(skewed).acknowledged) == 30


# The parts.


def test_a_clock_shows_its_own_time():
    clock = Clock(5.0, 1.1)
    assert clock.world(clock.local(3.0)) == pytest.approx(3.0)
    assert draw_clock(ClockConditions(), 1, "N1") == Clock()
    drawn = draw_clock(ClockConditions(offset_s=2.0, drift=0.1), 1, "N1")
    assert 0 <= drawn.offset_s <= 2
    assert 0.9 <= drawn.rate <= 1.1


def test_storage_refuses_what_expects_another_end_and_compares_versions():
    control = Cluster(world(*BOTH), HONEST).first_control()
    storage = Storage(control)
    seal = SealRecord(1)
    assert storage.carry_out(Append("N1", seal, 0)) == Appended("N1", seal, 1)
    assert storage.carry_out(Append("N1", seal, 0)) == Appended("N1", seal, None)
    assert storage.carry_out(Append("N1", seal, None)) == Appended("N1", seal, 2)
    assert storage.carry_out(Read("N1")) == ReadBack("N1", (seal, seal), 2)
    one, other = (control.sealing(node, Intent("line", ("A", "B"))) for node in ("N1", "N2"))
    assert storage.carry_out(Decide(one)) == Controlled(one)
    assert storage.carry_out(Decide(other)) == Controlled(one), "the first counts"
    assert storage.carry_out(Look()) == Controlled(one)


def test_requests_of_one_process_stay_in_line_and_some_are_lost():
    route = StorageRoute(StorageConditions(spread_s=1.0, lost_before=0.5, lost_after=0.5), Random(1))
    times = [at for _ in range(200) if (at := route.there("N1", 0.0)) is not None]
    assert times == sorted(times)
    assert 60 < len(times) < 140
    route.healed = True
    assert all(route.back(0.0) is not None for _ in range(50))


def test_a_partition_separates_its_sides_while_it_lasts():
    cluster = Cluster(world(*BOTH), HONEST)
    cluster.partitions.append(Partition(1.0, 2.0, ("N1", STORE)))
    assert cluster.is_cut("N1", "N2", 1.5)
    assert not cluster.is_cut("N1", STORE, 1.5)
    assert not cluster.is_cut("N1", "N2", 2.0)


def test_a_detector_suspects_who_is_silent():
    detector = Detector(("a", "b", "c"), suspect_s=1.0)
    assert detector.suspects("a", 0.0) == []
    detector.beat("b", ["a"], 1.0)
    assert detector.suspects("a", 1.5) == ["c"]
    detector.forget("a")
    assert detector.suspects("a", 9.0) == []


def test_worlds_are_data():
    assert draw_moving(5) == draw_moving(5)
    assert draw_moving(5) != draw_moving(6)
    assert len({try_moving_seed(seed, traces=True).digest for seed in range(8)}) == 8


# What it costs.


def test_joins_and_epochs_cost_a_few_message_delays():
    cost = measure_costs("line", topics=4, nodes=2, seconds=10)
    assert cost.joins == 20
    assert 4 <= cost.join_p50 <= cost.join_p99 < 60
    assert 4 <= cost.pause_p50 <= cost.pause_p99 < 60


def test_registrations_do_not_pile_up():
    with_epochs, without = measure_week(24, shrinks=True), measure_week(24, shrinks=False)
    assert with_epochs.registrations_max <= 2 * with_epochs.live_max
    assert without.registrations_max > 3 * without.live_max, "this is what it is for"
