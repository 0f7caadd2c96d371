"""Brokers: multicast, gossip, causes across topics, what travels of pasts, comings and goings."""

from __future__ import annotations

import msgspec
from deadline_kit import SETTINGS, Room, brokers

from unisono.engines.deadline_causal.broker import Broker
from unisono.engines.deadline_causal.choosing import choose, choose_near
from unisono.engines.deadline_causal.compression import read, write
from unisono.engines.deadline_causal.effects import NO_TIME, Heard, Refuse
from unisono.engines.deadline_causal.frames import (
    Matrix,
    Multicast,
    Repair,
    Request,
    Sent,
    Submission,
    Submit,
)
from unisono.engines.deadline_causal.holdback import AHEAD, Discard
from unisono.engines.deadline_causal.stamps import stamp_of
from unisono.engines.inputs import Change
from unisono.model.frames import Publication


def test_a_multicast_reaches_the_brokers_of_its_topic_only():
    room = Room(brokers("ab") | {"c": Broker("c", SETTINGS, ["U"], {"a": ["T"], "b": ["T"]})})
    room.engines["a"].neighbours.known["c"] = (
        room.engines["a"].neighbours.known["b"]._replace(topics=frozenset("U"))
    )
    room.say("a", "T", "one")
    assert room.told == {"a": ["one"], "b": ["one"], "c": []}


def test_a_lost_multicast_is_mended_by_gossip():
    room = Room(brokers("abc"))
    room.loses = lambda source, to, frame: isinstance(frame, Multicast) and to == "c"
    room.say("a", "T", "one")
    assert room.told["c"] == []
    room.wait(3)
    assert room.told["c"] == ["one"]


def test_what_is_waited_for_is_asked_for():
    room = Room(brokers("ab"))
    room.loses = lambda source, to, frame: isinstance(frame, Multicast) and frame.event.publication.n == 1
    room.say("a", "T", "one")
    room.say("a", "T", "two")
    assert room.told["b"] == []
    room.engines["b"].neighbours.settings = msgspec.structs.replace(SETTINGS, fanout=0)
    room.wait(2)
    assert room.told["b"] == ["one", "two"]
    assert room.frames(Request)
    assert all(event.matrix.base == 0 for *_, frame in room.frames(Repair) for event in frame.events)


def test_a_reply_on_another_topic_waits_for_its_question():
    room = Room(brokers("abc", "T U"))
    room.loses = lambda source, to, frame: isinstance(frame, Multicast) and (source, to) == ("a", "c")
    room.say("a", "T", "question")
    room.say("b", "U", "answer")
    assert room.told["c"] == []
    room.wait(3)
    assert room.told["c"] == ["question", "answer"]


def test_at_its_deadline_the_reply_goes_alone_and_the_question_is_overtaken():
    room = Room(brokers("abc", "T U"))
    room.loses = lambda source, to, frame: to == "c" and not (isinstance(frame, Multicast) and source == "b")
    room.say("a", "T", "question", 15.0)
    room.say("b", "U", "answer", 6.0)
    room.wait(5)
    assert room.told["c"] == ["answer"]
    room.loses = lambda source, to, frame: False
    room.wait(3)
    assert room.told["c"] == ["answer", "question overtaken"]


def test_a_deadline_that_cannot_be_met_is_refused():
    room = Room(brokers("ab"))
    effects = room.say("a", "T", "one", 0.5)
    assert [e.reason for e in effects if isinstance(e, Refuse)] == [NO_TIME]
    assert room.told == {"a": [], "b": []}


def test_what_a_publisher_has_seen_comes_first_though_its_broker_has_not_seen_it():
    room = Room(brokers("ab", "T U"))
    room.loses = lambda source, to, frame: True
    room.say("a", "T", "question")
    context = ((*event.stream, event.stamp) for event in room.engines["a"].cache.values())
    answer = Publication("s", 0, 1, "U", b"answer")
    room.do("b", Heard("s", Submit(1, (Submission(answer, 15, tuple(context)),))))
    assert room.told["b"] == [], "its own event waits like any other"
    room.loses = lambda source, to, frame: False
    room.wait(3)
    assert room.told == {"a": ["question", "answer"], "b": ["question", "answer"]}


def test_a_submission_that_comes_again_is_answered_and_not_published_again():
    room = Room(brokers("a"))
    submit = Submit(1, (Submission(Publication("s", 0, 1, "T", b"one"), 15),))
    first = room.do("a", Heard("s", submit))
    again = room.do("a", Heard("s", submit))
    assert room.told["a"] == ["one"]
    assert first[-1] == again[-1]


def test_what_is_refused_of_a_bundle_still_says_what_the_rest_follows():
    room = Room(brokers("a"))
    room.wait(3)
    unseen = (("z", "T", stamp_of(2, 1)),)
    short = Submission(Publication("s", 0, 1, "T", b"short"), 2, unseen)
    long = Submission(Publication("s", 0, 2, "T", b"long"), 9)
    room.do("a", Heard("s", Submit(1, (short, long))))
    assert room.told["a"] == []
    room.wait(6)
    assert room.told["a"] == ["long"]


def test_a_clock_that_is_too_far_ahead_is_refused_and_not_followed():
    room = Room(brokers("a"))
    ahead = Sent("z", "T", stamp_of(9, 1), 12, Matrix(), Publication("z", 0, 1, "T", b"one"))
    assert [e.reason for e in room.do("a", Heard("z", Multicast(ahead))) if isinstance(e, Discard)] == [AHEAD]
    assert room.engines["a"].clock.last < stamp_of(9, 0)


def test_a_past_that_contains_its_effect_is_not_believed():
    room = Room(brokers("a"))
    forged = Sent(
        "z", "T", stamp_of(0, 1), 9, Matrix(new=(("z", "T", 99),)), Publication("z", 0, 1, "T", b"one")
    )
    room.do("a", Heard("z", Multicast(forged)))
    assert room.told["a"] == []


# What travels of pasts.


def test_what_is_written_against_a_base_is_read_back():
    base = {("a", "T"): 5, ("b", "T"): 7}
    past = {("a", "T"): 9, ("b", "T"): 7, ("c", "U"): 1}
    matrix = write(past, (77, base))
    assert matrix == Matrix(77, ((0, 4),), (("c", "U", 1),))
    assert read(matrix, base) == past
    assert read(matrix, None) is None
    assert read(write(past), None) == past


def test_pasts_shrink_to_what_has_changed_once_everybody_keeps_a_base():
    room = Room(brokers("abc"))
    for _ in range(4):
        for name in "abc":
            room.say(name, "T", "x")
        room.wait()
    sent = [frame.event for *_, frame in room.frames(Multicast)]
    assert any(event.matrix.base for event in sent)
    assert all(not event.matrix.base for event in sent[:6]), "at first there is nothing to build on"
    assert len(set(map(tuple, room.told.values()))) == 1


def test_for_a_newcomer_pasts_are_whole_again():
    room = Room(brokers("ab"))
    for _ in range(3):
        room.say("a", "T", "x")
        room.wait()
    assert room.frames(Multicast)[-1][2].event.matrix.base
    room.engines["c"], room.told["c"] = Broker("c", SETTINGS, ["T"], {"a": []}), []
    room.wait(2)
    room.say("a", "T", "hello")
    assert not room.frames(Multicast)[-1][2].event.matrix.base
    assert room.told["c"][-1] == "hello"


def test_what_cannot_be_read_is_as_good_as_lost():
    room = Room(brokers("ab"))
    for _ in range(3):
        room.say("a", "T", "x")
        room.wait()
    room.engines["b"].bases.kept.clear()
    room.say("a", "T", "hello")
    assert "hello" not in room.told["b"]
    room.wait(2)
    assert room.told["b"][-1] == "hello"


# Who there is.


def test_a_newcomer_is_found_and_gets_what_is_still_of_use():
    room = Room(brokers("abc"))
    room.say("a", "T", "one")
    room.wait()
    room.engines["d"], room.told["d"] = Broker("d", SETTINGS, ["T"], {"a": []}), []
    room.wait(4)
    assert room.told["d"] == ["one"]
    assert all("d" in room.engines[name].neighbours.of("T") for name in "abc")


def test_who_is_silent_for_long_is_sent_nothing_any_more():
    settings = msgspec.structs.replace(SETTINGS, absent=3)
    room = Room(brokers("abc", settings=settings))
    del room.engines["c"]
    room.wait(5)
    room.say("a", "T", "one")
    assert {to for _, to, _ in room.frames(Multicast)} == {"b"}


def test_the_dead_are_forgotten_by_everybody():
    room = Room(brokers("abcd", settings=msgspec.structs.replace(SETTINGS, absent=6)))
    room.wait(4)
    del room.engines["d"]
    room.wait(20)
    assert all("d" not in room.engines[name].neighbours.known for name in "abc")


def test_who_leaves_a_topic_is_told_nothing_of_it():
    room = Room(brokers("ab", "T U"))
    room.do("b", Change(remove=("T",)))
    room.wait(2)
    room.say("a", "T", "one")
    room.say("a", "U", "two")
    assert room.told["b"] == ["two"]


def test_a_new_topic_is_told_to_everybody_whether_they_share_one_or_not():
    room = Room({name: Broker(name, SETTINGS, [name], {x: () for x in "abc" if x != name}) for name in "abc"})
    room.wait(4)
    room.do("c", Change(add=("T",)))
    room.wait()
    room.say("a", "T", "one")
    assert room.told["c"] == ["one"]


def test_partners_change_from_round_to_round_and_are_mostly_near():
    zones = {f"n{i}": "east" for i in range(5)} | {f"f{i}": "west" for i in range(5)}
    chosen = [choose_near("me", "east", round, zones, 2) for round in range(300)]
    far = sum(name.startswith("f") for names in chosen for name in names)
    assert far == 100
    assert all(len(set(names)) == 2 for names in chosen)
    assert {name for names in chosen for name in names} == set(zones)
    assert choose_near("me", "nowhere", 1, zones, 2) != []
    assert choose("me", 1, [], 2) == []


def test_what_is_kept_for_others_is_bounded():
    room = Room(brokers("ab", settings=msgspec.structs.replace(SETTINGS, cache_max=3)))
    for n in range(8):
        room.say("a", "T", str(n))
    assert [event.publication.body for event in room.engines["b"].cache.values()] == [b"5", b"6", b"7"]


def test_a_copy_goes_its_own_way():
    room = Room(brokers("ab"))
    room.say("a", "T", "one")
    twin = room.engines["a"].copy()
    assert twin.state() == room.engines["a"].state()
    room.say("a", "T", "two")
    assert twin.state() != room.engines["a"].state()
