"""Subscribers: each policy at a gap, what is ignored, what is rejected, and every bound (000, 001, A.7.6)."""

from __future__ import annotations

import pytest
from engine_kit import event, hear, subscriber, told

from unisono.engines.effects import Deliver, Drop, Fail, Reject
from unisono.engines.inputs import TICK, Notified, Publish
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.errors import ConfigError, FrameError, GapError, StampError
from unisono.model.frames import Run

POLICIES = [
    {"on_gap": "wait"},
    {"on_gap": "fail"},
    {"on_gap": "fail", "max_hold": 1.0},
    {"on_gap": "tag"},
    {"on_gap": "tag", "buffer": 2},
    {"on_gap": "tag", "max_hold": 1.0},
    {"on_gap": "skip"},
    {"on_gap": "skip", "buffer": 2},
]

# T2 waits for T1#1; T1#2 waits for both.
A, B, C = event("T1", 1, {"T2": 0}), event("T2", 1, {"T1": 1}), event("T1", 2, {"T2": 1})


@pytest.mark.parametrize("settings", POLICIES, ids=str)
def test_what_comes_in_order_is_delivered_at_once(settings):
    assert told(hear(subscriber("T1", "T2", **settings), A, B, C)) == ["T1#1", "T2#1", "T1#2"]


@pytest.mark.parametrize("settings", POLICIES, ids=str)
def test_what_comes_twice_is_delivered_once(settings):
    engine = subscriber("T1", "T2", **settings)
    assert told(hear(engine, A, A, B, B, A, C, C, B)) == ["T1#1", "T2#1", "T1#2"]


@pytest.mark.parametrize("settings", POLICIES, ids=str)
def test_what_is_late_is_settled_once(settings):
    engine = subscriber("T1", "T2", **settings)
    first = hear(engine, B, C, A, now=0.0)
    assert told(hear(engine, A, B, C, now=0.0)) == []
    assert len(told(first)) == 3


@pytest.mark.parametrize("settings", POLICIES, ids=str)
def test_events_before_the_join_are_ignored(settings):
    engine = subscriber(floors={"T1": 5}, **settings)
    assert hear(engine, *(event("T1", n) for n in range(1, 6))) == []
    assert told(hear(engine, event("T1", 6))) == ["T1#6"]


def test_topics_of_others_are_ignored_in_events_and_in_stamps():
    engine = subscriber("T1")
    assert hear(engine, event("T9", 1)) == []
    assert told(hear(engine, event("T1", 1, {"T9": 700}))) == ["T1#1"]


# wait


def test_wait_holds_the_next_of_its_topic_until_all_it_follows_is_here():
    engine = subscriber("T1", "T2")
    assert told(hear(engine, C, B)) == []
    assert told(hear(engine, A)) == ["T1#1", "T2#1", "T1#2"]
    assert len(engine.held) == 0


def test_wait_never_expires():
    engine = subscriber("T1", "T2")
    hear(engine, B)
    assert engine.next_timer() is None
    assert engine.handle(TICK, 1e9) == []


# tag


def test_tag_without_a_buffer_delivers_at_once_and_tags_what_is_behind():
    engine = subscriber("T1", "T2", on_gap="tag")
    assert told(hear(engine, C, A, B)) == ["T1#2", "T1#1 tagged", "T2#1 tagged"]


def test_tag_needs_every_common_entry_not_just_a_larger_one():
    """000's Definition 3 would let b pass untagged (CE-1)."""
    c, b = event("T3", 1, {"T2": 1}), event("T2", 1, {"T1": 1})
    assert told(hear(subscriber("T1", "T2", "T3", on_gap="tag"), c, b)) == ["T3#1", "T2#1 tagged"]


def test_tag_with_a_buffer_waits_until_it_overflows():
    engine = subscriber("T1", on_gap="tag", buffer=2)
    assert told(hear(engine, event("T1", 3), event("T1", 4))) == []
    assert told(hear(engine, event("T1", 6))) == ["T1#3", "T1#4"]
    assert told(hear(engine, event("T1", 1))) == ["T1#1 tagged"]


def test_tag_with_a_buffer_lets_predecessors_go_first():
    engine = subscriber("T1", "T2", on_gap="tag", buffer=2)
    follows = event("T2", 2, {"T1": 3})
    assert told(hear(engine, follows, event("T1", 3, {"T2": 0}))) == []
    assert told(hear(engine, event("T1", 9, {"T2": 5}))) == ["T1#3"]
    assert [held.event for held in engine.held] == [follows, event("T1", 9, {"T2": 5})]


def test_forcing_an_event_takes_along_all_it_follows_in_order():
    engine = subscriber("T1", "T2", on_gap="tag", max_hold=1.0)
    hear(engine, event("T2", 2, {"T1": 3}), now=0.0)
    hear(engine, event("T1", 3, {"T2": 0}), event("T1", 2, {"T2": 0}), now=0.5)
    assert engine.next_timer() == 1.0
    assert told(engine.handle(TICK, 1.0)) == ["T1#2", "T1#3", "T2#2"]
    engine.check()


def test_max_hold_counts_from_each_arrival():
    engine = subscriber("T1", on_gap="tag", max_hold=1.0)
    hear(engine, event("T1", 2), now=0.0)
    hear(engine, event("T1", 4), now=0.3)
    assert engine.handle(TICK, 0.9) == []
    assert told(engine.handle(TICK, 1.0)) == ["T1#2"]
    assert engine.next_timer() == 1.3
    assert told(engine.handle(TICK, 1.3)) == ["T1#4"]
    assert engine.next_timer() is None


def test_what_becomes_late_in_the_buffer_is_tagged_there_and_then():
    engine = subscriber("T1", "T2", on_gap="tag", max_hold=1.0)
    hear(engine, event("T2", 3, {"T1": 5}), now=0.0)
    hear(engine, event("T1", 4, {"T2": 1}), now=0.5)
    # T1#4 precedes T2#3 by its stamp, so it goes first and nothing needs a tag.
    assert told(engine.handle(TICK, 1.0)) == ["T1#4", "T2#3"]


# skip


def test_skip_goes_on_and_drops_what_comes_late():
    engine = subscriber("T1", "T2", on_gap="skip")
    effects = hear(engine, C, A)
    assert told(effects) == ["T1#2", "T1#1 dropped"]
    assert effects[-1] == Drop(A, "came too late for its place")
    assert told(hear(engine, B, event("T1", 3, {"T2": 1}))) == ["T2#1 dropped", "T1#3"]


# fail


def test_fail_holds_like_wait_while_there_is_time():
    engine = subscriber("T1", "T2", on_gap="fail", max_hold=1.0)
    hear(engine, B, now=0.0)
    assert told(hear(engine, A, now=0.9)) == ["T1#1", "T2#1"]
    assert engine.next_timer() is None


def test_fail_ends_with_a_gap_error_after_max_hold_and_stays_ended():
    engine = subscriber("T1", "T2", on_gap="fail", max_hold=1.0)
    hear(engine, B, now=0.0)
    (fail,) = engine.handle(TICK, engine.next_timer())
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, GapError)
    assert str(fail.error) == "subscription 's': event p-T2/0/1 waited 1.0 s for an event of 'T1'"
    assert engine.next_timer() is None
    assert hear(engine, A) == []


# What makes no sense.


def rejected(engine: Subscriber, bad) -> type[Exception]:
    """The kind of error, after checking that nothing else happened and nothing changed."""
    before = engine.state()
    (reject,) = engine.handle(Notified(bad), 0.0)
    assert isinstance(reject, Reject)
    assert engine.state() == before
    return type(reject.error)


@pytest.mark.parametrize("settings", POLICIES, ids=str)
@pytest.mark.parametrize(
    "bad",
    [
        event("T1", 1, {"T2": 0}, epoch=7),
        event("T1", 0, {"T2": 0}),
        event("T1", 1, {"T2": -1}),
        event("T1", 1),
        event("T1", 1, {"T2": 0, "T3": 0}),
        event("T1", 1_000_000, {"T2": 0}),
        event("T1", 1, {"T2": 1_000_000}),
    ],
    ids=[
        "other epoch",
        "no number",
        "negative",
        "truncated",
        "extra entry",
        "far ahead",
        "far ahead elsewhere",
    ],
)
def test_forged_stamps_are_rejected_and_change_nothing(settings, bad):
    engine = Subscriber(
        "s",
        {"T1": 0, "T2": 0},
        SubscriberSettings(repair=True, **settings),
        group=lambda _: frozenset({"T1", "T2"}),
    )
    assert rejected(engine, bad) is StampError
    assert told(hear(engine, A, B, C)) == ["T1#1", "T2#1", "T1#2"]


def test_two_events_with_one_number_are_told_apart_while_one_is_held():
    engine = subscriber("T1", "T2")
    hear(engine, B)
    other = event("T2", 1, {"T1": 2})
    assert rejected(engine, other) is StampError
    assert told(hear(engine, A)) == ["T1#1", "T2#1"]


def test_a_run_of_another_epoch_is_rejected():
    run = Run(3, {"T1": 0}, [0], {"T1": ("T1",)}, [A.publication], {"T1": 1})
    assert rejected(subscriber("T1"), run) is StampError


def test_what_is_not_for_a_subscriber_is_rejected():
    (reject,) = subscriber("T1").handle(Publish([]), 0.0)
    assert isinstance(reject.error, FrameError)


# Bounds.


def test_hold_max_without_repair_ends_the_subscription():
    engine = subscriber("T1", "T2", "T3", hold_max=2)
    hear(engine, event("T1", 2), event("T2", 2))
    (fail,) = engine.handle(Notified(event("T3", 2)), 0.0)
    assert isinstance(fail, Fail)
    assert "more than 2 events are held back" in str(fail.error)


def test_a_subscription_that_fails_within_a_run_says_so_once():
    topics = ("T1", "T2", "T3", "T4")
    publications = [event(topic, 2).publication for topic in topics]
    index, groups = {t: i for i, t in enumerate(topics)}, {t: (t,) for t in topics}
    run = Run(0, index, [1] * 4, groups, publications, dict.fromkeys(topics, 1))
    (fail,) = subscriber(*topics, hold_max=2).handle(Notified(run), 0.0)
    assert isinstance(fail, Fail)


def test_hold_max_with_repair_drops_what_will_be_asked_for_again():
    engine = subscriber("T1", "T2", "T3", hold_max=2, repair=True)
    assert hear(engine, event("T1", 2), event("T2", 2), event("T3", 2)) == []
    assert len(engine.held) == 2
    assert told(hear(engine, event("T1", 1), event("T2", 1))) == ["T1#1", "T1#2", "T2#1", "T2#2"]
    assert told(hear(engine, event("T3", 1), event("T3", 2))) == ["T3#1", "T3#2"]


def test_the_next_of_a_topic_always_has_room():
    engine = subscriber("T1", "T2", hold_max=1)
    hear(engine, event("T2", 1, {"T1": 1}))
    assert told(hear(engine, event("T1", 1))) == ["T1#1", "T2#1"]


def test_late_window_gives_up_the_oldest_hole_and_says_so():
    engine = subscriber("T1", on_gap="tag", late_window=2)
    assert told(hear(engine, event("T1", 2), event("T1", 4))) == ["T1#2", "T1#4"]
    assert told(hear(engine, event("T1", 6))) == ["T1#1 lost", "T1#6"]
    assert told(hear(engine, event("T1", 1))) == []
    assert told(hear(engine, event("T1", 3))) == ["T1#3 tagged"]


def test_deliveries_of_one_input_come_in_one_effect():
    engine = subscriber("T1")
    second, third = event("T1", 2), event("T1", 3)
    hear(engine, third, second)
    assert hear(engine, event("T1", 1)) == [Deliver([event("T1", 1), second, third])]


@pytest.mark.parametrize(
    "settings",
    [
        {"on_gap": "wait", "buffer": 1},
        {"on_gap": "wait", "max_hold": 1.0},
        {"on_gap": "fail", "buffer": 1},
        {"on_gap": "fail", "stamps": "upward"},
        {"on_gap": "tag", "buffer": -1},
    ],
    ids=str,
)
def test_contradictory_settings_are_refused(settings):
    with pytest.raises(ConfigError):
        SubscriberSettings(**settings)


@pytest.mark.parametrize("settings", POLICIES, ids=str)
def test_a_twin_is_independent(settings):
    engine = subscriber("T1", "T2", **settings)
    hear(engine, B)
    twin = engine.copy()
    assert twin.state() == engine.state()
    before = engine.state()
    hear(twin, A, C)
    assert engine.state() == before
