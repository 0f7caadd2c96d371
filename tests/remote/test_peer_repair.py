"""What no node has any more is fetched from other subscribers, on a real broker with tiny rings."""

import asyncio

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run, take

from unisono import ConfigError
from unisono.ens.routes import Routes
from unisono.model.frames import PeerTell, Publication, Stamped
from unisono.model.payloads import encode as payload
from unisono.runtime.remote.wire import encode, told_by

SHORT = msgspec.structs.replace(
    QUICK,
    node=msgspec.structs.replace(QUICK.node, retain_records=0),  # or the lanes would be asked
    managers=msgspec.structs.replace(QUICK.managers, ring_events=16, heartbeat_s_max=0.5),
)


@pytest.fixture
def deaf(monkeypatch):
    """Services that hear no events for the moment."""
    found = set()
    deliver = Routes.deliver

    def lossy(routes, source, topic, frame):
        if routes not in found or not topic.startswith("e."):
            deliver(routes, source, topic, frame)

    monkeypatch.setattr(Routes, "deliver", lossy)
    return found


def routes_of(bus):
    return next(value for value in vars(bus._service).values() if isinstance(value, Routes))


@pytest.mark.parametrize("url", ["nats", "redis pub/sub", "mqtt qos 0"], indirect=True)
def test_peers_fill_what_no_ring_holds(url, deaf):
    async def scenario():
        async with (
            nodes(url, "n1", options=SHORT),
            connect(url, "p") as publisher,
            connect(url, "a", peers=True) as ann,
            connect(url, "b", peers=True) as bob,
            connect(url, "c") as old,  # knows nothing of peers
            ann.subscribe("orders", "payments") as anns,
            bob.subscribe("orders", "payments") as bobs,
            old.subscribe("orders", "payments") as olds,
        ):
            await publisher.publish("orders", 0)
            for events in (anns, bobs, olds):
                await take(events, 1)
            deaf.update({routes_of(bob), routes_of(old)})
            for n in range(1, 101):
                await publisher.publish("orders" if n % 3 else "payments", n)
            deaf.clear()
            await publisher.publish("orders", 101)
            heard = await take(bobs, 101)
            assert [event.data for event in heard] == list(range(1, 102))
            assert [event.data for event in await take(anns, 101)] == list(range(1, 102))
            assert not bobs.lost
            assert all(event.in_order and not event.missed for event in heard)
            late = [await olds.get_one(timeout=10)]
            while late[-1].data < 101:
                late.append(await olds.get_one(timeout=10))
            assert len(late) + olds.lost == 101
            assert olds.lost > 50  # who does not ask is told what is lost, as before
            assert not olds.rejected

    run(scenario())


def test_what_no_peer_has_is_lost_after_they_were_asked(nats_url, deaf):
    async def scenario():
        async with (
            nodes(nats_url, "n1", options=SHORT),
            connect(nats_url, "p") as publisher,
            connect(nats_url, "a", peers=True) as ann,
            connect(nats_url, "b", peers=True) as bob,
            ann.subscribe("orders") as anns,
            bob.subscribe("orders") as bobs,
        ):
            deaf.update({routes_of(ann), routes_of(bob)})
            for n in range(100):
                await publisher.publish("orders", n)
            deaf.clear()
            await publisher.publish("orders", 100)
            for events in (anns, bobs):
                heard = [await events.get_one(timeout=10)]
                while heard[-1].data < 100:
                    heard.append(await events.get_one(timeout=10))
                assert len(heard) + events.lost == 101
                assert events.lost

    run(scenario())


def test_what_nobody_asked_for_is_not_taken(nats_url):
    async def scenario():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "a", peers=True) as ann,
            ann.subscribe("orders") as events,
            connect(nats_url, "m") as mallory,
        ):
            forged = Stamped(Publication("x", 1, 1, "orders", *payload("forged")), 0, {"orders": 2})
            mallory._service.publish((told_by("m", "orders"),), encode(PeerTell("orders", (forged,))))
            mallory._service.publish((told_by("m", "orders"),), b"nonsense")
            await ann.publish("orders", 1)
            await ann.publish("orders", 2)
            assert [event.data for event in await take(events, 2)] == [1, 2]
            async with asyncio.timeout(10):
                while events.rejected != 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    run(scenario())


@pytest.mark.parametrize("url", ["memory://", "udp://127.0.0.1:9"])
def test_peers_are_for_subscriptions_that_nodes_order(url):
    with pytest.raises(ConfigError, match="peers=True"):
        connect(url, peers=True)
