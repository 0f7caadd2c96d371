"""Frames that are not frames, and stamps that lie: rejected and counted; everything true still arrives, in order."""

import asyncio
import contextlib
import itertools
import logging

import pytest
from bus_kit import numbers, run, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unisono
from unisono.model.codec import decode_frame, encode_frame
from unisono.model.errors import FrameError
from unisono.model.frames import (
    Batch,
    Heartbeat,
    Nack,
    Publication,
    Repair,
    Run,
    Stamped,
)

FOREIGN = Publication("mallory", 1, 1, "a", b"forged", nth=1)


def stamped(entries, epoch=0, publication=FOREIGN):
    return Stamped(publication, epoch, entries)


FORGERIES = {
    "garbage object": object(),
    "garbage bytes": b"\x00garbage",
    "none": None,
    "text": "a frame, honestly",
    "no stamp at all": stamped({}),
    "another topic's stamp": stamped({"b": 1}),
    "negative": stamped({"a": -1}),
    "zero": stamped({"a": 0}),
    "negative neighbour": stamped({"a": 1000, "b": -5}),
    "another epoch": stamped({"a": 1}, epoch=7),
    "a little ahead": stamped({"a": 41}),
    "ahead on a neighbour": stamped({"a": 20, "b": 10**6}),
    "far ahead": stamped({"a": 10**15}),
    "not a number": stamped({"a": "many"}),
    "not a stamp": stamped(None),
    "not a publication": stamped({"a": 1}, publication=None),
    "a run of another epoch": Run(9, {"a": 0}, [0], {"a": ("a",)}, [FOREIGN], {"a": 1}),
    "a run from the future": Run(0, {"a": 0}, [10**6], {"a": ("a",)}, [FOREIGN], {"a": 1}),
    "a truncated run": Run(0, {"a": 0}, [], {}, [FOREIGN], {"a": 1}),
    "a run of rubbish": Run(0, {}, [], {}, [None], {}),
    "a heartbeat from the future": Heartbeat("a", 0, 10**12),
    "a heartbeat of another epoch": Heartbeat("a", 5, 3),
    "a heartbeat of rubbish": Heartbeat("a", 0, "soon"),
    "a repair that came the wrong way": Repair("a", (stamped({"a": 2}),), (1, 2, 3), 10**9),
    "a nack that came the wrong way": Nack("a", "me", (1,)),
}
URLS = ["memory://", "memory://?jitter_ms=2&seed=1", "memory://?jitter_ms=2&loss=0.2&duplicate=0.2&seed=2"]
names = itertools.count()


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("order", ["total", "total_causal"])
@pytest.mark.parametrize("forgery", FORGERIES, ids=str)
def test_a_forgery_changes_nothing(forgery, order, url):
    async def main():
        bus = unisono.connect(url)
        async with (
            bus,
            bus.subscribe("a", "b", order=order) as first,
            bus.subscribe("b", "a", order=order) as second,
        ):
            interests = list(dict.fromkeys(i for by in bus._service._by_topic.values() for i in by))
            for n in range(40):
                bus.publish_nowait("ab"[n % 2], n)
                if n % 4 == 0:
                    for interest in interests:
                        interest.notify(FORGERIES[forgery])
                    await asyncio.sleep(0.0005)
            await bus.flush()
            for events in (first, second):
                got = [await events.get_one(timeout=5) for _ in range(40)]
                assert numbers(got) == list(range(40))
                assert all(event.in_order for event in got)
                assert events.rejected >= 1
                with pytest.raises(TimeoutError):
                    await events.get_one(timeout=0.001)
                assert events.lost == events.dropped == 0

    run(main)


@pytest.mark.parametrize("order", ["none", "fifo"])
@pytest.mark.parametrize("forgery", ["garbage object", "garbage bytes", "none", "text"])
@pytest.mark.parametrize("url", URLS[:2])
def test_garbage_is_counted_without_an_order_too(forgery, order, url):
    async def main():
        bus = unisono.connect(url)
        async with bus, bus.subscribe("a", order=order) as events:
            bus._service.publish(("a",), FORGERIES[forgery])
            await bus.publish("a", 1)
            assert (await events.get_one(timeout=1)).data == 1
            await until(lambda: events.rejected == 1)

    run(main)


@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_a_frame_with_rubbish_inside_harms_nobody_else(order):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a", order=order) as events, bus.subscribe("a", order="none") as other:
            bus._service.publish(("a",), Batch([None]))
            await bus.publish("a", 1)
            assert (await events.get_one(timeout=1)).data == 1
            assert (await other.get_one(timeout=1)).data == 1

    run(main)


def test_a_lie_about_the_future_starts_no_endless_questions():
    async def main():
        bus = unisono.connect("memory://?loss=0.1&seed=1")
        async with bus, bus.subscribe("a") as events:
            await bus.publish("a", 1)
            await events.get_one(timeout=5)
            for interest in bus._service._by_topic["a"]:
                interest.notify(Heartbeat("a", 0, 10**12))
            assert events.rejected == 1
            assert events._engine.next_timer() is None

    run(main)


# Bytes.

publications = st.builds(
    Publication,
    publisher=st.text(max_size=5),
    incarnation=st.integers(0, 2**40),
    n=st.integers(0, 2**40),
    topic=st.text(max_size=5),
    body=st.binary(max_size=20),
    key=st.none() | st.text(max_size=5),
    headers=st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)
stamps = st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=4)
stampeds = st.builds(Stamped, publications, st.integers(0, 10), stamps)
frames = st.one_of(
    stampeds,
    st.builds(Heartbeat, st.text(max_size=5), st.integers(0, 9), st.integers(0, 2**40)),
    st.builds(Nack, st.text(max_size=5), st.text(max_size=5), st.tuples(st.integers(0, 99))),
    st.builds(
        Repair, st.text(max_size=5), st.tuples(stampeds), st.tuples(st.integers(0, 99)), st.integers(0, 99)
    ),
)
relaxed = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])


@relaxed
@given(frames)
def test_frames_survive_the_wire(frame):
    assert decode_frame(encode_frame(frame)) == frame


@relaxed
@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_frame_error(data):
    for candidate in (data, b"\x01" + data):
        try:
            decode_frame(candidate)
        except FrameError as error:
            assert len(str(error).split()) >= 3  # noqa: PT017


@relaxed
@given(frames, st.data())
def test_mutated_frames_are_frames_or_frame_errors(frame, data):
    raw = bytearray(encode_frame(frame))
    for _ in range(data.draw(st.integers(1, 4))):
        what = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        place = data.draw(st.integers(0, max(0, len(raw) - 1)))
        if what == "flip" and raw:
            raw[place] ^= 1 << data.draw(st.integers(0, 7))
        elif what == "cut":
            del raw[place:]
        else:
            raw[place:place] = data.draw(st.binary(max_size=5))
    with contextlib.suppress(FrameError):  # and nothing else
        decode_frame(bytes(raw))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "an empty frame"),
        (b"\x07abc", "a frame of version 7; this build reads version 1"),
        (b"\x01", "not a frame"),
        (b"\x01" + b"\x91" * 100_000, "not a frame"),
        (b"\x01" * 101, "a frame of 101 bytes is over the limit of 100"),
    ],
)
def test_what_is_wrong_with_a_frame_is_said(data, says):
    with pytest.raises(FrameError) as refused:
        decode_frame(data, limit=100 if len(data) == 101 else 10**6)
    assert says in str(refused.value)
