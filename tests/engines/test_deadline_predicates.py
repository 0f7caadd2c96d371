"""The decisions of deadline-causal order, one by one, and the colours of rounds."""

from __future__ import annotations

import pytest

from unisono.engines.deadline_causal.colours import Palette, colours_needed, safe_palette
from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.holdback import (
    AHEAD,
    BEFORE,
    LONG,
    OVERTAKEN,
    TOO_LATE,
    Discard,
    HoldBack,
)
from unisono.engines.deadline_causal.predicates import (
    is_deliverable,
    is_too_late,
    logical_deadlines,
    precedes,
    violates_causal_order,
)
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import (
    HybridClock,
    Past,
    forget,
    merge,
    minor_of,
    round_of,
    stamp_of,
)
from unisono.model.errors import ConfigError
from unisono.model.frames import Publication

SETTINGS = CausalSettings(round_s=1.0, lifetime=10, skew=1, reserve=0)


def event(
    broker: str, n: int, last: int = 9, past: Past | None = None, topic: str = "T", round: int = 1
) -> Event:
    return Event(broker, topic, stamp_of(round, n), last, past or {}, Publication(broker, 0, n, topic))


def after(*causes: Event) -> Past:
    past: Past = {}
    for cause in causes:
        merge(past, cause.past)
        merge(past, {cause.stream: cause.stamp})
    return past


A1 = event("a", 1)
A2 = event("a", 2, past=after(A1))
B1 = event("b", 1, past=after(A1), topic="U")


def test_deliverable_when_all_of_the_past_that_comes_here_is_behind_us():
    assert is_deliverable(A1, {}, {"T"})
    assert not is_deliverable(B1, {}, {"T", "U"})
    assert is_deliverable(B1, {}, {"U"}), "what was sent to others is not waited for"
    assert is_deliverable(B1, after(A1), {"T", "U"})


def test_the_former_event_of_the_same_sender_is_a_cause():
    assert not is_deliverable(A2, {}, {"T"})
    assert precedes(A1, A2)
    assert not precedes(A2, A1)


def test_what_nobody_can_deliver_any_more_is_not_waited_for():
    assert is_deliverable(A2, {}, {"T"}, oldest=A1.stamp + 1)
    assert not is_deliverable(A2, {}, {"T"}, oldest=A1.stamp)


def test_the_logical_deadline_is_that_of_the_most_urgent_effect():
    urgent, easy = event("b", 2, 4, after(A1)), event("b", 3, 7, after(A1))
    assert logical_deadlines([A1, easy]) == {A1.key: 7, easy.key: 7}
    assert logical_deadlines([A1, easy, urgent]) == {A1.key: 4, easy.key: 7, urgent.key: 4}


def test_the_logical_deadline_is_that_of_effects_of_effects_though_their_pasts_do_not_name_it():
    former = event("b", 2, past=after(A1))
    moved = event("c", 3, 4, {former.stream: former.stamp})  # by the same publisher, through another broker
    assert logical_deadlines([A1, former, moved])[A1.key] == 4


def test_too_late_is_after_the_last_round():
    assert not is_too_late(A1, 9)
    assert is_too_late(A1, 10)


def test_an_event_that_is_behind_us_violates_the_order():
    assert not violates_causal_order(A1, {})
    assert violates_causal_order(A1, after(A1))
    assert violates_causal_order(A1, after(A2))


def test_stamps_increase_within_a_round_and_beyond_what_was_seen():
    clock = HybridClock()
    first, second = clock.next(3), clock.next(3)
    assert (round_of(first), minor_of(first), minor_of(second)) == (3, 1, 2)
    clock.observe(stamp_of(5, 7))
    assert clock.next(4) == stamp_of(5, 8), "an effect is stamped after its cause, whatever the clock says"
    assert clock.next(6) == stamp_of(6, 1)


def test_what_is_too_old_is_forgotten():
    known = after(A1) | {("c", "T"): stamp_of(8, 1)}
    forget(known, stamp_of(2, 0))
    assert known == {("c", "T"): stamp_of(8, 1)}


@pytest.mark.parametrize(
    ("lifetime", "linger", "skew"), [(2, 0, 0), (2, 1, 0), (2, 1, 1), (5, 2, 1), (40, 0, 1)]
)
def test_the_bound_on_colours_is_enough_and_the_least(lifetime: int, linger: int, skew: int):
    def is_read(palette: Palette) -> bool:
        return all(
            palette.round(palette.colour(round), now) == round
            for now in range(100, 200)
            for round in range(now - lifetime - linger, now + skew + 1)
        )

    needed = colours_needed(lifetime, linger, skew)
    assert is_read(Palette(needed, skew))
    assert not any(is_read(Palette(fewer, skew)) for fewer in range(1, needed))
    assert safe_palette(lifetime, linger, skew).colours == needed
    with pytest.raises(ConfigError, match=f"{needed} are needed"):
        safe_palette(lifetime, linger, skew, needed - 1)


def test_settings_that_leave_no_time_are_refused():
    with pytest.raises(ConfigError, match="leaves no time"):
        CausalSettings(lifetime=3, reserve=2, skew=1)


def test_the_last_round_is_over_before_the_deadline_by_any_clock():
    assert SETTINGS.last_round(7.5) == 5  # rounds 0 to 5 end at 6.0; a clock behind by a round shows 7.0 then
    assert SETTINGS.last_round(7.0) == 5


def names(outcomes: list) -> list[str]:
    return [
        f"{o.event.broker}{minor_of(o.event.stamp)}" + (f" {o.reason}" if isinstance(o, Discard) else "")
        for o in outcomes
    ]


def test_an_event_waits_for_its_past_and_goes_with_it():
    hold = HoldBack(SETTINGS, {"T", "U"})
    assert names(hold.take([B1], 1)) == []
    assert hold.wanted(1) == {A1.stream: A1.stamp}
    assert names(hold.take([A1], 2)) == ["a1", "b1"]
    assert names(hold.take([A1], 2)) == [], "a second copy is nothing new"


def test_at_the_deadline_it_goes_alone_and_its_cause_is_overtaken():
    hold = HoldBack(SETTINGS, {"T", "U"})
    hold.take([event("b", 1, 5, after(A1), "U")], 1)
    assert names(hold.pump(4)) == []
    assert names(hold.pump(5)) == ["b1"]
    assert names(hold.take([A1], 5)) == [f"a1 {OVERTAKEN}"]


def test_causes_that_are_here_go_before_the_effect_that_must():
    hold = HoldBack(SETTINGS, {"T"})
    m2 = event("b", 1, 9, after(A1))
    m3 = event("c", 1, 5, after(m2))
    assert names(hold.take([m3], 2)) == names(hold.take([m2], 3)) == []
    assert names(hold.pump(5)) == ["b1", "c1"]


def test_what_comes_together_is_not_overtaken_by_each_other():
    hold = HoldBack(SETTINGS, {"T", "U"})
    assert names(hold.take([event("b", 1, 5, after(A1), "U"), A1], 5)) == ["a1", "b1"]


def test_what_is_dropped_is_dropped_for_a_reason():
    hold = HoldBack(SETTINGS, {"U"})
    assert names(hold.take([event("a", 1, 3, topic="U")], 4)) == [f"a1 {TOO_LATE}"]
    assert names(hold.take([event("c", 1, 30, topic="U", round=20)], 4)) == [f"c1 {AHEAD}"]
    assert names(hold.take([event("d", 1, 30, topic="U")], 4)) == [f"d1 {LONG}"]
    assert names(hold.take([B1], 4)) == ["b1"]
    hold.join(["T"])
    assert names(hold.take([A1], 4)) == [f"a1 {BEFORE}"]


def test_who_sleeps_over_the_moment_delivers_nothing_late():
    hold = HoldBack(SETTINGS, {"T"})
    hold.take([A2], 2)
    assert names(hold.pump(10)) == ["a2 stalled"]


def test_what_is_left_of_a_topic_is_dropped_when_it_is_not_wanted_any_more():
    hold = HoldBack(SETTINGS, {"T", "U"})
    hold.take([A2], 2)
    hold.take([B1], 2)
    assert names(hold.leave(["T"], 2)) == ["a2 left", "b1"]
    hold.check()
