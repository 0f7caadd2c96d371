"""Fuzzing: seeds are judged, counted, replayed and shrunk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice

import pytest

from unisono.engines.takeover import carried
from unisono.engines.topic_managers import outgoing, publisher
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.lab.fuzz import digests, fuzz, is_moving, replay
from unisono.lab.moving_bugs import MOVING_BUGS
from unisono.lab.shrink import shrink
from unisono.model.errors import ConfigError
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.trial import try_moving


def test_three_hundred_worlds_keep_every_promise():
    told: list[tuple[int, int]] = []
    result = fuzz(300, progress=lambda done, failed: told.append((done, failed)))
    assert result.is_good, result.explanation
    assert result.seeds == 300
    assert result.repeated == 5
    assert told[-1] == (300, 0)


def test_two_processes_find_what_one_finds():
    one, two = fuzz(48, start=7), fuzz(48, start=7, jobs=2)
    assert (one.worlds, one.steps, one.failed) == (two.worlds, two.steps, two.failed)


def test_the_worlds_are_of_every_kind():
    worlds = fuzz(200, start=10_000).worlds
    wanted = (
        "crashes",
        "takeovers",
        "churn during publication",
        "re-ranks",
        "partitions",
        "bounded buffers",
    )
    for kind in wanted:
        assert worlds[kind] >= 30, f"{kind}: a seventh of all worlds at least"
    for kind in (
        "loss",
        "duplication",
        "re-ordering",
        "storage faults",
        "clock skew",
        "pauses",
        "repeated keys",
    ):
        assert worlds[kind] >= 20, kind
    for kind in (
        "colocated",
        "forest",
        "line",
        "upward stamps",
        "return mode",
        "small rings",
        "replies",
        "peers",
    ):
        assert worlds[kind] >= 2, kind


@pytest.fixture
def little_memory(monkeypatch):
    """Publishers have few events under way, and epochs carry over hardly more."""
    monkeypatch.setattr(publisher, "UNDER_WAY_MAX", 3)
    monkeypatch.setattr(publisher, "ALONE_MAX", 3)
    monkeypatch.setattr(carried, "SEEN_MAX", 4)


def test_nothing_has_two_places_however_little_nodes_remember(little_memory):
    result = fuzz(200, start=100)
    assert result.is_good, result.explanation


def test_who_counts_only_what_has_no_answer_gives_second_places(little_memory, monkeypatch):
    """An answer that was lost is asked for when nobody remembers it any more."""

    def heard_of(self, topic, n, now):
        self.patience.pop(topic, None)
        self.due[topic] = now + self.resend_s

    monkeypatch.setattr(publisher.Publisher, "_answered", heard_of)
    monkeypatch.setattr(outgoing.Outgoing, "span", lambda self, topic: self.load.get(topic, 0))
    assert any(not fuzz(1, start=seed).is_good for seed in (101, 108, 161, 298, 534))


def test_an_engine_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="cannot be fuzzed"):
        fuzz(1, engine="nonsense")


def test_the_first_failure_is_explained(monkeypatch):
    monkeypatch.setattr(Subscriber, "is_clean", lambda self, e: e.number > self.clock[e.topic])
    result = fuzz(300)
    assert not result.is_good
    assert result.first is not None
    assert result.first.seed == result.failed[0] == min(result.failed)
    assert result.explanation.startswith(f"seed {result.first.seed}: ")


@pytest.mark.parametrize("moving", [True, False])
def test_a_replay_tells_every_step_in_a_line(moving):
    seeds = [seed for seed in range(1, 100) if is_moving(seed) is moving][:5]
    lines = [line for seed in seeds for line in replay(seed)]
    assert lines == [line for seed in seeds for line in replay(seed)]
    assert any(" deliver" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_seeds_replay_to_the_same_trace_under_another_hash_seed():
    here = digests(range(12))
    script = "from unisono.lab.fuzz import digests\nprint(*digests(range(12)))"
    there = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == here


# A simulator that cannot see a broken engine proves nothing.


def caught(bug: str, seeds: int = 640) -> Iterator[int]:
    """Seeds whose worlds show the bug: of those with enough to take away, first the ones in which least happens."""
    makers = MOVING_BUGS[bug]
    worlds = sorted(map(draw_moving, range(seeds)), key=lambda world: len(world.script))
    tried = (world for world in worlds if len(world.script) > 10)
    return (world.seed for world in tried if not try_moving(world, makers).is_good)


@pytest.mark.parametrize("bug", MOVING_BUGS)
def test_a_bug_of_a_moving_world_is_caught_and_shrunk(bug):
    """Taking away one thing at a time may come to an end early: then the next seed tells more."""
    tried = (shrink(seed, bug) for seed in islice(caught(bug), 2))
    shrunk = next((shrunk for shrunk in tried if shrunk is not None and len(shrunk.steps) <= 10), None)
    assert shrunk is not None
    assert 0 < len(shrunk.steps) < shrunk.steps_before
    assert shrunk.problems


def test_a_still_world_is_shrunk_too(monkeypatch):
    monkeypatch.setattr(Subscriber, "is_clean", lambda self, e: e.number > self.clock[e.topic])
    failed = [seed for seed in fuzz(200).failed if not is_moving(seed)]
    shrunk = shrink(failed[0])
    assert shrunk is not None
    assert len(shrunk.steps) <= 10


def test_a_good_world_cannot_be_shrunk():
    assert shrink(1) is None


def test_a_bug_nobody_planted_is_refused():
    with pytest.raises(ConfigError, match="not a bug of moving worlds"):
        shrink(1, "nonsense")
