"""Publishers: requests, acknowledgements, return mode, and causes before effects."""

from __future__ import annotations

from engine_kit import publication

from unisono.engines.effects import Acknowledge, Announce, Reject, Send
from unisono.engines.inputs import TICK, Controlled, Lost, Publish, Received, Suspected
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.topic_managers.publisher import Publisher
from unisono.model.frames import Completed, Create, Publication, Sequenced, Stamped
from unisono.model.ids import EventId


def publish(*topics_and_n: tuple[str, int]) -> Publish:
    return Publish([publication(topic, n) for topic, n in topics_and_n])


def sequenced(topic: str, n: int, number: int = 1) -> Sequenced:
    return Sequenced(topic, EventId("p", 0, n), 0, {topic: number})


def request(topic: str, n: int, acknowledged: int, after: int = 0) -> Send:
    return Send(f"manager/{topic}", Create(publication(topic, n), acknowledged, after))


def test_every_publication_is_sent_to_its_manager_at_once():
    effects = Publisher().handle(publish(("A", 1), ("B", 2)), 0.0)
    assert effects == [request("A", 1, 1), request("B", 2, 1)]


def test_the_lowest_unanswered_n_travels_along():
    engine = Publisher()
    engine.handle(publish(("A", 1), ("A", 2)), 0.0)
    engine.handle(Received("m", sequenced("A", 1)), 0.0)
    assert engine.handle(publish(("A", 3)), 0.0) == [request("A", 3, 2, after=2)]


def test_an_answer_acknowledges_once():
    engine = Publisher()
    engine.handle(publish(("A", 1)), 0.0)
    answer = sequenced("A", 1)
    assert engine.handle(Received("m", answer), 0.0) == [Acknowledge(answer)]
    assert engine.handle(Received("m", answer), 0.0) == []


def test_return_mode_publishes_the_stamp_that_came_back_and_only_once():
    engine = Publisher()
    engine.handle(publish(("A", 1)), 0.0)
    completed = Completed("A", EventId("p", 0, 1), 0, {"A": 1, "B": 4})
    assert engine.handle(Received("m", completed), 0.0) == [
        Announce(("A",), Stamped(publication("A"), 0, {"A": 1, "B": 4})),
        Acknowledge(Sequenced("A", EventId("p", 0, 1), 0, {"A": 1, "B": 4})),
    ]
    assert engine.handle(Received("m", completed), 0.0) == []


def test_a_causal_publisher_waits_for_its_place_before_it_changes_lanes():
    engine = Publisher(causal=True)
    assert engine.handle(publish(("A", 1), ("B", 2), ("A", 3)), 0.0) == [request("A", 1, 1)]
    engine.check()
    assert engine.handle(Received("m", sequenced("A", 1)), 0.0)[1:] == [request("B", 2, 2)]
    assert engine.handle(Received("m", sequenced("B", 2)), 0.0)[1:] == [request("A", 3, 3)]


def test_a_causal_publisher_pipelines_within_a_lane():
    engine = Publisher(causal=True)
    assert engine.handle(publish(("A", 1), ("A", 2)), 0.0) == [
        request("A", 1, 1),
        request("A", 2, 1, after=1),
    ]


def test_a_lane_may_hold_many_topics():
    engine = Publisher(causal=True, lane=lambda topic: topic[0])
    effects = engine.handle(publish(("a.x", 1), ("a.y", 2), ("b.x", 3)), 0.0)
    assert effects == [request("a.x", 1, 1), request("a.y", 2, 1)]


def test_what_is_not_for_a_publisher_is_rejected():
    (reject,) = Publisher().handle(Suspected("node"), 0.0)
    assert isinstance(reject, Reject)


def test_a_twin_is_independent():
    engine = Publisher(causal=True)
    engine.handle(publish(("A", 1), ("B", 2)), 0.0)
    twin = engine.copy()
    assert twin.state() == engine.state()
    twin.handle(Received("m", sequenced("A", 1)), 0.0)
    assert [p.n for p in engine.outgoing] == [1]
    assert [p.n for p in twin.outgoing] == [2]


def test_an_answer_to_a_former_life_acknowledges_nothing():
    engine = Publisher()
    engine.handle(Publish([Publication("p", 1, 1, "A")]), 0.0)
    assert engine.handle(Received("m", sequenced("A", 1)), 0.0) == []
    assert 1 in engine.outgoing


def test_what_a_lost_life_was_told_is_told_again():
    engine = Publisher()
    engine.handle(publish(("A", 1)), 0.0)
    assert engine.handle(Lost("m", ()), 0.1) == [request("A", 1, 1)]


def test_answers_about_one_topic_do_not_put_off_what_is_late_on_another():
    """The node of A was not ready and dropped its event; B does well for ever."""
    engine = Publisher(resend_s=1.0)
    plan = next_plan(Intent("line", ("A", "B")), (), threshold=2, epoch=0)
    engine.handle(Controlled(first_control(plan, {"A": "n1", "B": "n2"}, ("n1", "n2"))), 0.0)
    engine.handle(publish(("A", 1)), 0.0)
    now, again = 0.0, []
    for n in range(2, 30):
        now += 0.1
        engine.handle(publish(("B", n)), now)
        engine.handle(Received("n2", sequenced("B", n, n)), now)
        if engine.next_timer() <= now:
            again += engine.handle(TICK, now)
    assert [effect.message.message.publication.n for effect in again] == [1, 1]  # after 1 s, and 1 s more
    engine.handle(Received("n1", sequenced("A", 1)), now)
    assert engine.handle(TICK, now + 9) == []
    assert engine.next_timer() is None
