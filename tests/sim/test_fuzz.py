"""Fuzzing: seeds are judged, counted and replayed."""

from __future__ import annotations

from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.lab.fuzz import fuzz, replay


def test_three_hundred_worlds_keep_every_promise():
    told: list[tuple[int, int]] = []
    result = fuzz(300, progress=lambda done, failed: told.append((done, failed)))
    assert result.is_good, result.explanation
    assert result.seeds == 300
    assert result.repeated == 5
    assert told[-1] == (300, 0)


def test_the_worlds_are_of_every_kind():
    worlds = fuzz(200, start=10_000).worlds
    wanted = ("loss", "duplication", "re-ordering", "bounded buffers", "colocated", "forest", "line")
    assert all(worlds[kind] >= 20 for kind in wanted)
    rarer = ("upward stamps", "return mode", "small rings", "late joiners", "causal publishers", "replies")
    assert all(worlds[kind] >= 5 for kind in rarer)


def test_the_first_failure_is_explained(monkeypatch):
    monkeypatch.setattr(Subscriber, "is_clean", lambda self, e: e.number > self.clock[e.topic])
    result = fuzz(300)
    assert not result.is_good
    assert result.first is not None
    assert result.explanation.startswith(f"seed {result.first.seed}: ")


def test_a_replay_tells_every_step_in_a_line():
    lines = replay(1)
    assert lines == replay(1)
    assert any(" deliver" in line for line in lines)
    assert all("\n" not in line for line in lines)
