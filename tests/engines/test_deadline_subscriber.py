"""Subscribers: colours, gossip among them, publishing through a broker, several topics, moving."""

from __future__ import annotations

import msgspec
from deadline_kit import SETTINGS, Room, brokers

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.effects import NO_ANSWER, NO_ROOM, Accept, Heard, Move, Refuse
from unisono.engines.deadline_causal.events import Event
from unisono.engines.deadline_causal.frames import Coloured, Have, Multicast, News, Submit, Submitted
from unisono.engines.deadline_causal.stamps import stamp_of
from unisono.engines.deadline_causal.subscriber import BUNDLE_MAX, Subscriber
from unisono.engines.deadline_causal.wire import order_bytes, read_news, write_news
from unisono.engines.inputs import TICK, Change
from unisono.model.frames import Publication


def seated(*subscribers: tuple[str, str, str], names: str = "ab", topics: str = "T U") -> Room:
    """Brokers, and subscribers (name, broker, topics) that have sat down."""
    room = Room(
        brokers(names, topics)
        | {name: Subscriber(name, broker, SETTINGS, wanted.split()) for name, broker, wanted in subscribers}
    )
    for name, _, _ in subscribers:
        room.do(name, TICK)
    return room


def test_events_go_from_broker_to_broker_to_subscribers_of_their_topic():
    room = seated(("s", "a", "T"), ("t", "b", "T U"))
    room.say("a", "T", "one")
    room.say("b", "U", "two")
    assert room.told["s"] == ["one"]
    assert room.told["t"] == ["one", "two"]


def test_what_goes_to_subscribers_is_read_back_as_it_was():
    past = {("a", "T"): stamp_of(30, 2), ("b", "U"): stamp_of(12, 1), ("c", "T"): stamp_of(3, 9)}
    event = Event("a", "U", stamp_of(31, 1), 40, past, Publication("a", 0, 1, "U"))
    news = write_news([event], SETTINGS.palette, 31, SETTINGS.oldest_told(31))
    (again,) = read_news(news, SETTINGS.palette)
    del past["c", "T"]  # too old to be waited for
    assert again == msgspec.structs.replace(event, past=past)


def test_a_frame_whose_table_is_too_short_is_not_read():
    bad = News(1, (("a", "T"),), (Coloured(0, 1, 1, 5, (3, 1, 1), Publication("a", 0, 1, "T")),))
    assert list(read_news(bad, SETTINGS.palette)) == []


def test_order_and_deadline_take_at_most_eight_bytes_for_each_broker():
    room = seated(("s", "a", "T"), names="abcd", topics="T")
    for _ in range(10):
        for name in "abcd":
            room.say(name, "T", "x")
        room.wait()
    sizes = [order_bytes(event) for *_, frame in room.frames(News) for event in frame.events]
    assert max(sizes) <= 8 * 4


def test_subscribers_tell_each_other():
    room = seated(("s", "a", "T"), ("t", "a", "T"), names="a")
    room.say("a", "T", "zero")
    room.loses = lambda source, to, frame: source == "a" and to == "t"
    room.wait(2)
    room.say("a", "T", "one")
    room.wait(4)
    assert room.told["t"] == ["zero", "one"]


def test_a_reply_never_comes_before_its_question_whoever_brings_it():
    room = seated(("s", "a", "T U"), ("t", "b", "T U"))
    room.loses = lambda source, to, frame: (
        isinstance(frame, News) and to == "t" and frame.events[0].publication.topic == "T"
    )
    room.say("a", "T", "question")
    room.say("s", "U", "answer")
    assert room.told["s"] == ["question", "answer"]
    assert room.told["t"] == []
    room.loses = lambda source, to, frame: False
    room.wait(3)
    assert room.told["t"] == ["question", "answer"]


def test_bundles_are_published_one_after_the_other():
    room = seated(("s", "a", "T"))
    room.loses = lambda source, to, frame: isinstance(frame, Submitted)
    for text in ("one", "two", "three"):
        room.say("s", "T", text)
    assert room.told["b"] == ["one"]
    room.loses = lambda source, to, frame: False
    room.wait(2)
    assert room.told["b"] == room.told["s"] == ["one", "two", "three"]
    assert sum(isinstance(effect, Accept) and effect.id.publisher == "s" for effect in room.other) == 6


def test_much_that_waits_goes_in_several_bundles_and_too_much_is_refused():
    room = seated(("s", "a", "T"))
    room.engines["s"].settings = msgspec.structs.replace(SETTINGS, pending_max=2 * BUNDLE_MAX)
    room.loses = lambda source, to, frame: isinstance(frame, Submit)
    texts = [str(i) for i in range(2 * BUNDLE_MAX + 5)]
    for text in texts:
        room.say("s", "T", text)
    refused = [effect for effect in room.other if isinstance(effect, Refuse)]
    assert [(r.id.n, r.reason) for r in refused] == [
        (n, NO_ROOM) for n in range(len(texts) - 3, len(texts) + 1)
    ]
    room.loses = lambda source, to, frame: False
    room.wait(4)
    assert room.told["b"] == texts[:-4]
    assert max(len(frame.bundle) for *_, frame in room.frames(Submit)) == BUNDLE_MAX


def test_who_has_moved_publishes_after_what_it_published_before():
    room = seated(("s", "a", "T"), ("t", "b", "T"))
    room.loses = lambda source, to, frame: isinstance(frame, Submitted | Multicast)
    room.say("s", "T", "one")
    room.do("s", Move("b"))
    room.say("s", "T", "two")
    assert room.told["b"] == []
    room.loses = lambda source, to, frame: False
    room.wait(4)
    assert room.told["b"] == room.told["t"] == room.told["s"] == ["one", "two"]


def test_what_it_published_comes_first_though_it_never_hears_of_it():
    room = seated(("s", "a", "T"), ("t", "b", "U"))
    room.loses = lambda source, to, frame: isinstance(frame, Multicast)
    room.say("s", "U", "one")
    room.do("s", Move("b"))
    room.say("s", "U", "two")
    assert room.told["b"] == []
    room.loses = lambda source, to, frame: False
    room.wait(4)
    assert room.told["b"] == room.told["t"] == ["one", "two"]


def test_what_nobody_answers_is_given_up_when_it_is_of_no_use_any_more():
    room = seated(("s", "a", "T"))
    room.loses = lambda source, to, frame: isinstance(frame, Submit)
    room.say("s", "T", "one", 4.0)
    room.wait(5)
    assert Refuse(Publication("s", 0, 1, "T").id, NO_ANSWER) in room.other
    room.loses = lambda source, to, frame: False
    room.say("s", "T", "two")
    assert room.told["b"] == ["two"]


def test_topics_are_added_and_removed():
    room = seated(("s", "a", "T"))
    room.do("s", Change(add=("U",)))
    room.say("b", "U", "one")
    room.do("s", Change(remove=("T",)))
    room.say("b", "T", "two")
    room.say("b", "U", "three")
    assert room.told["s"] == ["one", "three"]


def test_a_cause_on_a_topic_that_is_added_later_does_not_come_after_its_effect():
    room = seated(("s", "a", "U"))
    room.say("a", "T", "question")
    room.say("a", "U", "answer")
    room.do("s", Change(add=("T",)))
    room.wait(4)
    assert room.told["s"] == ["answer", "question before joining"]


def test_a_broker_takes_the_topics_its_subscribers_want():
    room = Room({"a": Broker("a", SETTINGS, ["T"], {"b": []}), "b": Broker("b", SETTINGS, ["U"], {"a": []})})
    room.engines["s"], room.told["s"] = Subscriber("s", "a", SETTINGS, ["U"]), []
    room.wait(3)
    room.say("b", "U", "one")
    assert room.told["s"] == ["one"]


def test_who_has_nothing_new_does_not_answer():
    room = seated(("s", "a", "T"))
    assert room.do("a", Heard("s", Have(("T",), ()))) == []


def test_a_copy_goes_its_own_way():
    room = seated(("s", "a", "T"))
    twin = room.engines["s"].copy()
    assert twin.state() == room.engines["s"].state()
    room.say("s", "T", "one")
    assert twin.state() != room.engines["s"].state()
