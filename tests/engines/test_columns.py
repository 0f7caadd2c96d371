"""Columns as bytes: what is packed is read back, and what is no column is told from what is one."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.model.bundles import EXTRA_BYTES, Bundle, Part, ns_of
from unisono.model.codec import encode_record
from unisono.model.columns import (
    NUMBERS_END,
    are_steps,
    is_column,
    pack,
    pack_steps,
    pack_times,
    split,
    unpack,
    unpack_steps,
    unpack_times,
)
from unisono.model.frames import PACKED, RAW, Publication
from unisono.model.lanes import BundleRecord, EventRecord, events_of
from unisono.model.runs import bundle_of, creates_of, publications_of

NUMBERS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300), min_size=1, max_size=20)


@given(NUMBERS)
def test_numbers_are_read_back(numbers):
    column = pack(numbers)
    assert is_column(column, len(numbers))
    assert list(unpack(column, len(numbers))) == numbers
    width = next(width for width in (1, 2, 4, 8) if max(numbers) < 256**width)
    assert len(column) == width * len(numbers)


def test_nothing_is_a_column_of_nothing():
    assert pack([]) == b""
    assert is_column(b"", 0)
    assert not is_column(b"x", 0)
    assert not is_column(b"", 1)


@pytest.mark.parametrize(("column", "count"), [(bytes(3), 1), (bytes(7), 2), (bytes(6), 2), (bytes(16), 1)])
def test_bytes_of_another_length_are_no_column(column, count):
    assert not is_column(column, count)


@given(st.integers(0, 2**40), st.lists(st.integers(1, 2**20) | st.integers(1, 9), max_size=20))
def test_numbers_that_grow_are_read_back(first, steps):
    numbers = [first]
    for step in steps:
        numbers.append(numbers[-1] + step)
    packed = pack_steps(numbers)
    assert are_steps(first, packed, len(numbers))
    assert list(unpack_steps(first, packed, len(numbers))) == numbers
    assert (packed == b"") == (numbers == list(range(first, first + len(numbers))))


def test_steps_that_do_not_grow_or_grow_too_far_are_none():
    assert not are_steps(1, b"\0", 2)
    assert not are_steps(1, b"\1\0\1", 4)
    assert not are_steps(1, b"\1", 1)
    assert not are_steps(1, b"\1\1", 2 + 2)
    assert not are_steps(-1, b"", 1)
    assert not are_steps(NUMBERS_END - 1, b"", 2)
    assert not are_steps(NUMBERS_END - 5, b"\5", 2)
    assert are_steps(NUMBERS_END - 6, b"\5", 2)


@given(st.lists(st.floats(), max_size=9))
def test_times_are_read_back(times):
    assert repr(list(unpack_times(pack_times(times)))) == repr(times)


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=260, max_size=300), max_size=9))
def test_what_was_joined_is_taken_apart(bodies):
    sizes = pack(list(map(len, bodies)))
    assert list(split(b"".join(bodies), unpack(sizes, len(bodies)))) == bodies


@st.composite
def published(draw):
    """What one publisher has ready for one node; events for others lie between."""
    n, nths, events = draw(st.integers(1, 2**30)), {}, []
    for _ in range(draw(st.integers(1, 30))):
        topic = draw(st.sampled_from("ABC"))
        nths[topic] = nths.get(topic, draw(st.integers(0, 99))) + draw(st.sampled_from((1, 1, 1, 0, 300)))
        events.append(
            Publication(
                "p",
                7,
                n,
                topic,
                draw(st.binary(max_size=20)),
                draw(st.sampled_from((RAW, RAW, PACKED))),
                draw(st.floats(allow_nan=False)),
                nths[topic],
                draw(st.none() | st.text(max_size=3)),
                draw(st.none() | st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2)),
                draw(st.none() | st.floats(allow_nan=False)),
            )
        )
        n += draw(st.sampled_from((1, 1, 1, 2, 700)))
    return events


@given(published())
def test_a_bundle_has_the_events_that_it_was_made_of(events):
    bundle = bundle_of(events, 3, 1, {})
    assert isinstance(bundle, Bundle)
    assert bundle.is_sound
    assert [publication for publication, _ in creates_of(bundle)] == events
    assert list(bundle.ns) == [event.n for event in events]
    stamped = bundle.stamped(1, "n", 1, dict.fromkeys("ABC", 5))
    assert stamped.is_sound
    for piece in stamped.pieces():
        [part] = piece.parts
        mine = [event for event in events if event.topic == part.topic]
        assert piece.is_sound
        assert publications_of(piece, part) == mine
        assert ns_of(piece, part.topic) == [event.n for event in mine]
        assert piece.ends(piece.topics.index(part.topic)) == (mine[0].n, mine[-1].n)
    outline = stamped.outline(bundle.topics)
    assert [ns_of(outline, topic) for topic in bundle.topics] == [
        ns_of(bundle, topic) for topic in bundle.topics
    ]


@given(published())
def test_each_event_of_a_bundle_follows_the_one_before_on_its_topic(events):
    before = {"A": 0, "B": 0, "C": 0}
    for publication, after in creates_of(bundle_of(events, 3, 1, {})):
        assert after == before[publication.topic]
        before[publication.topic] = publication.n


WORDS = st.text(max_size=3) | st.sampled_from(["", "e" * 400, "\U0001d11e" * 300])


@st.composite
def strange(draw):
    """A bundle as nobody writes it, with columns as wide as they may be; often it is sound."""
    count = draw(st.integers(1, 9))

    def column(numbers):
        code = draw(st.sampled_from("BHIQ"))
        return struct.pack(f"<{count}{code}", *[n % 256 ** struct.calcsize(code) for n in numbers])

    def some(values):
        places = draw(st.lists(st.integers(0, count), unique=True, max_size=count).map(sorted))
        places = draw(st.sampled_from([places, places[:1] * 9, places[::-1]]))
        return tuple((place, draw(values)) for place in places)

    large = st.integers(0, 2**64 - 1) | st.sampled_from([2**64 - 1, 2**63 - 1, 0])
    sizes = [draw(st.integers(0, 5)) for _ in range(count)]
    part = Part(
        "T",
        draw(st.sampled_from([0, 1, 2**63 - 1, NUMBERS_END - 20])),
        draw(st.sampled_from([b"", column([draw(large) for _ in range(count)]), column(range(count))])),
        bytes(8 * count),
        column(sizes),
        bytes(sum(sizes)),
        draw(st.sampled_from([b"", bytes(count)])),
        0,
        some(WORDS),
        some(st.dictionaries(WORDS, WORDS, max_size=3)),
        some(st.floats()),
    )
    first = draw(st.sampled_from([1, 2**63 - 1 - 20]))
    return Bundle("p", 7, first, b"", bytes(count), (part,), 1, 0)


@given(strange())
@settings(max_examples=300)
def test_whatever_is_sound_can_be_written_and_is_no_larger_than_it_counts(bundle):
    """A node that can store a record neither as it is nor taken apart would try for ever."""
    if not bundle.is_sound:
        return
    stamped = bundle.stamped(1, "n", 1, {"T": 2**62})
    record = BundleRecord(1, 1, stamped)
    assert stamped.is_sound
    bare = Bundle("p", 7, bundle.first, b"", b"", (), 1, 0).stamped(1, "n", 1, {"T": 2**62})
    around = len(encode_record(BundleRecord(1, 1, bare))) + 2 * len("T") + EXTRA_BYTES
    assert len(encode_record(record)) <= bundle.size + around
    for index, event in enumerate(events_of(record)):
        encode_record(EventRecord(1, index, event))


def test_of_what_only_some_events_have_each_is_named_once_and_in_order():
    def sound(**extras):
        return Part("T", times=bytes(24), sizes=bytes(3), **extras).is_sound(3)

    assert sound(keys=((0, "a"), (2, "b")), headers=((1, {}),), deadlines=((2, 1.0),))
    assert not sound(keys=((0, "a"), (0, "b")))
    assert not sound(headers=((1, {}), (0, {})))
    assert not sound(headers=((1, {}),) * 1000)
    assert not sound(deadlines=((3, 1.0),))
    assert not sound(deadlines=((-1, 1.0),))
