"""What nodes and buses tell while somebody watches, and that they say nothing while nobody does."""

import asyncio

import pytest
from remote_kit import connect, nodes, run, take

from unisono.model.codec import FRAME_BYTES_MAX
from unisono.model.errors import FrameError
from unisono.runtime.remote import telling
from unisono.runtime.remote.admin import look, operator
from unisono.runtime.remote.telling import TELL, TELL_BRIEFLY, BusTelling, Watched, decode_node
from unisono.runtime.remote.wire import (
    BEATS,
    DESCRIBE,
    decode_beat,
    decode_description,
    encode,
    question,
    to_client,
)
from unisono.web.picture import Picture
from unisono.web.watching import Watcher


async def tellings(client, frame, count):
    """What so many nodes answer."""
    heard = asyncio.Queue()
    inbox = to_client(f"{client.client}.{DESCRIBE}", "*")
    interest = await client.service.subscribe(
        frozenset({inbox}), lambda _, f: heard.put_nowait(f), with_topic=True
    )
    async with asyncio.timeout(20):
        while heard.qsize() < count:
            client.post.publish(question(client.client, DESCRIBE), frame)
            await asyncio.sleep(0.1)  # whoever asks again at once is not answered
    await client.service.unsubscribe(interest)
    return [heard.get_nowait() for _ in range(count)]


async def beats(url, count):
    """The next so many signs of life."""
    heard = asyncio.Queue()
    async with operator(url) as client:
        await client.service.subscribe(frozenset({BEATS}), heard.put_nowait)
        return [decode_beat(await asyncio.wait_for(heard.get(), 10)) for _ in range(count)]


def test_a_node_tells_its_topics_and_then_only_their_numbers(url):
    async def scenario():
        async with (
            nodes(url, "n1"),
            operator(url) as watcher,
            connect(url, "anna") as bus,
            bus.subscribe("orders", "payments") as events,
        ):
            await bus.publish_many([("orders", 1), ("payments", 2), ("orders", 3)])
            await take(events, 3)
            (frame,) = await tellings(watcher, TELL, 1)
            whole = decode_node(frame, FRAME_BYTES_MAX)
            assert [(t.topic, t.number) for t in whole.topics] == [("orders", 2), ("payments", 1)]
            assert whole.counts["sequenced"] == 3
            assert decode_description(frame).topics == whole.topics, "older watchers can read it"
            (frame,) = await tellings(watcher, TELL_BRIEFLY, 1)
            brief = decode_node(frame, FRAME_BYTES_MAX)
            assert (brief.topics, brief.numbers, brief.layout) == ((), (2, 1), whole.layout)
            (frame,) = await tellings(watcher, b"?", 1)
            assert decode_node(frame, FRAME_BYTES_MAX).counts == {}, "who asks as ever is told as ever"

    run(scenario())


def test_buses_tell_and_measure_only_while_somebody_watches(nats_url, monkeypatch):
    monkeypatch.setattr(telling, "WATCHED_S", 0.6)
    monkeypatch.setattr("unisono.runtime.remote.teller.WATCHED_S", 0.6)
    monkeypatch.setattr("unisono.runtime.remote.teller.TELL_S", 0.1)

    async def scenario():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "anna") as bus,
            bus.subscribe("orders", name="ledger") as events,
        ):
            await bus.publish("orders", 1)
            await take(events, 1)
            await look(nats_url)  # who looks once does not watch
            assert not any(beat.watched for beat in await beats(nats_url, 4))
            assert events.observer is None
            picture = Picture()
            watcher = Watcher(nats_url, picture, interval_s=0.05)
            watching = asyncio.create_task(watcher.run())
            async with asyncio.timeout(20):
                while not (rows := _rows(picture)) or not picture.tick(0, 0.0)["phases"]:
                    await bus.publish("orders", 2)
                    await take(events, 1)
                    await asyncio.sleep(0.02)
            assert [(row["bus"], row["name"], row["order"]) for row in rows] == [("anna", "ledger", "total")]
            assert events.observer is not None
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await _until(lambda: events.observer is None)
            await bus.publish("orders", 3)
            assert (await take(events, 1))[0].data == 3

    run(scenario())


def _rows(picture):
    return picture.tick(0, 0.0).get("subscriptions", [])


def test_a_subscription_that_lags_is_seen_to(nats_url, monkeypatch):
    monkeypatch.setattr("unisono.runtime.remote.teller.TELL_S", 0.1)

    async def scenario():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "anna") as bus,
            connect(nats_url, "bea") as other,
            bus.subscribe("orders", name="slow", queue=8),
            other.subscribe("orders") as events,
        ):
            picture = Picture()
            watching = asyncio.create_task(Watcher(nats_url, picture, interval_s=0.05).run())
            for i in range(60):
                await other.publish("orders", i)
            await take(events, 60)
            await _until(
                lambda: ("slow", 8, 52) in [(r["name"], r["waiting"], r["behind"]) for r in _rows(picture)]
            )
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    run(scenario())


def test_takeovers_are_told_as_they_happen(nats_url):
    async def scenario():
        picture = Picture()
        async with nodes(nats_url, "n1"), connect(nats_url, "anna") as bus, bus.subscribe("orders"):
            watching = asyncio.create_task(Watcher(nats_url, picture, interval_s=0.05).run())
            async with nodes(nats_url, "n2"):
                await _until(lambda: "n2 joined" in _words(picture))
            await _until(lambda: "n2 declared dead by n1" in _words(picture))
            states = {row["node"]: row["state"] for row in picture.tick(0, 0.0)["nodes"]}
            assert states["n2"] == "dead"
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    run(scenario())


def _words(picture):
    return [happening.words for happening in picture.happenings.since(0)]


async def _until(is_so):
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class Engine:
    """What a node's engine looks like to somebody who tells of it."""

    name, epoch, writer = "n1", 1, None

    def __init__(self):
        self.managers = {}


def watched(now=0.0):
    from unisono.observability.metrics import Metrics

    one = Watched()
    one.tell(Engine(), Metrics(), now, briefly=True)
    return one, lambda at: one.tell(Engine(), Metrics(), at, briefly=True).buses


def test_a_bus_tells_of_itself_only():
    one, _ = watched()
    with pytest.raises(FrameError, match="somebody else"):
        one.hear("mallory._telling", encode(BusTelling(bus="anna")), 0.0)
    with pytest.raises(FrameError):
        one.hear("mallory._telling", b"\x01nonsense", 0.0)
    with pytest.raises(FrameError):
        one.hear("mallory._telling", encode(BusTelling(bus="mallory", counts={"x" * 20000: 1})), 0.0)


def test_nodes_keep_a_bounded_number_of_buses_and_forget_those_that_are_silent():
    one, buses = watched()
    for i in range(100):
        one.hear("mallory._telling", encode(BusTelling(bus=f"mallory.{i}")), 0.0)
    assert len(buses(0.0)) == telling.BUSES_OF_CLIENT_MAX
    for i in range(1000):
        one.hear(f"c{i}._telling", encode(BusTelling(bus=f"c{i}")), 0.0)
    assert len(buses(0.0)) == telling.BUSES_MAX
    assert buses(telling.FORGET_S + 0.1) == ()


def test_nothing_is_kept_of_what_nobody_asked_for():
    one, buses = watched()
    one.hear("anna._telling", encode(BusTelling(bus="anna")), telling.WATCHED_S + 1)
    assert buses(telling.WATCHED_S + 1) == ()
