"""Topic managers: numbers, stamps, transit, idempotence (papers 000 figures 4 and 5, 001)."""

from __future__ import annotations

import pytest
from engine_kit import create, line, publication

from unisono.engines.effects import Announce, Reject, Send
from unisono.engines.inputs import Notified, Received
from unisono.engines.plan import conflict_graph, rank_line
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.errors import FrameError
from unisono.model.frames import Completed, Create, Done, Fill, Nack, Refused, Repair, Sequenced, Stamped
from unisono.model.ids import EventId

PLAN = line("T1", "T2", "T3")
FORWARD = ManagerSettings()
UPWARD = ManagerSettings(stamps="upward")
RETURN = ManagerSettings(mode="return")


def manager(topic: str, settings: ManagerSettings = FORWARD, plan=PLAN) -> TopicManager:
    return TopicManager(topic, plan, settings)


def fill(topic: str, entries: dict[str, int], need: tuple[str, ...], rest: tuple[str, ...] = (), n: int = 1):
    return Received("manager/below", Fill(publication(topic, n), 0, entries, need, rest))


def test_create_takes_a_number_and_climbs():
    effects = manager("T3").handle(create("T3"), 0.0)
    assert effects == [
        Send("manager/T2", Fill(publication("T3"), 0, {"T3": 1}, ("T1", "T2"), ("T1",))),
    ]


def test_fill_writes_the_current_number_without_taking_one():
    middle = manager("T2")
    effects = middle.handle(fill("T3", {"T3": 1}, ("T1", "T2"), ("T1",)), 0.0)
    assert effects == [
        Send("manager/T1", Fill(publication("T3"), 0, {"T3": 1, "T2": 0}, ("T1", "T2"), ())),
    ]
    assert middle.number == 0


def test_full_stamps_carry_what_is_known_of_lower_topics():
    top = manager("T1")
    top.handle(fill("T3", {"T3": 4, "T2": 2}, ("T1", "T2")), 0.0)
    announced = top.handle(create("T1"), 0.0)[0]
    assert announced == Announce(("T1",), Stamped(publication("T1"), 0, {"T1": 1, "T2": 2, "T3": 4}))


def test_upward_stamps_carry_only_own_and_higher_topics():
    top = manager("T1", UPWARD)
    top.handle(fill("T3", {"T3": 4, "T2": 2}, ("T1", "T2")), 0.0)
    assert top.handle(create("T1"), 0.0)[0] == Announce(("T1",), Stamped(publication("T1"), 0, {"T1": 1}))


def test_what_is_known_of_lower_topics_never_goes_back():
    top = manager("T1")
    top.handle(fill("T3", {"T3": 4}, ("T1",)), 0.0)
    top.handle(fill("T3", {"T3": 3}, ("T1",), n=2), 0.0)
    assert top.known_below() == {"T2": 0, "T3": 4}


def test_forward_mode_publishes_tells_the_publisher_and_frees_the_buffers():
    id, entries = EventId("p", 0, 1), {"T2": 1, "T1": 0}
    effects = manager("T1").handle(fill("T2", {"T2": 1}, ("T1",)), 0.0)
    assert effects == [
        Announce(("T2",), Stamped(publication("T2"), 0, entries)),
        Send("p", Sequenced("T2", id, 0, entries)),
        Send("manager/T2", Done(Stamped(publication("T2"), 0, entries))),
    ]


def test_return_mode_gives_the_stamp_back_instead():
    id, entries = EventId("p", 0, 1), {"T2": 1, "T1": 0}
    effects = manager("T1", RETURN).handle(fill("T2", {"T2": 1}, ("T1",)), 0.0)
    assert effects == [
        Send("p", Completed("T2", id, 0, entries)),
        Send("manager/T2", Done(Stamped(publication("T2"), 0, entries))),
    ]


def test_a_transit_manager_passes_events_on_untouched():
    plan = rank_line(conflict_graph([{"T1", "T3"}] * 2 + [{"T1", "X"}] * 2), rank=("T1", "X", "T3"))
    assert plan.path("T3") == ("T3", "X", "T1")
    transit = TopicManager("X", plan)
    effects = transit.handle(fill("T3", {"T3": 1}, ("T1",), ("T1",)), 0.0)
    assert effects == [Send("manager/T1", Fill(publication("T3"), 0, {"T3": 1}, ("T1",), ()))]
    assert transit.known_below() == {}


def test_a_lonely_topic_is_emitted_at_once():
    plan = rank_line(conflict_graph([{"A"}], ["A"]))
    announced, acknowledged = TopicManager("A", plan).handle(create("A"), 0.0)
    assert announced == Announce(("A",), Stamped(publication("A"), 0, {"A": 1}))
    assert acknowledged == Send("p", Sequenced("A", EventId("p", 0, 1), 0, {"A": 1}))


def test_a_repeated_create_in_flight_is_met_with_silence():
    low = manager("T3")
    low.handle(create("T3"), 0.0)
    assert low.handle(create("T3"), 0.0) == []
    assert low.number == 1


def test_a_repeated_create_is_acknowledged_again_and_never_renumbered():
    low, id, entries = manager("T3"), EventId("p", 0, 1), {"T3": 1, "T2": 0, "T1": 0}
    low.handle(create("T3"), 0.0)
    low.handle(Received("manager/T1", Done(Stamped(publication("T3"), 0, entries))), 0.0)
    assert low.handle(create("T3"), 0.0) == [Send("p", Sequenced("T3", id, 0, entries))]
    assert low.number == 1


def test_another_incarnation_is_another_publisher():
    low = manager("T3")
    low.handle(create("T3"), 0.0)
    reborn = publication("T3").__class__("p", 1, 1, "T3")
    assert len(low.handle(Received("p", Create(reborn)), 0.0)) == 1
    assert low.number == 2


def test_what_is_acknowledged_is_forgotten_and_stays_refused():
    top = manager("T1")
    for n in range(1, 6):
        top.handle(create("T1", n), 0.0)
    top.handle(create("T1", 6, acknowledged=5), 0.0)
    assert [n for n, _ in top.seen["p", 0].state()[1]] == [5, 6]
    assert top.handle(create("T1", 2), 0.0) == []
    assert top.number == 6


def test_an_event_acknowledged_before_its_done_arrives_leaves_nothing_behind():
    low = manager("T3")
    low.handle(create("T3", 1), 0.0)
    low.handle(create("T3", 2, acknowledged=2), 0.0)  # the publisher has heard of 1 before its own manager
    for n in (1, 2):
        low.handle(Received("manager/T1", Done(Stamped(publication("T3", n), 0, {"T3": n}))), 0.0)
    assert [n for n, _ in low.seen["p", 0].state()[1]] == [2]


def test_the_window_of_finished_events_is_bounded():
    top = manager("T1", ManagerSettings(seen_max=3))
    for n in range(1, 100):
        top.handle(create("T1", n), 0.0)
    assert len(top.seen["p", 0].state()[1]) == 3
    assert top.handle(create("T1", 1), 0.0) == []


@pytest.mark.parametrize(
    "input",
    [create("T2"), Notified(Stamped(publication("T1"), 0, {"T1": 1}))],
    ids=["another topic", "a notification"],
)
def test_what_is_not_for_a_manager_is_rejected(input):
    top = manager("T1")
    (reject,) = top.handle(input, 0.0)
    assert isinstance(reject, Reject)
    assert isinstance(reject.error, FrameError)
    assert top.number == 0


def test_a_fill_of_another_epoch_is_rejected():
    top = manager("T1")
    (reject,) = top.handle(Received("m", Fill(publication("T2"), 7, {"T2": 1}, ("T1",), ())), 0.0)
    assert isinstance(reject, Reject)
    assert top.known_below() == {"T2": 0, "T3": 0}


def test_a_manager_without_a_ring_answers_that_it_knows_nothing():
    answer = manager("T1").handle(Received("s", Nack("T1", "s", (1,))), 0.0)
    assert answer == [Send("s", Repair("T1", (), (), 0))]


def test_a_twin_is_independent():
    low = manager("T3")
    low.handle(create("T3", 1), 0.0)
    twin = low.copy()
    assert twin.state() == low.state()
    twin.handle(create("T3", 2), 0.0)
    assert (low.number, twin.number) == (1, 2)
    assert twin.state() != low.state()


def test_a_closed_topic_answers_for_what_it_has_and_refuses_the_rest():
    closed = TopicManager("T1", PLAN, FORWARD, {"T1": 1}, is_closed=True)
    stored = Sequenced("T1", publication("T1", 1).id, 0, {"T1": 1})
    closed.remember(stored)
    assert closed.handle(create("T1", 1), 0.0) == [Send(stored.id.publisher, stored)]
    late = publication("T1", 2).id
    refused = Refused("topic 'T1' was deleted", ids=(late,))
    assert closed.handle(create("T1", 2), 0.0) == [Send(late.publisher, refused)]
    assert closed.number == 1
