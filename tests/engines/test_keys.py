"""Retries by key: whoever publishes an event again gets the place of the first, and only when that is stored."""

from __future__ import annotations

import msgspec
import pytest

from unisono.engines.effects import Append, Send
from unisono.engines.inputs import Appended, Controlled, ReadBack, Received
from unisono.engines.takeover import carried
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.recovery import recover
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.keys import Keys
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.codec import decode_record, encode_record
from unisono.model.frames import (
    Create,
    Done,
    EpochNotice,
    Join,
    Publication,
    Registration,
    Routed,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId
from unisono.model.lanes import EpochRecord, EventRecord, Keyed, SealRecord

BOTH = (Registration("s", 1, ("A", "B")), Registration("r", 1, ("A", "B")))
PLAN = next_plan(Intent("line", ("A", "B")), BOTH, threshold=2, epoch=0)
CONTROL = first_control(PLAN, {"A": "N1", "B": "N1"}, ["N1", "N2"])


def node() -> ManagerNode:
    """A node that serves epoch 0, its lane empty."""
    made = ManagerNode("N1", NodeSettings())
    for read in made.handle(Controlled(CONTROL), 0.0):
        made.handle(ReadBack(read.lane, (), 0), 0.0)
    return made


def ask(publisher: str, n: int = 1, key: str | None = "k", *, topic: str = "B", after: int = 0) -> Received:
    publication = Publication(publisher, 0, n, topic, key=key)
    return Received(publisher, Routed(topic, Create(publication, after=after)))


def stored(one: ManagerNode, effects: list, sequence: int) -> list:
    (append,) = effects
    assert isinstance(append, Append)
    return one.handle(Appended(append.lane, append.record, sequence), 0.0)


def answer(publisher: str, n: int = 1, *, number: int = 1, epoch: int = 0, repeated: bool = True) -> Send:
    entries = {"B": number, "A": 0}
    return Send(publisher, Sequenced("B", EventId(publisher, 0, n), epoch, entries, repeated))


def test_another_publisher_gets_the_place_of_the_first():
    one = node()
    assert stored(one, one.handle(ask("p"), 0.0), 1)[-1] == answer("p", repeated=False)
    assert one.handle(ask("q"), 0.0) == [answer("q")]
    assert one.handle(ask("q"), 0.0) == [answer("q")]  # asked again
    assert one.handle(ask("p"), 0.0) == [answer("p", repeated=False)]
    assert one.managers["B"].number == 1


def test_while_the_first_is_under_way_the_second_waits_for_it():
    one = node()
    effects = one.handle(ask("p"), 0.0)
    assert one.handle(ask("q"), 0.0) == []
    assert one.handle(ask("q"), 0.0) == []
    assert one.handle(ask("r", 7), 0.0) == []
    told = stored(one, effects, 1)
    assert [effect for effect in told if isinstance(effect, Send)] == [
        answer("p", repeated=False),
        answer("q"),
        answer("r", 7),
    ]
    assert one.managers["B"].keys.under_way == {}


def test_a_key_is_of_one_topic():
    one = node()
    stored(one, one.handle(ask("p", topic="B"), 0.0), 1)
    assert isinstance(one.handle(ask("q", topic="A"), 0.0)[0], Append)


def test_what_follows_a_repetition_is_numbered_after_it():
    one = node()
    effects = one.handle(ask("p"), 0.0)
    assert one.handle(ask("q", 1), 0.0) == []
    (append,) = one.handle(ask("q", 2, None, after=1), 0.0)
    assert append.record.event.number == 2
    assert one.handle(ask("q", 4, None, after=3), 0.0) == []  # its publisher sends both again
    assert answer("q") in stored(one, effects, 1)


def test_a_repetition_waits_like_everybody_while_the_end_of_the_path_moves():
    plan = next_plan(Intent("line", ("A", "B")), (), threshold=2, epoch=0)
    manager = TopicManager("B", plan, ManagerSettings(stored=True))
    create = [Create(Publication(p, 0, 1, "B", key="k")) for p in "pq"]
    announce, _, done = manager.handle(Received("p", create[0]), 0.0)
    for name in "sr":
        manager.handle(Received(name, Join(Registration(name, 1, ("A", "B")), ("A",), 0, {}, ("A",))), 0.0)
    assert manager.draining
    assert manager.handle(Received("q", create[1]), 0.0) == []
    assert isinstance(done.message, Done)
    (told,) = manager.handle(Received("N1", done.message), 0.0)
    assert told == Send("q", Sequenced("B", EventId("q", 0, 1), 0, announce.notification.entries, True))


def begin(one: ManagerNode, records: tuple, keys: dict[str, tuple[Keyed, ...]]) -> None:
    """Another node begins epoch 1, which starts with these keys."""
    sealing = CONTROL.sealing("N2", Intent("line", PLAN.rank))
    one.handle(Controlled(sealing), 0.0)
    (read,) = one.handle(Controlled(sealing.active(next_plan(sealing.intent, BOTH, 2, 1))), 0.0)
    began = EpochRecord(1, EpochNotice(1, {"A": 0, "B": 1}), BOTH, (), keys)
    one.handle(ReadBack(read.lane, (*records, SealRecord(1), began), 2 + len(records)), 0.0)


def test_a_key_that_was_never_stored_dies_with_its_epoch():
    one = node()
    (append,) = one.handle(ask("p"), 0.0)
    one.handle(ask("q"), 0.0)
    begin(one, (), {})
    (append,) = one.handle(ask("q"), 0.0)
    assert append.record.event.publication.publisher == "q"


def test_the_next_epoch_knows_what_was_stored():
    one = node()
    (append,) = one.handle(ask("p"), 0.0)
    lanes = {"N1": (append.record, SealRecord(1))}
    keys = recover(lanes, 1, ("A", "B")).keys
    assert keys == {"B": (Keyed("k", 0, {"B": 1, "A": 0}),)}
    begin(one, (append.record,), keys)
    assert one.handle(ask("q"), 0.0) == [answer("q")]


def event(index: int, topic: str, number: int, key: str, epoch: int = 1) -> EventRecord:
    publication = Publication("p", 0, index, topic, key=key)
    return EventRecord(epoch, index, Stamped(publication, epoch, {topic: number}))


def test_keys_are_carried_from_epoch_to_epoch_in_the_order_of_their_topic():
    began = EpochRecord(1, EpochNotice(1, {"A": 1}), (), (), {"A": (Keyed("old", 0, {"A": 1}),)})
    lanes = {
        "N1": (began, event(1, "A", 3, "third"), SealRecord(2)),
        "N2": (began, event(1, "A", 2, "second"), SealRecord(2)),
    }
    keys = recover(lanes, 2, ("A",)).keys
    assert [one.key for one in keys["A"]] == ["old", "second", "third"]


def test_what_an_epoch_begins_with_is_bounded(monkeypatch: pytest.MonkeyPatch):
    records = tuple(event(i + 1, "AB"[i % 2], i // 2 + 1, f"key {i}", 0) for i in range(64))
    lanes = {"N1": (*records, SealRecord(1))}
    monkeypatch.setattr(carried, "KEYS_MAX", 20)
    keys = recover(lanes, 1, ("A", "B")).keys
    assert {topic: len(found) for topic, found in keys.items()} == {"A": 20, "B": 20}
    assert keys["B"][-1].key == "key 63"
    monkeypatch.setattr(carried, "KEYS_BYTES_MAX", 30 * keys["A"][0].size)
    keys = recover(lanes, 1, ("A", "B")).keys
    assert {topic: len(found) for topic, found in keys.items()} == {"A": 10, "B": 10}


def test_the_oldest_keys_are_forgotten():
    keys = Keys(keys_max=2, bytes_max=1 << 20)
    for number, key in enumerate("abc"):
        assert keys.begin(key)
        keys.finish(key, 0, {"A": number})
    assert list(keys.places) == ["b", "c"]
    small = Keys(keys_max=100, bytes_max=3 * Keyed("a", 0, {"A": 1}).size)
    for number in range(10):
        small.recall(Keyed(str(number), 0, {"A": number}))
    assert list(small.places) == ["7", "8", "9"]


def test_a_record_without_keys_can_be_read():
    began = EpochRecord(1, EpochNotice(1, {"A": 1}), (), (), {"A": (Keyed("old", 0, {"A": 1}),)})
    assert decode_record(encode_record(began)) == began
    older = b"\x01" + msgspec.msgpack.encode(["epoch", 1, ["epoch", 1, {"A": 1}], [], []])
    assert decode_record(older) == EpochRecord(1, EpochNotice(1, {"A": 1}), (), ())


def test_in_return_mode_a_repetition_is_not_published_again():
    plan = next_plan(Intent("line", ("A",)), (), threshold=2, epoch=0)
    manager = TopicManager("A", plan, ManagerSettings(mode="return"))
    manager.handle(Received("p", Create(Publication("p", 0, 1, "A", key="k"))), 0.0)
    again = Received("q", Create(Publication("q", 0, 1, "A", key="k")))
    (told,) = manager.handle(again, 0.0)
    assert told.message == Sequenced("A", EventId("q", 0, 1), 0, {"A": 1}, repeated=True)
    assert manager.handle(again, 0.0) == [told]
