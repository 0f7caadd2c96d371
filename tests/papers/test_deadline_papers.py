"""Paper 004 to the letter, beside what holds: each of its slips in its smallest form."""

from __future__ import annotations

from unisono.engines.deadline_causal import literal
from unisono.engines.deadline_causal.colours import Palette, colours_needed
from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.holdback import Deliver, HoldBack
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import HybridClock
from unisono.model.frames import Publication


def test_figure_5_del_ok_delivers_the_second_message_of_a_sender_first():
    """MB2 before MB3, and Del_ok without x = j: m2 says nothing about m1, and m1, in time, is discarded after it."""
    m1, m2 = {("a", "b"): 10}, {("a", "b"): 20}
    known: dict[tuple[str, str], int] = {}
    assert literal.del_ok(known, m2, "a", "b")
    known |= m2
    assert literal.del_viol_co(known, m1, "a", "b")

    hold = HoldBack(CausalSettings(round_s=1.0), {"b"})
    first = Event("a", "b", 10, 30, {}, Publication("a", 0, 1, "b"))
    second = Event("a", "b", 20, 30, {("a", "b"): 10}, Publication("a", 0, 2, "b"))
    assert hold.take([second], 0) == []
    assert hold.take([first], 0) == [Deliver(first), Deliver(second)]


def test_figure_5_del_viol_co_discards_the_second_message_of_a_tick():
    """MB1 takes the clock as it is: two messages of one tick have one stamp."""
    known = {("a", "b"): 10}
    assert literal.del_viol_co(known, {("a", "b"): 10}, "a", "b")
    clock = HybridClock()
    assert clock.next(10) < clock.next(10)


def test_figure_5_logical_deadline_is_missed_by_who_looks_a_moment_later():
    assert literal.logical_deadline_reached(5, [5, 7])
    assert not literal.logical_deadline_reached(6, [5, 7])


def test_too_late_is_written_with_and_in_the_text_and_with_or_in_figure_5():
    """Late alone is enough: with `and`, what nobody has overtaken is delivered after its deadline."""
    late = {"deadline": 3, "now": 4, "mark": 2, "known": 1}
    assert not literal.too_late_in_the_text(**late)
    assert literal.too_late_in_the_figure(**late)


def test_log_n_plus_alpha_colours_take_an_old_message_for_a_new_one():
    """Section 2.2: two rounds and three colours. red_B1 that lingers for one round too long is read as red_B3."""
    red_b1, red_b3 = 1, 4
    paper = Palette(literal.colours(2, 1))
    assert paper.colour(red_b1) == paper.colour(red_b3)
    assert paper.round(paper.colour(red_b1), red_b3) == red_b3
    enough = Palette(colours_needed(lifetime=2, linger=1, skew=0))
    assert enough.round(enough.colour(red_b1), red_b3) == red_b1


def test_log_n_plus_alpha_colours_take_a_message_of_a_clock_ahead_for_an_old_one():
    """A broker one round ahead sends in round 5 what we read in round 4: without room for it, it is of round 2."""
    paper = Palette(literal.colours(2, 1), skew=0)
    assert paper.round(paper.colour(5), 4) == 2
    enough = Palette(colours_needed(lifetime=2, linger=0, skew=1), skew=1)
    assert enough.round(enough.colour(5), 4) == 5
