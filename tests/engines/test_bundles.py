"""Many events at once: the same stamps as one by one, put together again from pieces, whatever the network does."""

import itertools

import pytest
from bundle_kit import HELD, HOLDERS, TOPICS, control, published, serving, stored
from engine_kit import told
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unisono.engines.effects import (
    Announce,
    Append,
    Deliver,
    DeliverRun,
    Reject,
    Send,
)
from unisono.engines.inputs import TICK, Appended, Controlled, Notified, ReadBack, Received
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.assembly import Assembly
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.bundles import SequencedBundle
from unisono.model.codec import encode_record
from unisono.model.frames import (
    Create,
    EpochNotice,
    Heartbeat,
    Nack,
    Publication,
    Repair,
    Routed,
    Stamped,
)
from unisono.model.lanes import EpochRecord, SealRecord, events_of
from unisono.model.runs import bundle_of, run_of

WAIT = SubscriberSettings(repair=True)
TAG = SubscriberSettings(on_gap="tag", repair=True)

topics = st.lists(st.sampled_from(TOPICS), min_size=1, max_size=12)


class Chained(ManagerNode):
    """Sends every event through all managers on its way, and no bundle is plain."""

    def _is_whole(self, manager):
        return False


def stamps(records):
    return [(e.publication, e.epoch, e.entries) for record in records for e in events_of(record)]


@given(st.lists(topics, min_size=1, max_size=5), st.sampled_from(("line", "forest")), st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_bundle_has_the_stamps_that_its_events_would_get_one_by_one(batches, kind, singly):
    """Bundles, single events numbered at once, and the chain of managers: three ways to the same stamps."""
    chained, bundled = serving(Chained("N1", NodeSettings()), kind), serving(ManagerNode("N1"), kind)
    first = 1
    expected, found = [], []
    for serial, names in enumerate(batches, 1):
        events = published(names, first)
        first += len(events)
        for event in events:
            got = stored(chained, chained.handle(Received("p", Routed(event.topic, Create(event))), 0.0))
            expected += stamps(got[0])
        if singly and serial % 2:
            for event in events:
                got = stored(bundled, bundled.handle(Received("p", Routed(event.topic, Create(event))), 0.0))
                found += stamps(got[0])
        else:
            bundle = bundle_of(events, serial, 1, {})
            records, _ = stored(bundled, bundled.handle(Received("p", bundle), 0.0))
            assert len(records) == 1
            found += stamps(records)
        for one in (chained, bundled):
            one.check()
    assert found == expected
    assert {t: (m.number, m.lower) for t, m in bundled.managers.items()} == {
        t: (m.number, m.lower) for t, m in chained.managers.items()
    }


def sequenced(names, first=1, node=None):
    """The pieces that a node announces for some events."""
    node = node or serving(ManagerNode("N1"))
    _, rest = stored(node, node.handle(Received("p", bundle_of(published(names, first), first, 1, {})), 0.0))
    return [effect.notification for effect in rest if isinstance(effect, Announce)]


def test_where_events_are_told_first_none_is_told_before_one_that_could_not_be_stored():
    """Else all that follow would have their places, and none of them would be found in the lane."""
    node = serving(ManagerNode("N1", NodeSettings(tells_first=True)))
    first = node.handle(Received("p", bundle_of(published("AB"), 1, 1, {})), 0.0)
    assert [type(effect) for effect in first] == [Announce, Announce, Send, Append]
    assert node.handle(Appended("N1", first[-1].record, None), 0.0)  # refused: the lane is read
    second = node.handle(Received("p", bundle_of(published("AB", 3), 2, 1, {})), 0.0)
    third = node.handle(Received("p", Routed("A", Create(*published("A", 5)))), 0.0)
    assert not [effect for effect in (*second, *third) if isinstance(effect, (Announce, Send))]
    _, told_of = stored(node, node.handle(ReadBack("N1", (), 0), 0.0))
    assert len([effect for effect in told_of if isinstance(effect, Announce)]) == 3
    fourth = node.handle(Received("p", Routed("A", Create(*published("A", 6)))), 0.0)
    assert [type(effect) for effect in fourth] == [Announce, Send, Append]


def test_the_names_of_topics_are_counted_wherever_a_record_has_them():
    names = tuple(f"{letter * 200}" for letter in "ABCD")
    plan = next_plan(Intent("line", names), (), threshold=2, epoch=0)
    alone = first_control(plan, dict.fromkeys(names, "N1"), ["N1"])
    for limit in range(1000, 4000, 100):
        node = ManagerNode("N1", NodeSettings(event_bytes_max=limit))
        for effect in node.handle(Controlled(alone), 0.0):
            node.handle(ReadBack(effect.lane, (), 0), 0.0)
        records, _ = stored(node, node.handle(Received("p", bundle_of(published(names * 2), 1, 1, {})), 0.0))
        assert records
        assert all(len(encode_record(record)) <= limit + 100 for record in records)


def test_it_is_stored_before_it_is_told_and_answered_as_one():
    node = serving(ManagerNode("N1"))
    (append,) = node.handle(Received("p", bundle_of(published("ABA"), 7, 1, {})), 0.0)
    told_of = node.handle(Appended(append.lane, append.record, 1), 0.0)
    assert [effect.topics for effect in told_of if isinstance(effect, Announce)] == [("A",), ("B",)]
    (answer,) = [effect.message for effect in told_of if isinstance(effect, Send)]
    assert answer == SequencedBundle(0, 7, 0, {"A": 0, "B": 0, "C": 0}, ())


@pytest.mark.parametrize("alone", [True, False])
def test_where_nobody_else_sees_the_store_it_is_told_before_it_is_stored(alone):
    first, usual = serving(ManagerNode("N1", NodeSettings(tells_first=True))), serving(ManagerNode("N1"))
    event = published("A")[0]
    message = Routed("A", Create(event)) if alone else bundle_of(published("ABA"), 7, 1, {})
    *told_of, append = first.handle(Received("p", message), 0.0)
    (later,) = usual.handle(Received("p", message), 0.0)
    assert append == later
    assert told_of == usual.handle(Appended(later.lane, later.record, 1), 0.0)
    assert first.handle(Appended(append.lane, append.record, 1), 0.0) == []
    assert first.state() == usual.state()
    nack = Received("s", Routed("A", Nack("A", "s", (1,))))
    assert first.handle(nack, 0.0) == usual.handle(nack, 0.0) != []


def test_a_bundle_sent_again_takes_no_second_numbers_and_gets_the_first_answer():
    node = serving(ManagerNode("N1"))
    bundle = bundle_of(published("ABA"), 1, 1, {})
    (append,) = node.handle(Received("p", bundle), 0.0)
    assert node.handle(Received("p", bundle), 0.0) == []  # it will be answered when it is stored
    _, rest = stored(node, [append])
    assert node.handle(Received("p", bundle), 0.0) == [effect for effect in rest if isinstance(effect, Send)]
    assert node.managers["A"].number == 2


def test_of_a_bundle_sent_again_differently_each_event_gets_its_first_answer():
    node = serving(ManagerNode("N1"))
    events = published("ABAB")
    stored(node, node.handle(Received("p", bundle_of(events[:3], 1, 1, {})), 0.0))
    records, rest = stored(node, node.handle(Received("p", bundle_of(events, 1, 1, {})), 0.0))
    assert [stamp["A"] for _, _, stamp in stamps(records)] == [2]  # of the one that is new
    answers = [effect.message for effect in rest if isinstance(effect, Send)]
    assert [answer.entries["A"] for answer in answers] == [1, 1, 2, 2]
    records, rest = stored(node, node.handle(Received("p", bundle_of(events[1:3], 1, 1, {})), 0.0))
    assert not records
    assert [effect.message.entries for effect in rest] == [
        {"A": 1, "B": 1, "C": 0},
        {"A": 2, "B": 1, "C": 0},
    ]


def test_of_what_is_numbered_only_its_outline_is_remembered():
    node = serving(ManagerNode("N1"))
    bundle = bundle_of(published("ABA"), 1, 1, {})
    (append,) = node.handle(Received("p", bundle), 0.0)
    held = [
        unit.bundle
        for m in node.managers.values()
        for seen in m.seen.values()
        for unit in seen._units.values()
    ]
    assert [one.parts for one in held] == [bundle.parts] * 2
    answer = stored(node, [append])[1][-1].message
    held = [
        unit.bundle
        for m in node.managers.values()
        for seen in m.seen.values()
        for unit in seen._units.values()
    ]
    assert [one.parts for one in held] == [()] * 2
    assert stored(node, node.handle(Received("p", bundle), 0.0))[1][-1].message == answer


def test_what_has_waited_for_an_epoch_is_no_larger_than_what_has_not():
    """Whoever owns a topic next does not know before how large its stamps are."""
    plan = control("line").plan
    before = first_control(plan, dict.fromkeys(TOPICS, "N1"), ["N1", "N2"])
    node = ManagerNode("N2", NodeSettings(event_bytes_max=1000))
    for effect in node.handle(Controlled(before), 0.0):
        node.handle(ReadBack(effect.lane, (), 0), 0.0)
    sealing = before.sealing("N1", Intent("line", TOPICS), moves=dict.fromkeys(TOPICS, "N2"))
    node.handle(Controlled(sealing), 0.0)
    for size in (990, 10):
        event = replace(published("A", size)[0], body=bytes(size))
        assert node.handle(Received("p", Routed("A", Create(event))), 0.0) == []
    active = sealing.active(next_plan(sealing.intent, HELD, 2, 1))
    begin = EpochRecord(1, EpochNotice(1, dict.fromkeys(TOPICS, 0)), HELD, ())
    reads = node.handle(Controlled(active), 0.0)
    effects = [e for read in reads for e in node.handle(ReadBack(read.lane, (SealRecord(1), begin), 2), 0.0)]
    assert [type(effect) for effect in effects] == [Reject, Append]


def test_a_bundle_that_follows_one_nobody_has_is_not_numbered():
    node = serving(ManagerNode("N1"))
    late = bundle_of(published("AA", first=5), 2, 1, {"A": 4})
    assert node.handle(Received("p", late), 0.0) == []


def test_nonsense_is_rejected():
    node = serving(ManagerNode("N1"))
    good = bundle_of(published("AB"), 1, 1, {})
    part, other = good.parts
    for change in (
        {"order": b"\0\0"},
        {"order": b"\0\7"},
        {"order": b""},
        {"parts": (part, part)},
        {"parts": (other,), "order": b"\0\0"},
        {"parts": ()},
        {"parts": tuple(replace(part, topic=f"A{i}") for i in range(257))},
        {"publisher": "q"},
        {"first": -1},
        {"first": 2**63 - 1},
        {"steps": b"\0"},
        {"steps": b"\1\1\1"},
        {"steps": b"\xff" * 8},
        *({"parts": (replace(part, **wrong), other)} for wrong in WRONG_PARTS),
        {"parts": (replace(part, after=1), other)},
        {"parts": (part, replace(other, after=2))},
        {"parts": (part, replace(other, after=-1))},
    ):
        (effect,) = node.handle(Received("p", replace(good, **change)), 0.0)
        assert isinstance(effect, Reject), change


WRONG_PARTS = (
    {"times": b""},
    {"times": bytes(7)},
    {"times": bytes(16)},
    {"sizes": b""},
    {"sizes": b"\2"},
    {"sizes": b"\0\0\0"},
    {"payloads": b"xx"},
    {"contents": b"\0\0"},
    {"further": b"\0\0\0"},
    {"nth": -1},
    {"nth": 2**63},
    {"keys": ((1, "k"),)},
    {"headers": ((-1, {}),)},
    {"deadlines": ((7, 1.0),)},
)


# Putting together.


def subscriber(policy=WAIT, names=("A", "B", "C")):
    made = MovingSubscriber("s", policy)
    for topic in names:
        made.admit(topic, 0)
    return made


def hear(one, *notes):
    return [effect for note in notes for effect in one.handle(Notified(note), 0.0)]


def test_pieces_in_any_order_make_the_run():
    pieces = sequenced("ABCAB")
    expected = ["A#1", "B#1", "C#1", "A#2", "B#2"]
    for order in itertools.permutations(pieces):
        one = subscriber()
        effects = hear(one, *order)
        assert told(effects) == expected
        assert [type(effect) for effect in effects] == [DeliverRun]
        assert one.clock == {"A": 2, "B": 2, "C": 1}


def test_pieces_that_contradict_each_other_are_not_put_together():
    one, other = sequenced("AB"), sequenced("ABBB")
    for first, second in (
        (other[0], one[1]),
        (one[0], other[1]),
        (one[0], replace(one[1], clock={"A": 0, "B": 7, "C": 0})),
    ):
        made = subscriber()
        assert hear(made, first, second) == []
        assert told(hear(made, first, *one)) == ["A#1", "B#1"] if first is one[0] else True
        assert made.clock["B"] <= 1


def test_a_piece_that_does_not_come_is_asked_for_and_nothing_overtakes_it():
    node = serving(ManagerNode("N1"))
    first, second = sequenced("AB", 1, node), sequenced("AB", 3, node)
    one = subscriber()
    assert hear(one, first[0], second[0]) == []
    assert told(hear(one, second[1])) == ["A#1"]  # B#1 is lost: what does not follow it may go
    one.handle(Notified(Heartbeat("B", 0, 2)), 1.0)
    (nack,) = [effect.message for effect in one.handle(TICK, 2.0) if effect.message.topic == "B"]
    assert (nack.topic, nack.numbers) == ("B", (1,))
    lost = next(e for e in run_of(*first).events() if e.topic == "B")
    assert told(one.handle(Received("m", Repair("B", (lost,), (), 2)), 1.0)) == ["B#1", "A#2", "B#2"]


@given(
    st.lists(topics, min_size=1, max_size=6),
    st.sampled_from([WAIT, TAG]),
    st.sets(st.sampled_from(TOPICS), min_size=1),
    st.randoms(use_true_random=False),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_whatever_the_network_loses_or_mixes_up_the_order_holds(batches, policy, held, random, fifo):
    """Each topic in its order or not, some pieces lost: what is delivered in order is in the order of the node."""
    node, first = serving(ManagerNode("N1")), 1
    bundles = []
    for names in batches:
        bundles.append(sequenced(names, first, node))
        first += len(names)
    order = [(e.topic, e.number) for pieces in bundles for e in run_of(*pieces).events()]
    pieces = [piece for pieces in bundles for piece in pieces if random.random() > 0.2]
    if fifo:  # topics overtake each other, no topic overtakes itself
        queues = {t: [p for p in pieces if p.parts[0].topic == t] for t in TOPICS}
        pieces = []
        while any(queues.values()):
            pieces.append(queues[random.choice([t for t, q in queues.items() if q])].pop(0))
    else:
        random.shuffle(pieces)
    one = subscriber(policy, sorted(held))
    got = []
    for piece in pieces:
        if piece.parts[0].topic not in held:
            continue
        for effect in one.handle(Notified(piece), 0.0):
            if isinstance(effect, DeliverRun) or (isinstance(effect, Deliver) and effect.in_order):
                got += [(e.topic, e.number) for e in effect.events]
        one.check()
    assert len(set(got)) == len(got)
    assert all(topic in held for topic, _ in got)
    related = [[row for row in got if row[0] in group] for group in HOLDERS]
    for rows in related:
        assert rows == sorted(rows, key=order.index)


def test_what_waits_is_bounded():
    assembly, node = Assembly(), serving(ManagerNode("N1"))
    left = 0
    for n in range(200):
        (piece, _) = sequenced("AB", 1 + 2 * n, node)
        left += len(assembly.add(piece, lambda topic: topic in "AB"))
    assert 100 < left <= 200


# The short way.


@given(st.lists(st.sampled_from("ABC"), min_size=1, max_size=10), st.data())
@settings(max_examples=150, deadline=None)
def test_handing_over_is_what_handling_would_do(names, data):
    node = serving(ManagerNode("N1"))
    events: list[Stamped] = []
    for n, topic in enumerate(names, 1):
        create = Create(Publication("p", 0, n, topic))
        _, rest = stored(node, node.handle(Received("p", Routed(topic, create)), 0.0))
        events += [e.notification for e in rest if isinstance(e, Announce)]
    one = subscriber(data.draw(st.sampled_from([WAIT, TAG])))
    for event in data.draw(st.permutations(events)):
        twin, timer = one.copy(), one.next_timer()
        effects = twin.handle(Notified(event), 0.0)
        if one.hand_over(event):
            assert effects == [Deliver([event])]
            assert one.state() == twin.state()
            assert one.next_timer() == timer
        else:
            assert one.state() == one.copy().state()
            one = twin


# Publishing.


def test_pieces_that_make_no_sense_are_not_sound():
    (piece, other) = sequenced("ABA")
    assert piece.is_sound
    for change in (
        {"order": b""},
        {"order": b"\0\1\7"},
        {"order": b"\0\1\1"},
        {"clock": {"A": 0}},
        {"clock": {"A": -1, "B": 0}},
        {"groups": ((0,),)},
        {"groups": ((9,), (0,))},
        {"parts": ()},
        {"parts": (other.parts[0], other.parts[0])},
        {"parts": (replace(piece.parts[0], topic="C"),)},
        {"topics": ("A", "A")},
        {"first": -1},
        {"steps": b"\1"},
        {"steps": b"\0\1"},
        *({"parts": (replace(other.parts[0], **wrong),)} for wrong in WRONG_PARTS),
    ):
        assert not replace(piece, **change).is_sound, change
