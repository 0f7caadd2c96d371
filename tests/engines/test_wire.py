"""Control records, lane records and packets as bytes: what goes in comes out, and bad bytes are a FrameError."""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.wire import decode_control, encode_control
from unisono.model.codec import decode_packet, decode_record, encode_packet, encode_record
from unisono.model.errors import FrameError
from unisono.model.frames import (
    Create,
    EpochNotice,
    Nack,
    Packet,
    Publication,
    Registration,
    Replan,
    Routed,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId
from unisono.model.lanes import BundleRecord, EpochRecord, EventRecord, JoinRecord, SealRecord
from unisono.model.runs import bundle_of

TOPICS = ("A", "B", "C", "D")
HELD = (Registration("s", 1, ("A", "B")), Registration("r", 1, ("A", "B")), Registration("q", 2, ("C", "D")))
EVENT = Stamped(Publication("p", 1, 7, "A", b"\x00body", 1, 2.5, 3, "key", {"a": "b"}), 2, {"A": 3, "B": 1})

RECORDS = (
    EventRecord(2, 1, EVENT),
    JoinRecord(2, 2, HELD[0], {"A": 3}),
    SealRecord(3),
    EpochRecord(
        3,
        EpochNotice(3, {"A": 3}, {"A": ((1, 2), (4, 4))}, ("gone",)),
        HELD,
        (Sequenced("A", EventId("p", 1, 7), 2, {"A": 3}),),
    ),
)
_BUNDLE = bundle_of(
    [Publication("p", 1, n, "AB"[n % 2], b"x", 0, 1.5, n, None, None) for n in (1, 2, 3)], 9, 1, {}
)
_STAMPED = _BUNDLE.stamped(2, "N", 4, {"A": 3, "B": 1}, ((0, 1), (1,)))
RECORDS += (
    BundleRecord(2, 4, _STAMPED),
    EpochRecord(3, EpochNotice(3, {"A": 4, "B": 3}), HELD, (), bundles=(_STAMPED.outline(("A",)),)),
)
PACKETS = (
    Packet(0, 5),
    Packet(1, 0, Routed("A", Create(EVENT.publication, 1, 2)), 9, 8),
    Packet(2, 1, Routed("A", Nack("A", "s", (1, 2), 3))),
    Packet(3, 1, Replan(4, ("A", "B"))),
)


def controls():
    """Active and sealing, empty and not, on the line and in a forest."""
    for kind in ("line", "forest"):
        plan = next_plan(Intent(kind, TOPICS), HELD, threshold=2, epoch=4)
        control = first_control(plan, dict(zip(TOPICS, "NMNM", strict=True)), ["M", "N", "O"])
        yield control
        intent = Intent(kind, (*TOPICS[::-1], "E"), (("A", "E"), ("B",)), HELD, ("t",))
        patterns = {"s": Registration("s", 2, ("*", "orders.>"))}
        sealing = control.sealing("N", intent, dead=("M",), moves={"E": "O"}, patterns=patterns)
        yield sealing
        yield sealing.active(next_plan(intent, HELD, 1, 5), {"M": 7, "N": 3, "O": 1}, 2)
    yield first_control(Plan(rank=(), parent={}, group={}), {}, ["N"], sequencer="atoms")


@pytest.mark.parametrize("control", list(controls()))
def test_a_control_record_comes_back_as_it_was(control):
    again = decode_control(encode_control(control))
    assert again == control
    assert encode_control(again) == encode_control(control)


@pytest.mark.parametrize("record", RECORDS)
def test_a_lane_record_comes_back_as_it_was(record):
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize("packet", PACKETS)
def test_a_packet_comes_back_as_it_was(packet):
    assert decode_packet(encode_packet(packet)) == packet


def test_thousands_of_topics_fit_into_one_value():
    topics = tuple(f"orders.region{i}.new" for i in range(10_000))
    plan = next_plan(Intent("line", topics), (), threshold=2, epoch=0)
    control = first_control(plan, dict.fromkeys(topics, "N1"), ["N1", "N2"])
    data = encode_control(control)
    assert len(data) < 400_000
    assert decode_control(data) == control


CODECS = [
    (decode_control, [encode_control(control) for control in controls()]),
    (decode_record, [encode_record(record) for record in RECORDS]),
    (decode_packet, [encode_packet(packet) for packet in PACKETS]),
]


@pytest.mark.parametrize("decode", [decode for decode, _ in CODECS])
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_by_name(decode, data):
    for candidate in (data, b"\x01" + data):
        with contextlib.suppress(FrameError):
            decode(candidate)


@pytest.mark.parametrize(("decode", "samples"), CODECS)
def test_broken_bytes_are_read_or_refused_by_name(decode, samples):
    random = Random("broken bytes")
    for sample in samples:
        for _ in range(400):
            raw = bytearray(sample)
            for _ in range(random.randint(1, 4)):
                raw[random.randrange(len(raw))] = random.randrange(256)
            with contextlib.suppress(FrameError):
                decode(bytes(raw[: random.choice((len(raw), random.randrange(len(raw) + 1)))]))


@pytest.mark.parametrize(("decode", "samples"), CODECS)
def test_versions_and_sizes_are_checked_first(decode, samples):
    with pytest.raises(FrameError, match="empty"):
        decode(b"")
    with pytest.raises(FrameError, match="version 9"):
        decode(b"\x09" + samples[0][1:])
    with pytest.raises(FrameError, match="over the limit of 3"):
        decode(samples[0], 3)
