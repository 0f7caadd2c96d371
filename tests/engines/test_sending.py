"""A publisher's side of bundles: little is sent at once, much in few, and what has no answer again as it was sent."""

from collections import Counter
from dataclasses import replace as replace_fields

import pytest
from bundle_kit import HELD, TOPICS, control, published, publisher, sent
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unisono.engines.effects import Acknowledge, Reject, Send
from unisono.engines.inputs import TICK, Controlled, Publish, Received
from unisono.engines.takeover.carried import SEEN_MAX
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.topic_managers.publisher import ALONE_MAX, NODE_MAX, SENDS_MAX, UNDER_WAY_MAX, Publisher
from unisono.model.bundles import BYTES_MAX, EVENT_BYTES, Bundle, SequencedBundle
from unisono.model.frames import Routed, Sequenced
from unisono.model.ids import EventId


def test_little_is_sent_at_once_and_much_in_few_bundles():
    one = publisher()
    for n in range(1, SENDS_MAX + 1):
        assert sent(one.handle(Publish(published("A", n)), 0.0)) == [[n]]
    for n in range(SENDS_MAX + 1, 100):
        assert one.handle(Publish(published("AB"[n % 2], n)), 0.0) == []
    answer = Sequenced("A", EventId("p", 0, 1), 0, {"A": 1})
    acknowledged, bundle = one.handle(Received("N1", answer), 0.0)
    assert acknowledged == Acknowledge(answer)
    assert sent([bundle]) == [[*range(SENDS_MAX + 1, 100)]]
    one.check()


def test_who_does_not_take_bundles_gets_single_events():
    effects = publisher(bundles=False).handle(Publish(published("ABAB")), 0.0)
    assert [type(effect.message) for effect in effects] == [Routed] * 4


def test_no_more_of_a_topic_is_under_way_than_nodes_remember():
    one = publisher()
    effects = one.handle(Publish(published("A" * 600)), 0.0)
    effects += one.handle(Publish(published("A" * 600, 601)), 0.0)
    assert sum(map(len, sent(effects))) == UNDER_WAY_MAX < SEEN_MAX
    effects = publisher(bundles=False).handle(Publish(published("A" * 600)), 0.0)
    assert len(effects) == ALONE_MAX


def answered(topic, n):
    return Received("N1", Sequenced(topic, EventId("p", 0, n), 0, {topic: n}))


@pytest.mark.parametrize("together", [False, True])
def test_what_lost_its_answer_is_asked_for_again_while_others_have_theirs(together):
    """Its node goes on as if it were answered, and nothing else would ever tell."""
    one, now, n, again = publisher(), 0.0, 1, []
    one.handle(Publish(published("A")), now)  # stored, and its answer lost
    while now < 3 * one.resend_s:
        now += 0.01
        count = 2 if together else 1
        serial = one.serial + 1
        one.handle(Publish(published("A" * count, n + 1)), now)
        n += count
        one.handle(
            Received("N1", SequencedBundle(0, serial, 0, {"A": n}, ())) if together else answered("A", n), now
        )
        if (timer := one.next_timer()) is not None and timer <= now:
            again += sent(one.handle(TICK, now))
    assert [1] in again
    assert len(again) <= 3
    one.check()


def test_no_more_of_a_topic_is_sent_beyond_an_event_without_an_answer_than_nodes_remember():
    """Else an epoch forgets that event before it is asked for again, and it has a second place."""
    one, out = publisher(), []
    one.handle(Publish(published("A")), 0.0)  # its answer is lost
    for n in range(2, 2 * UNDER_WAY_MAX):
        out += one.handle(Publish(published("A", n)), 0.0)
        if one.outgoing.newest("A") == n:
            one.handle(answered("A", n), 0.0)
    assert one.outgoing.newest("A") == 1
    assert max(n for ns in sent(out) for n in ns) == UNDER_WAY_MAX < SEEN_MAX
    rest = one.handle(answered("A", 1), 0.0)
    assert sent(rest[1:]) == [list(range(UNDER_WAY_MAX + 1, 2 * UNDER_WAY_MAX))]
    one.check()


def test_who_waits_for_causes_keeps_the_bounds_too():
    one = publisher(causal=True)
    one.handle(Publish(published("A" * 1000)), 0.0)
    effects = one.handle(Publish(published("A" * 900 + "B", 1001)), 0.0)
    assert one.outgoing.load == {"A": UNDER_WAY_MAX}
    large = [replace(event, body=bytes(1000)) for event in published("A" * 900 + "B")]
    (first, *_) = publisher(causal=True).handle(Publish(large), 0.0)
    assert first.message.size <= BYTES_MAX
    assert sum(map(len, sent(effects))) == UNDER_WAY_MAX - 1000


def test_what_has_moved_is_no_burden_to_the_node_that_had_it():
    one = publisher()
    for n in range(1, SENDS_MAX + 1):
        one.handle(Publish(published("A", n)), 0.0)
    one.handle(Publish(published("ABA", 10)), 0.0)
    moved = next_epoch({"A": "N2", "B": "N1", "C": "N1", "D": "N1"})
    one.handle(Controlled(moved), 1.0)
    assert one.outgoing.busy["N2"] == SENDS_MAX
    assert {effect.to for effect in one.handle(Publish(published("B", 20)), 1.0)} <= {"N1"}
    assert [to for to, topic in one.outgoing.sent_to() if topic == "B"] == ["N1"] * 2
    assert one.handle(Controlled(replace_fields(moved, version=9)), 2.0) == []  # nothing has moved since
    one.check()


def test_an_answer_to_the_whole_of_a_bundle_that_was_taken_apart_counts():
    one = publisher()
    one.handle(Publish(published("ABC")), 0.0)
    one.handle(Controlled(next_epoch({"A": "N1", "B": "N2", "C": "N2", "D": "N1"})), 0.1)
    assert one.outgoing.at == {"N1": 1, "N2": 2}
    (run,) = one.handle(Received("N1", SequencedBundle(0, 1, 0, {"A": 0, "B": 0, "C": 0}, ())), 0.2)
    assert [answer.id.n for answer in run.answers] == [1, 2, 3]
    assert not one.outgoing
    one.check()


@pytest.mark.parametrize("groups", [((0,),), ((0,), (2,)), ((0, -1), (0,))])
def test_an_answer_that_makes_no_sense_loses_nothing(groups):
    one = publisher()
    one.handle(Publish(published("AB")), 0.0)
    (effect,) = one.handle(Received("N1", SequencedBundle(0, 1, 0, {"A": 0, "B": 0}, groups)), 0.0)
    assert isinstance(effect, Reject)
    assert one.outgoing.count == 2


def test_a_node_that_does_not_answer_leaves_room_for_events_of_others():
    """Each has a window of its own."""
    topics = [f"N1.{i}" for i in range(8)] + ["N2.0"]
    plan = next_plan(Intent("line", tuple(topics)), (), threshold=2, epoch=0)
    one = Publisher()
    one.handle(Controlled(first_control(plan, {t: t[:2] for t in topics}, ["N1", "N2"])), 0.0)
    many = published(topics[:8] * 1000)
    out = one.handle(Publish(many), 0.0)
    assert {effect.to for effect in out} == {"N1"}
    assert sum(map(len, sent(out))) == one.outgoing.at["N1"] == NODE_MAX
    assert len(sent(one.handle(Publish(published(["N2.0"] * 700, 9000)), 0.0))[0]) == 700
    one.check()


class OneByOne(Publisher):
    """Looks at every event by itself."""

    def _how_many_go(self, to, batch, by_topic):
        counts = Counter({topic: self.outgoing.span(topic) for topic in by_topic})
        size = 0
        for place, event in enumerate(batch):
            size += len(event.body) + EVENT_BYTES
            counts[event.topic] += 1
            if counts[event.topic] > UNDER_WAY_MAX or (place and size > BYTES_MAX):
                return place
            if self.causal and event.topic != batch[0].topic:
                return place
        return len(batch)


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("AABC"), max_size=700), st.sampled_from((1, 1, 150, 900, 10**6))),
        max_size=8,
    ),
    st.booleans(),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_taking_many_at_once_is_taking_them_one_by_one(turns, causal, data):
    both, n, now = (Publisher(causal=causal), OneByOne(causal=causal)), 1, 0.0
    for one in both:
        one.handle(Controlled(control("line")), now)
    out = []
    for names, size in turns:
        now += 0.01
        more = [replace(event, body=bytes(size if event.n % 3 else 1)) for event in published(names, n)]
        effects = [one.handle(Publish(more), now) for one in both]
        n += len(names)
        assert effects[0] == effects[1]
        out += [e.message.serial for e in effects[0] if isinstance(e.message, Bundle)]
        if out and data.draw(st.booleans()):
            answer = SequencedBundle(0, out.pop(0), 0, {"A": 0, "B": 0, "C": 0}, ())
            answered = [one.handle(Received("N1", answer), now) for one in both]
            sends = [[e for e in effects if isinstance(e, Send)] for effects in answered]
            assert sends[0] == sends[1]
            out += [e.message.serial for e in sends[0] if isinstance(e.message, Bundle)]
        assert both[0].state() == both[1].state()
        both[0].check()


def next_epoch(owners):
    sealing = control("line").sealing("N1", Intent("line", TOPICS))
    plan = next_plan(sealing.intent, HELD, threshold=2, epoch=1)
    return replace_fields(sealing, owner=owners, lanes=tuple(sorted({*owners.values()}))).active(plan)


def test_what_a_node_has_dropped_is_sent_again_as_it_was_sent():
    one = publisher()
    first = one.handle(Publish(published("AAB")), 0.0)
    second = one.handle(Publish(published("BCA", 4)), 0.0)
    assert len(first) == len(second) == 1
    one.handle(Controlled(next_epoch(dict.fromkeys(TOPICS, "N1"))), 0.1)
    again = one.handle(TICK, one.next_timer())
    assert again == [*first, *second]
    one.check()
    (run,) = one.handle(Received("N1", SequencedBundle(0, 1, 1, {"A": 0, "B": 0, "C": 0}, ())), 1.0)
    assert [answer.id.n for answer in run.answers] == [1, 2, 3]


def test_a_bundle_whose_topics_part_is_sent_again_one_by_one():
    one = publisher()
    one.handle(Publish(published("ABC")), 0.0)
    moved = one.handle(Controlled(next_epoch({"A": "N1", "B": "N2", "C": "N2", "D": "N1"})), 0.1)
    assert [(effect.to, effect.message.message.publication.n) for effect in moved] == [("N2", 2), ("N2", 3)]
    (stays,) = one.handle(TICK, one.next_timer())
    assert (stays.to, stays.message.message.publication.n) == ("N1", 1)


def test_a_bundle_whose_topics_move_together_is_sent_to_their_new_node():
    one = publisher()
    (sent_before,) = one.handle(Publish(published("ABC")), 0.0)
    assert one.handle(Controlled(next_epoch(dict.fromkeys(TOPICS, "N2"))), 0.1) == [
        Send("N2", sent_before.message)
    ]


def test_an_answer_to_a_bundle_that_was_answered_changes_nothing():
    one = publisher()
    one.handle(Publish(published("AB")), 0.0)
    answer = SequencedBundle(0, 1, 0, {"A": 0, "B": 0}, ())
    (run,) = one.handle(Received("N1", answer), 0.0)
    assert [a.entries for a in run.answers] == [{"A": 1, "B": 0}, {"A": 1, "B": 1}]
    assert one.handle(Received("N1", answer), 0.0) == []
    assert not one.outgoing
