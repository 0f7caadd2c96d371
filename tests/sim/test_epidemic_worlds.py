"""Worlds of dispatchers: every promise is kept, the reference world is met, and broken dispatchers are seen."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import msgspec
import pytest

from unisono.engines.epidemic.inputs import Deliver
from unisono.engines.epidemic.messages import Event
from unisono.lab.fuzz import digests, fuzz, replay
from unisono.model.ids import EventId
from unisono.sim.epidemic.draw import MOVED_S, draw_quiet
from unisono.sim.epidemic.forest import Forest
from unisono.sim.epidemic.reference import Reference, reference_settings, run_reference
from unisono.sim.epidemic.simulation import Simulation, parse
from unisono.sim.epidemic.trial import try_epidemic_seed
from unisono.sim.epidemic.witness import Client, Witness
from unisono.sim.epidemic.world import Crashes
from unisono.sim.network import Conditions

SMALL = Reference(dispatchers=25, patterns=20, rate_s=2.0, seconds=3.0, warm_s=2.0)


def test_some_worlds_keep_every_promise():
    result = fuzz(24, engine="epidemic")
    assert result.is_good, result.explanation
    for kind in (
        "loss",
        "crashes",
        "reconfiguration",
        "subscription churn",
        "kept tree",
        "leaves",
        "covering",
        "small bounds",
    ):
        assert result.worlds[kind] >= 2, kind


@pytest.mark.parametrize("seed", [1567])  # a confirmation by the end of a former link
def test_what_was_once_wrong_is_right(seed):
    assert try_epidemic_seed(seed).is_good


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_the_one_event_published_while_a_leaf_moves_comes_when_it_has_moved(loss):
    for seed in range(20):
        world = draw_quiet(seed)
        conditions = Conditions(latency_s=0.001, spread_s=0.005, loss=loss)
        simulation = Simulation(msgspec.structs.replace(world, conditions=conditions))
        simulation.start()
        crash = next(act.at for act in world.script if isinstance(act, Crashes))
        simulation.kernel.run(simulation.occur, until=crash + MOVED_S + 1.0)
        assert not simulation.witness.owed(), seed


def test_a_world_is_replayed_in_lines_and_alike_under_another_hash_seed():
    lines = replay(3, "epidemic")
    assert any("Deliver" in line for line in lines)
    assert all(line.isprintable() for line in lines)
    script = "from unisono.lab.fuzz import digests\nprint(*digests(range(4), 'epidemic'))"
    there = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == digests(range(4), "epidemic")


def test_a_small_reference_world():
    bare = run_reference(SMALL, reference_settings(algorithm="none"))
    combined = run_reference(SMALL)
    assert 0.4 < bare.delivery < 0.8
    assert combined.delivery >= 0.995
    assert combined.delivery_at_last >= 0.999
    assert combined.overhead < 0.25
    assert combined.repairs > 0
    assert bare.overhead == bare.repairs == 0


def test_the_witness_sees_what_must_not_be():
    witness, client = Witness(parse), Client("d", 1, "c")
    witness.publish(EventId("s", 1, 1), 5.0, {"x": 3}, b"")
    witness.subscribe(client, "x > 2", 1.0)
    assert [owed.id.n for owed in witness.owed()] == [1]
    good = Event("s", 1, 1, {}, {"x": 3})
    witness.deliver(client, good, 5.1)
    assert (witness.broken, witness.owed()) == ([], [])
    witness.deliver(client, good, 5.2)
    witness.deliver(client, Event("s", 1, 2, {}, {"x": 1}), 5.2)
    witness.subscribe(Client("d", 1, "late"), "x > 2", 9.0)
    witness.deliver(Client("d", 1, "late"), good, 9.1)
    kinds = [text.partition(":")[0] for text in witness.broken]
    assert kinds == ["no duplication", "no creation", "only matching", "only wanted"]
    assert Deliver(("c",), good).event is good


def test_a_forest_stays_a_tree():
    random = Random(1)
    names = [f"d{i}" for i in range(12)]
    forest = Forest(names, [(names[i], names[i + 1]) for i in range(11)], 4)
    for step in range(60):
        if step % 10 == 9:
            name = random.choice(sorted(forest.near))
            forest.lose(name, random)
            assert len(forest.edges()) == 10
            forest.gain(name, random)
        else:
            gone, new = forest.rewire(random)
            assert len(gone) == len(new) == 1
        assert len(forest.edges()) == 11
        assert len(forest._part("d0")) == 12
