"""Transports that lose: within the ring everything arrives, in order; what no ring holds is told, never silence."""

import asyncio
import random
from contextlib import AsyncExitStack

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run, shared, take

from unisono import GapError
from unisono.ens.routes import Routes
from unisono.history.record import Kind

TOPICS = ("orders", "payments", "stock")


class Lossy:
    """Drops some of the frames that this process is notified of, whatever brought them, from a seed."""

    def __init__(self, monkeypatch):
        self.share, self.dropped = 0.0, 0
        self.is_hit = lambda topic: True
        dice, deliver = random.Random(11), Routes.deliver

        def lossy(routes, source, topic, frame):
            if self.share and self.is_hit(topic) and dice.random() < self.share:
                self.dropped += 1
            else:
                deliver(routes, source, topic, frame)

        monkeypatch.setattr(Routes, "deliver", lossy)


@pytest.fixture
def loss(monkeypatch):
    return Lossy(monkeypatch)


def is_event(topic):
    return topic.startswith("e.")


@pytest.mark.parametrize("url", ["nats", "redis pub/sub", "mqtt qos 0"], indirect=True)
def test_what_is_lost_is_repaired(url, loss):
    """Events, requests, answers, signs of life: all of them are lost now and then."""

    async def scenario():
        async with nodes(url, "n1"), AsyncExitStack() as stack:
            publishers = [await stack.enter_async_context(connect(url, f"p{i}")) for i in range(2)]
            buses = [await stack.enter_async_context(connect(url, f"s{i}")) for i in range(3)]
            loss.share = 0.15
            wanted = (TOPICS, TOPICS[:2], TOPICS[1:])
            listeners = [
                await stack.enter_async_context(bus.subscribe(*topics))
                for bus, topics in zip(buses, wanted, strict=True)
            ]
            sent = []

            async def publish(bus, seed):
                dice = random.Random(seed)
                for n in range(10):
                    receipt = await bus.publish(dice.choice(TOPICS), n)
                    sent.append(receipt.topic)

            await asyncio.gather(*(publish(bus, i) for bus in publishers for i in range(5)))
            heard = [
                await take(events, sum(topic in topics for topic in sent), timeout=30)
                for events, topics in zip(listeners, wanted, strict=True)
            ]
            loss.share = 0.0
            assert all(event.in_order and not event.missed for events in heard for event in events)
            for i, one in enumerate(heard):
                for other in heard[:i]:
                    mine, theirs = shared(one, other)
                    assert mine == theirs
                    assert mine
            assert loss.dropped > 20

    run(scenario())


def test_the_last_event_is_found_by_heartbeats(nats_url, loss):
    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, bus.subscribe("orders") as events:
            await bus.publish("orders", 1)
            await take(events, 1)
            loss.is_hit, loss.share = is_event, 1.0
            await bus.publish("orders", 2)
            await asyncio.sleep(0.2)
            assert loss.dropped
            loss.share = 0.0
            assert [e.data for e in await take(events, 1, timeout=10)] == [2]

    run(scenario())


def test_large_events_are_repaired_too(nats_url, loss):
    """More than fits into one answer."""

    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, bus.subscribe("orders") as events:
            await bus.publish("orders", b"")
            loss.is_hit, loss.share = is_event, 1.0
            await asyncio.gather(*(bus.publish("orders", bytes([n]) * 200_000) for n in range(1, 20)))
            loss.share = 0.0
            assert [e.data[:1] for e in await take(events, 20)] == [b"", *(bytes([n]) for n in range(1, 20))]

    run(scenario())


SHORT = msgspec.structs.replace(
    QUICK,
    node=msgspec.structs.replace(QUICK.node, retain_records=0),  # or the lanes would be asked
    managers=msgspec.structs.replace(QUICK.managers, ring_events=16, heartbeat_s_max=0.5),
)


@pytest.mark.parametrize("on_gap", ["wait", "tag"])
def test_what_no_ring_holds_is_told(nats_url, loss, on_gap):
    records = []

    async def scenario():
        async with nodes(nats_url, "n1", options=SHORT), AsyncExitStack() as stack:
            bus = await stack.enter_async_context(connect(nats_url, "p", record=records))
            events = await stack.enter_async_context(bus.subscribe("orders", on_gap=on_gap))
            await bus.publish("orders", 0)
            assert [e.data for e in await take(events, 1)] == [0]
            loss.is_hit, loss.share = is_event, 1.0
            for n in range(1, 101):
                await bus.publish("orders", n)
            loss.share = 0.0
            await bus.publish("orders", 101)
            rest = []
            while not rest or max(rest) < 101 or len(rest) + events.lost < 101:
                event = await events.get_one(timeout=10)
                rest.append(event.data)
            assert events.lost >= 101 - len(rest)
            assert set(rest) >= set(range(90, 102))
            if on_gap == "wait":
                assert rest == sorted(rest)
                assert events.lost == 101 - len(rest)
            lost = [record for record in records if record.kind is Kind.LOST]
            assert len(lost) == events.lost

    run(scenario())


def test_whoever_cannot_go_on_without_fails(nats_url, loss):
    async def scenario():
        async with nodes(nats_url, "n1", options=SHORT), AsyncExitStack() as stack:
            bus = await stack.enter_async_context(connect(nats_url, "p"))
            events = await stack.enter_async_context(bus.subscribe("orders", on_gap="fail"))
            await bus.publish("orders", 0)
            loss.is_hit, loss.share = is_event, 1.0
            for n in range(50):
                await bus.publish("orders", n)
            loss.share = 0.0
            with pytest.raises(GapError, match="are lost"):
                await take(events, 50, timeout=10)

    run(scenario())
