"""What is read from lanes does not depend on whether events were stored one by one or in bundles."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.effects import Deliver, DeliverRun
from unisono.engines.inputs import Notified
from unisono.engines.takeover import carried
from unisono.engines.takeover.recovery import recover
from unisono.engines.topic_managers.emitter import Emitter
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.ring import Ring
from unisono.engines.topic_managers.routing import stored_events
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.model.bundles import Part, ns_of
from unisono.model.codec import decode_record, encode_record
from unisono.model.frames import EpochNotice, Nack, Publication, Registration, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.lanes import (
    BundleRecord,
    EpochRecord,
    EventRecord,
    JoinRecord,
    Keyed,
    SealRecord,
    events_of,
)
from unisono.model.runs import bundle_of, run_of, sequenced, stamps_of

TOPICS = ("A", "B", "C", "D")
GROUPS = ({}, {"A": "AB", "B": "ABC", "C": "BC", "D": "D"}, {"A": "ACD", "B": "B", "C": "AC", "D": "AD"})


def bundled_lane(random: Random, epoch: int = 0, clock: dict[str, int] | None = None) -> list[BundleRecord]:
    """What a node may have stored in one epoch; some numbers are in no lane."""
    clock, groups = dict(clock or dict.fromkeys(TOPICS, 0)), random.choice(GROUPS)
    newest: dict[str, int] = {}
    records: list[BundleRecord] = []
    for index in range(1, random.randint(1, 12) + 1):
        publisher, named = random.choice("pqr"), random.sample(TOPICS, random.randint(1, 4))
        publications = []
        for _ in range(random.randint(1, 9)):
            newest[publisher] = n = newest.get(publisher, 100 * epoch) + random.randint(1, 2)
            key = f"{publisher}{n}" if random.random() < 0.2 else None
            headers = {"h": str(n)} if random.random() < 0.1 else None
            at = random.choice((float(n), 7.0))
            topic = random.choice(named)
            publications.append(Publication(publisher, 1, n, topic, b"x" * n, 0, at, n, key, headers))
        bundle = bundle_of(publications, index, 0, {})
        topics = tuple(part.topic for part in bundle.parts)
        names = sorted({x for topic in topics for x in groups.get(topic, TOPICS)})
        places = (
            ()
            if not groups
            else tuple(tuple(i for i, x in enumerate(names) if x in groups[topic]) for topic in topics)
        )
        stamped = bundle.stamped(epoch, "N1", index, {x: clock[x] for x in names}, places)
        for topic in topics:
            clock[topic] = stamped.newest(topic)
        if random.random() < 0.1:
            clock[random.choice(TOPICS)] += 1  # one that dies with its node
        records.append(BundleRecord(epoch, index, stamped))
    return records


def one_by_one(records, random: Random, share: float = 1.0):
    """The same lane with so many of its bundles as single events."""
    found = []
    for record in records:
        if isinstance(record, BundleRecord) and random.random() < share:
            found += [EventRecord(record.epoch, 0, event) for event in events_of(record)]
        else:
            found.append(record)
    index, rows = 0, []
    for record in found:
        if isinstance(record, SealRecord | EpochRecord):
            index, rows = 0, [*rows, record]
            continue
        index += 1
        fields = {name: getattr(record, name) for name in record.__struct_fields__} | {"index": index}
        rows.append(type(record)(**fields))
    return rows


def seeds():
    return st.integers(0, 2**32).map(Random)


@given(seeds())
def test_the_stamps_of_a_bundle_are_those_of_its_events(random):
    for record in bundled_lane(random):
        events = run_of(record.bundle).events()
        for topic, stamps in stamps_of(record.bundle).items():
            assert stamps == [event.entries for event in events if event.topic == topic]


def lanes_of(random: Random):
    """A lane with the end of one epoch and the beginning of the next, and one beside it that knows of less."""
    clock = dict.fromkeys(TOPICS, 200)
    seen = tuple(
        Sequenced(t, EventId("p", 1, n), 0, {t: n}) for t in TOPICS for n in range(1, random.randint(2, 9))
    )
    keys = {"A": (Keyed("a", 0, {"A": 3, "B": 1}), Keyed("b", 0, {"A": 5}))}
    began = EpochRecord(1, EpochNotice(1, clock), (Registration("s", 1, TOPICS),), seen, keys)
    before, after = bundled_lane(random), bundled_lane(random, 1, clock)
    joined = JoinRecord(1, len(after) + 1, Registration("r", 1, ("A",)), {"A": 200 + random.randint(0, 30)})
    lane = [*before, SealRecord(1), began, *after, joined, SealRecord(2)]
    return {"N1": lane, "N2": [SealRecord(1), began, SealRecord(2)]}


def seen_of(recovery) -> dict[tuple[str, EventId], Sequenced]:
    """What is remembered of events, however it is written down."""
    seen = {(one.topic, one.id): one for one in recovery.seen}
    for bundle in recovery.bundles:
        for part in bundle.parts:
            for n in ns_of(bundle, part.topic):
                one = sequenced(bundle, part.topic, n)
                seen[one.topic, one.id] = one
    return seen


@pytest.mark.parametrize("bounds", [{}, {"SEEN_MAX": 3, "LIVES_MAX": 4, "KEYS_BYTES_MAX": 60}])
@given(random=seeds(), share=st.sampled_from((0.3, 1.0)))
def test_an_epoch_begins_alike_however_events_were_stored(bounds, random, share):
    lanes = lanes_of(random)
    singles = {name: one_by_one(lane, random, share) for name, lane in lanes.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bounds.items():
            patch.setattr(carried, name, value)
        for epoch in (1, 2):
            bundled, single = recover(lanes, epoch, TOPICS), recover(singles, epoch, TOPICS)
            assert bundled._replace(seen=(), bundles=()) == single._replace(seen=(), bundles=())
            assert seen_of(bundled).items() >= seen_of(single).items()
            assert bounds or seen_of(bundled) == seen_of(single)


@given(random=seeds())
def test_what_is_seen_in_bundles_is_carried_on_as_such_while_bundles_are_stored(random):
    """A release that knows none of it must be able to read an epoch before which none was stored."""
    lanes = lanes_of(random)
    first = recover(lanes, 2, TOPICS)
    again = decode_record(encode_record(first.record({})))
    assert again == first.record({})
    clock = first.notice.numbers
    quiet = recover({"N1": [again, SealRecord(3)]}, 3, TOPICS)
    assert quiet.bundles == ()
    assert seen_of(quiet) == seen_of(first)
    busy = recover({"N1": [again, *bundled_lane(random, 2, clock), SealRecord(3)]}, 3, TOPICS)
    assert sorted(map(str, busy.seen)) == sorted(map(str, first.seen))
    assert seen_of(busy).items() >= seen_of(first).items()
    assert all(part == Part(part.topic) for bundle in busy.bundles for part in bundle.parts)


@given(seeds(), st.integers(1, 40))
def test_rings_answer_alike_however_events_were_stored(random, limit):
    lanes = lanes_of(random)
    settings = ManagerSettings(ring_events=limit, ring_bytes=0)
    answers = []
    for share in (0.0, 0.5, 1.0):
        emitter = Emitter(settings, 0)
        lane = one_by_one(lanes["N1"], random, share)
        for topic, events in stored_events([lane, lanes["N2"]], 2).items():
            emitter.restore(topic, events, 200, 2, 0.0)
        answers.append(
            [emitter.repair(Nack(topic, "s", tuple(range(1, 400)))) for topic in sorted(emitter.rings)]
        )
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]


class Plain:
    """A ring in the plainest way."""

    def __init__(self, limit, gone_to, bytes_max):
        self.limit, self.gone_to, self.bytes_max, self.kept = limit, gone_to, bytes_max, {}

    def extend(self, numbers, size):
        self.kept |= dict.fromkeys(numbers, size)
        while len(self.kept) > self.limit or (
            self.bytes_max and len(self.kept) > 1 and sum(self.kept.values()) > self.bytes_max
        ):
            evicted = min(self.kept)
            del self.kept[evicted]
            self.gone_to = max(self.gone_to, evicted)


@given(seeds(), st.integers(1, 300), st.sampled_from((0, 40, 900)))
def test_a_ring_keeps_the_newest_and_says_what_is_gone(random, limit, bytes_max):
    ring, plain = Ring(limit, 3, bytes_max), Plain(limit, 3, bytes_max)
    free, asked = list(range(4, 900)), range(1, 900)
    for _ in range(random.randint(1, 120)):
        first = random.choice(free[:20])
        count = random.choice((1, 1, random.randint(1, 60)))
        numbers = range(first, first + next((i for i in range(count) if first + i not in free), count))
        free = [number for number in free if number not in numbers]
        size = random.randint(0, 9)
        if len(numbers) == 1:
            ring.append(
                first, lambda number: Stamped(Publication("p", 1, number, "T"), 0, {"T": number}), size
            )
            ring.append(
                first, lambda number: Stamped(Publication("q", 1, number, "T"), 0, {"T": number}), size
            )
        else:
            ring.extend(
                numbers, lambda number: Stamped(Publication("p", 1, number, "T"), 0, {"T": number}), size
            )
        plain.extend(numbers, size)
        ring = random.choice((ring, ring.copy()))
    found, gone = ring.find(asked)
    assert [event.number for event in found] == sorted(plain.kept)
    assert gone == tuple(n for n in asked if n <= plain.gone_to and n not in plain.kept)
    assert {event.publication.publisher for event in found} <= {"p"}


def test_a_bundle_that_comes_again_is_none_of_who_has_left_or_come_meanwhile():
    events = bundle_of([Publication("p", 1, 1, "A"), Publication("p", 1, 2, "B")], 1, 0, {})
    pieces = list(events.stamped(0, "N1", 1, {"A": 0, "B": 0}).pieces())
    for change in ("leaves", "comes"):
        one = MovingSubscriber("s", SubscriberSettings())
        one.admit("B", 0)
        if change == "leaves":
            one.admit("A", 0)
        told = [effect for piece in pieces for effect in one.handle(Notified(piece), 0.0)]
        assert any(isinstance(effect, DeliverRun) for effect in told)
        if change == "leaves":
            one.dismiss("A")
        else:
            one.admit("A", 1)
        again = [effect for piece in pieces for effect in one.handle(Notified(piece), 0.0)]
        assert not any(isinstance(effect, Deliver | DeliverRun) for effect in again)
        one.check()
