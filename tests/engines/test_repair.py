"""Repair: how a loss is noticed, asked for, mended or declared, and what is kept for it."""

from __future__ import annotations

import weakref

from engine_kit import beat, create, event, hear, line, repair, subscriber, told

from unisono.engines.effects import Announce, Fail, Lose, Send
from unisono.engines.inputs import TICK, Received
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.ring import Ring
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.errors import GapError
from unisono.model.frames import Heartbeat, Nack


def nacks(effects) -> list[tuple[str, tuple[int, ...]]]:
    return [
        (e.message.topic, e.message.numbers)
        for e in effects
        if isinstance(e, Send) and isinstance(e.message, Nack)
    ]


def asked(*topics: str, **settings):
    """A subscriber that asks after 1 s and then after 2, 4, 8, 8 … s."""
    bounds = {"nack_delay_s": 1.0, "nack_retry_s": 2.0, "nack_retry_s_max": 8.0, **settings}
    return subscriber(*topics, repair=True, **bounds)


# Noticing and asking.


def test_a_gap_is_given_time_to_close_by_itself():
    engine = asked("T1")
    hear(engine, event("T1", 2), now=0.0)
    assert engine.next_timer() == 1.0
    hear(engine, event("T1", 1), now=0.5)
    assert engine.next_timer() is None


def test_a_gap_is_asked_for_with_growing_pauses():
    engine, times = asked("T1"), []
    hear(engine, event("T1", 4), now=0.0)
    for _ in range(5):
        times.append(engine.next_timer())
        assert nacks(engine.handle(TICK, times[-1])) == [("T1", (1, 2, 3))]
    assert times == [1.0, 3.0, 7.0, 15.0, 23.0]


def test_only_what_is_missing_is_asked_for():
    engine = asked("T1")
    hear(engine, event("T1", 2), event("T1", 5), now=0.0)
    assert nacks(engine.handle(TICK, 1.0)) == [("T1", (1, 3, 4))]


def test_no_more_numbers_are_asked_for_at_once_than_allowed():
    engine = asked("T1", nack_numbers_max=2)
    hear(engine, event("T1", 9), now=0.0)
    assert nacks(engine.handle(TICK, 1.0)) == [("T1", (1, 2))]


def test_a_stamp_of_another_topic_betrays_a_loss():
    engine = asked("T1", "T2")
    hear(engine, event("T2", 1, {"T1": 2}), now=0.0)
    assert nacks(engine.handle(TICK, 1.0)) == [("T1", (1, 2))]


def test_a_heartbeat_betrays_a_lost_tail():
    engine = asked("T1")
    hear(engine, event("T1", 1), now=0.0)
    assert engine.handle(beat("T1", 1), 0.0) == []
    assert engine.next_timer() is None
    assert engine.handle(beat("T1", 2), 5.0) == []
    assert nacks(engine.handle(TICK, 6.0)) == [("T1", (2,))]


def test_without_repair_nobody_asks():
    engine = subscriber("T1")
    hear(engine, event("T1", 2))
    engine.handle(beat("T1", 9), 0.0)
    assert engine.next_timer() is None


def test_tag_asks_too_and_what_comes_back_is_late():
    engine = asked("T1", on_gap="tag")
    assert told(hear(engine, event("T1", 2), now=0.0)) == ["T1#2"]
    assert nacks(engine.handle(TICK, 1.0)) == [("T1", (1,))]
    assert told(engine.handle(repair("T1", event("T1", 1), newest=2), 1.5)) == ["T1#1 tagged"]
    assert engine.next_timer() is None


# Mending.


def test_a_repair_fills_the_gap_and_ends_the_asking():
    engine = asked("T1")
    hear(engine, event("T1", 3), now=0.0)
    engine.handle(TICK, 1.0)
    effects = engine.handle(repair("T1", event("T1", 1), event("T1", 2), newest=3), 1.5)
    assert told(effects) == ["T1#1", "T1#2", "T1#3"]
    assert engine.next_timer() is None


def test_wait_goes_on_without_what_is_gone():
    engine = asked("T1", "T2")
    hear(engine, event("T1", 3), event("T2", 1, {"T1": 2}), now=0.0)
    effects = engine.handle(repair("T1", gone=(1, 2), newest=3), 1.5)
    assert effects[0] == Lose("T1", (1, 2))
    assert sorted(told(effects)[2:]) == ["T1#3", "T2#1"]
    assert engine.next_timer() is None


def test_fail_ends_where_wait_would_go_on():
    engine = asked("T1", on_gap="fail")
    hear(engine, event("T1", 4), now=0.0)
    lose, fail = engine.handle(repair("T1", gone=(1, 2), newest=4), 1.5)
    assert lose == Lose("T1", (1, 2))
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, GapError)
    assert str(fail.error) == "subscription 's': events 1-2 of 'T1' are lost"
    assert engine.next_timer() is None


def test_what_came_meanwhile_is_not_declared_lost():
    engine = asked("T1")
    hear(engine, event("T1", 3), event("T1", 2), now=0.0)
    effects = engine.handle(repair("T1", gone=(1, 2), newest=3), 1.5)
    assert told(effects) == ["T1#1 lost", "T1#2", "T1#3"]


def test_what_is_declared_lost_and_comes_after_all_is_ignored():
    engine = asked("T1")
    hear(engine, event("T1", 2), now=0.0)
    engine.handle(repair("T1", gone=(1,), newest=2), 1.0)
    assert hear(engine, event("T1", 1), now=2.0) == []


# Keeping.


def emitting(count: int, ring_events: int) -> TopicManager:
    settings = ManagerSettings(ring_events=ring_events, heartbeat_s=1.0, heartbeat_s_max=4.0)
    manager = TopicManager("T1", line("T1"), settings)
    for n in range(1, count + 1):
        manager.handle(create("T1", n), float(n))
    return manager


def answer(manager: TopicManager, *numbers: int):
    (send,) = manager.handle(Received("s", Nack("T1", "s", numbers)), 9.0)
    assert send.to == "s"
    return [e.number for e in send.message.events], send.message.gone, send.message.newest


def test_a_ring_keeps_the_newest_and_tells_what_is_gone():
    assert answer(emitting(5, ring_events=2), 1, 3, 4, 5) == ([4, 5], (1, 3), 5)


def test_numbers_that_do_not_exist_yet_are_neither_here_nor_gone():
    assert answer(emitting(2, ring_events=2), 0, 2, 3) == ([2], (), 2)


def test_a_ring_holds_no_more_than_its_limit():
    ring, made = Ring(3), []
    for number in range(1, 1000):
        ring.append(number, lambda number=number: made.append(number) or event("T1", number))
    found, gone = ring.find((1, 996, 997, 999))
    assert [e.number for e in found] == [997, 999]
    assert gone == (1, 996)
    assert made == [997, 999], "a stamp is made only for who asks"


def test_silence_is_broken_by_heartbeats_with_growing_pauses():
    manager, times = emitting(3, ring_events=2), []
    for _ in range(4):
        times.append(manager.next_timer())
        effects = manager.handle(TICK, times[-1])
        assert effects == [Announce(("T1",), Heartbeat("T1", 0, 3))]
    assert times == [4.0, 6.0, 10.0, 14.0]


def test_an_event_starts_the_silence_anew():
    manager = emitting(3, ring_events=2)
    manager.handle(TICK, 4.0)
    manager.handle(create("T1", 4), 4.5)
    assert manager.next_timer() == 5.5


def test_without_a_ring_there_are_no_heartbeats():
    assert emitting(3, ring_events=0).next_timer() is None


def test_what_had_to_go_is_held_by_nobody():
    class Held:
        def __call__(self, number):
            return event("T1", number)

    ring, held = Ring(3), [Held() for _ in range(20)]
    for number, one in enumerate(held, 1):
        ring.append(number, one)
    gone = [weakref.ref(one) for one in held[:17]]
    del held, one
    assert all(ref() is None for ref in gone)
    assert ring.find((17, 18))[1] == (17,)
