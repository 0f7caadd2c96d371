"""Worlds in which nothing is fixed: a start from nothing, new topics and nodes, drains, patterns, short lanes."""

from __future__ import annotations

import pytest

from unisono.engines.takeover.control import Control
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.history import Kind
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.processes import HONEST, Makers
from unisono.sim.moving.simulation import Simulation
from unisono.sim.moving.trial import stuck, try_moving, violations
from unisono.sim.moving.world import (
    Arrive,
    Burst,
    Crash,
    Drain,
    MakeView,
    MemberSpec,
    Move,
    MovingWorld,
    Want,
)
from unisono.testing.planted_bugs.moving_nodes import with_finisher
from unisono.testing.planted_bugs.open_engines import ForgetsViews

WAIT = SubscriberSettings(repair=True)


def world(*script, members=("s1", "s2"), topics=(), owners=(), nodes=("N1",), **more) -> MovingWorld:
    return MovingWorld(
        seed=1,
        topics=topics,
        nodes=nodes,
        owners=owners,
        publishers=("p1", "p2"),
        members=tuple(MemberSpec(name, WAIT) for name in members),
        script=tuple(sorted(script, key=lambda step: step.at)),
        **more,
    )


def run(made):
    simulation = Simulation(made, HONEST)
    ending = simulation.run()
    assert violations(made, ending) == []
    assert stuck(made, ending) == []
    return simulation, ending


def seen(ending, member):
    return [r.event for r in ending.records if r.kind is Kind.DELIVERED and r.process == member]


BURSTS = tuple(Burst(0.2 + i / 10, f"p{i % 2 + 1}", ("new.1", "new.2")) for i in range(12))


@pytest.mark.parametrize("plan", ["line", "forest"])
def test_a_system_starts_from_nothing(plan):
    simulation, ending = run(
        world(Want(0.0, "s1", ("new.1", "new.2")), *BURSTS, members=("s1",), node=NodeSettings(plan=plan))
    )
    assert set(simulation.storage.control.owner) == {"new.1", "new.2"}
    assert len(seen(ending, "s1")) == 24
    assert simulation.storage.control.epoch <= 3


@pytest.mark.parametrize("pattern", ["new.*", ">", "new.>"])
def test_who_holds_a_pattern_misses_nothing_of_topics_that_are_made_later(pattern):
    simulation, ending = run(world(Want(0.0, "s1", (pattern,)), Want(0.0, "s2", ("new.>",)), *BURSTS))
    assert ending.facts["confirmed patterns"] == 2
    floors = [(r.topic, r.number) for r in ending.records if r.kind is Kind.SUBSCRIBED and r.process == "s1"]
    assert sorted(floors) == [("new.1", 0), ("new.2", 0)]
    assert seen(ending, "s1") == seen(ending, "s2")
    assert len(seen(ending, "s1")) == 24
    assert simulation.storage.control.matched("s1") == {"new.1", "new.2"}


def test_a_pattern_survives_the_node_that_counted_it():
    _, ending = run(
        world(
            Want(0.0, "s1", ("new.*",)),
            Want(0.0, "s2", ("new.*",)),
            Crash(0.5, "N1", False, 1.5),
            *BURSTS,
            nodes=("N1", "N2", "N3"),
        )
    )
    assert len(seen(ending, "s1")) == 24
    assert ending.facts["takeovers"]


def test_a_new_node_is_counted_and_given_what_is_too_much_for_another():
    simulation, ending = run(
        world(
            *BURSTS,
            Arrive(1.0, "N2"),
            nodes=("N1", "N2"),
            late=("N2",),
            node=NodeSettings(component_topics_max=1),
        )
    )
    assert simulation.storage.control.nodes == ("N1", "N2")
    assert set(simulation.storage.control.owner.values()) == {"N1", "N2"}
    assert ending.facts["moved topics"] == 1


def test_a_node_is_drained_and_the_others_go_on():
    simulation, ending = run(
        world(
            Want(0.0, "s1", ("new.1", "new.2")),
            *BURSTS,
            Drain(0.7, "N1"),
            Drain(0.9, "N2"),
            nodes=("N1", "N2", "N3"),
        )
    )
    assert simulation.storage.control.nodes == ("N3",)
    assert set(simulation.storage.control.owner.values()) == {"N3"}
    assert len(seen(ending, "s1")) == 24


def test_the_last_node_is_not_drained():
    simulation, _ = run(world(*BURSTS, Drain(0.7, "N1")))
    assert simulation.storage.control.nodes == ("N1",)


def test_an_operator_moves_a_topic():
    simulation, _ = run(world(*BURSTS, Move(1.0, "new.1", "N2"), nodes=("N1", "N2")))
    assert simulation.storage.control.owner["new.1"] == "N2"


def test_long_lanes_make_epochs_and_what_nobody_needs_is_cut_off():
    node = NodeSettings(lane_events_max=6, lane_records_kept=4)
    simulation, ending = run(world(Want(0.0, "s1", ("new.1", "new.2")), *BURSTS, members=("s1",), node=node))
    assert simulation.storage.control.epoch >= 3
    assert ending.facts["truncations"]
    assert simulation.storage.cut["N1"] >= 4  # some of these records hold several events
    assert len(seen(ending, "s1")) == 24


def test_topics_beyond_the_limit_are_refused_and_others_go_on():
    made = world(*BURSTS, members=(), node=NodeSettings(topics_max=1))
    simulation, ending = run(made)
    assert len(simulation.storage.control.owner) == 1
    assert ending.facts["refused events"] == 12
    assert len(ending.acknowledged) == 12


def test_a_world_without_topics_is_judged_like_any_other():
    assert try_moving(world(Want(0.0, "s1", (">",)), members=("s1",))).is_good


def test_views_that_are_not_registered_are_found_out():
    weak = Makers(node=with_finisher(ForgetsViews))
    drawn = [draw_moving(seed) for seed in range(40)]
    worlds = [made for made in drawn if any(isinstance(step, MakeView) for step in made.script)]
    assert len(worlds) > 8
    assert any("views: nothing orders" in str(try_moving(made, weak).violations) for made in worlds)


def test_a_past_that_is_cut_too_early_is_found_out(monkeypatch):
    monkeypatch.setattr(Control, "spare", lambda self, lane: self.reads_after(lane))
    worlds = [made for seed in range(60) if (made := draw_moving(seed)).retained]
    assert len(worlds) > 8
    assert any("is to be kept, and cannot be found" in str(try_moving(made).violations) for made in worlds)
