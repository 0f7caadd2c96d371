"""The playground: what it shows is what the engines do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.history import Outcome, judge
from unisono.lab.playground import SUBSCRIBERS, Knobs, disagreeing, play, world_of
from unisono.sim.simulation import Simulation


def heard(side):
    return [[h.event for h in side.heard[name]] for name in SUBSCRIBERS]


def test_without_ordering_they_disagree_and_with_it_they_do_not():
    told = play(Knobs(delay_ms=240, every_ms=80))
    assert told.without.disagreements > 10
    assert any(h.disagrees for h in told.without.heard["anna"])
    assert "anna heard" in told.without.words
    anna, bruno = heard(told.ordered)
    assert anna == bruno
    assert len(anna) == told.published == 60
    assert (told.ordered.disagreements, told.ordered.words, told.ordered.missed) == (0, "", 0)


def test_both_sides_are_of_one_run():
    told = play(Knobs(loss=0.0))
    for bare, ordered in zip(heard(told.without), heard(told.ordered), strict=True):
        assert sorted(bare) == sorted(ordered)


@pytest.mark.parametrize("on_gap", ["wait", "tag", "skip"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_total_order_holds_whatever_the_network_does(on_gap, loss):
    for seed in range(8):
        told = play(Knobs(delay_ms=400, loss=loss, on_gap=on_gap, buffer=4, seed=seed, events=40))
        assert told.ordered.disagreements == 0
        assert on_gap != "wait" or told.ordered.missed == 0
        assert on_gap == "tag" or told.ordered.tagged == 0


def test_what_is_promised_less_is_shown_to_be_less():
    fifo = [play(Knobs(guarantee="fifo", delay_ms=400, seed=seed)).ordered.disagreements for seed in range(5)]
    assert sum(fifo) > 0


def test_a_calm_network_needs_no_cure():
    told = play(Knobs(delay_ms=0))
    assert told.without.disagreements == told.ordered.disagreements == 0


def test_a_seed_decides_everything():
    assert play(Knobs(seed=3, loss=0.1)) == play(Knobs(seed=3, loss=0.1))
    assert play(Knobs(seed=3)).without != play(Knobs(seed=4)).without


def test_the_judge_of_histories_agrees():
    ending = Simulation(world_of(Knobs(delay_ms=400, loss=0.2))).run()
    (verdict,) = judge(ending.records, ("total_notification_order",))
    assert verdict.outcome is Outcome.HELD
    assert not ending.faults


@given(st.permutations(range(8)), st.permutations(range(8)), st.integers(0, 8))
def test_disagreements_are_counted_and_the_fewest_are_marked(one, other, gone):
    first, second = [str(e) for e in one], [str(e) for e in other[gone:]]
    pairs, wrong = disagreeing(first, second)
    place = {event: i for i, event in enumerate(first)}
    naive = sum(place[a] > place[b] for i, a in enumerate(second) for b in second[i + 1 :])
    assert pairs == naive
    rest = [event for event in second if event not in wrong]
    assert disagreeing(first, rest) == (0, set())
    assert bool(wrong) == bool(pairs)
