"""Tiny worlds of deadline-causal order, searched whole."""

from __future__ import annotations

from unisono.lab.explore_deadline import worlds
from unisono.sim.deadline.judging import CAUSES
from unisono.sim.explore.deadline import explore_deadline
from unisono.testing.planted_bugs import deadline_engines as weak
from unisono.testing.planted_bugs.deadline_table import CAUSE_AND_EFFECT, SAME_SENDER, TWO_NEWS, WRONG_CLOCKS


def test_small_worlds_are_searched_whole_and_keep_every_promise():
    for world in (SAME_SENDER, CAUSE_AND_EFFECT, WRONG_CLOCKS, TWO_NEWS):
        explored = explore_deadline(world)
        assert explored.findings == ()
        assert explored.ends > 10


def test_a_finding_says_how_it_came_about():
    bad = CAUSE_AND_EFFECT.but(make_broker=weak.with_hold(weak.NeverOvertaken), invariants=False)
    (finding,) = [f for f in explore_deadline(bad).findings if f.promise == CAUSES]
    assert finding.explanation == "c was handed e after f, which follows it"
    assert ("publish", "e") in finding.trace
    assert ("round",) in finding.trace


def test_broken_invariants_are_found():
    bad = CAUSE_AND_EFFECT.but(make_broker=weak.with_hold(weak.NeverOvertaken))
    assert any(f.promise == CAUSES for f in explore_deadline(bad).findings)


def test_the_sweep_has_every_relation_of_two_events():
    found = dict(worlds())
    assert len(found) == 192
    assert any(about.endswith("after e") for about in found)
