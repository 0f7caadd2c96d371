"""Brokers, nodes and clients that are away for a while: clear errors, bounded waits, nothing acknowledged is lost."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from load_kit import TOPICS, Load, under_load
from outage_kit import proxy, until
from remote_kit import QUICK, connect, nodes, run, take

from unisono import UnconfirmedError
from unisono.ens.registry import open_service
from unisono.model.errors import ForgottenError, ServerError, UnisonoError
from unisono.runtime.remote.admin import rerank
from unisono.runtime.remote.node import Node
from unisono.server import BundledServer, ServerSettings
from unisono.testing.servers import free_port, mosquitto_server, nats_server, redis_server, why_no_mosquitto

# Nobody there, or not for us.


@pytest.mark.parametrize("scheme", ["nats", "redis", "mqtt"])
def test_nothing_answers(scheme):
    url = f"{scheme}://127.0.0.1:{free_port()}"

    async def scenario():
        begun = time.monotonic()
        with pytest.raises(ConnectionError, match="answers at"):
            async with connect(url):
                pass
        with pytest.raises(ConnectionError, match="answers at"):
            async with Node(open_service(url), "n1", QUICK):
                pass
        assert time.monotonic() - begun < 15

    run(scenario())


def test_no_node_answers(nats_url):
    async def scenario():
        with pytest.raises(ConnectionError, match="no unisono node answers within"):
            async with connect(nats_url, node_timeout=0.3):
                pass

    run(scenario())


def test_wrong_credentials_and_wrong_names(tmp_path):
    async def scenario():
        settings = ServerSettings(data=tmp_path, auth=True, clients=("anna", "bruno"))
        async with BundledServer(settings) as server, nodes(server.node_url, "n1"):
            good = server.client_url("anna")
            password = good.split(":")[2].split("@")[0]
            with pytest.raises(ConnectionError, match="does not admit user 'anna'"):
                async with connect(good.replace(password, "wrong"), "anna"):
                    pass
            with pytest.raises(ConnectionError, match="does not let us be 'bruno'"):
                async with connect(good, "bruno"):
                    pass
            with pytest.raises(ServerError, match=str(server.port)):
                await BundledServer(ServerSettings(data=tmp_path / "other", port=server.port)).start()

    run(scenario())


# The broker is restarted under load.


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize("count", [1, 2])
def test_nats_is_restarted_under_load(kill, count):
    async def scenario():
        with nats_server(jetstream=True) as server:
            async with under_load(server.url, *[f"n{i}" for i in range(count)]) as started:
                await asyncio.to_thread(server.restart, kill=kill)
            assert len(started[0].control.live) == count

    run(scenario())


@pytest.mark.parametrize("mode", ["streams", "pubsub"])
def test_redis_is_restarted_under_load(mode):
    """What was appended is in its log; nothing acknowledged is lost."""

    async def scenario():
        with redis_server() as server:
            async with under_load(f"{server.url}?mode={mode}", "n1", "n2"):
                await asyncio.to_thread(server.restart, kill=True)

    run(scenario())


@pytest.mark.skipif(why_no_mosquitto() is not None, reason=str(why_no_mosquitto()))
@pytest.mark.parametrize("qos", [0, 1])
def test_mosquitto_is_restarted_under_load(qos):
    """The node keeps lanes and records itself: a restart of the broker costs nothing."""

    async def scenario():
        with mosquitto_server() as server:
            async with under_load(f"{server.url}?qos={qos}", "n1"):
                await asyncio.to_thread(server.restart, kill=True)

    run(scenario())


def test_a_broker_that_forgets_everything_is_named():
    """Redis without a log: the node ends with a sentence, and so do its clients once there is a node again."""

    async def scenario():
        with redis_server("--appendonly", "no") as server:
            async with nodes(server.url, "n1") as [node], AsyncExitStack() as stack:
                bus = await stack.enter_async_context(connect(server.url, "p", publish_timeout=2))
                events = await stack.enter_async_context(bus.subscribe("orders"))
                await bus.publish("orders", 1)
                await take(events, 1)
                await asyncio.to_thread(server.restart, kill=True)
                with pytest.raises(ForgottenError, match="what was acknowledged is lost"):
                    await asyncio.wait_for(node.run(), 15)
                await node.close()
                async with nodes(server.url, "n1"):
                    with pytest.raises(ForgottenError, match="subscribe again"):
                        await take(events, 1, timeout=10)
                    with pytest.raises(UnisonoError):
                        await bus.publish("orders", 2)

    run(scenario())


# Somebody is cut off.


def test_a_subscriber_that_was_cut_off_gets_what_it_missed(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1"), proxy(nats_url) as wire, AsyncExitStack() as stack:
            bus = await stack.enter_async_context(connect(nats_url, "p"))
            far = await stack.enter_async_context(connect(wire.url, "far"))
            near = await stack.enter_async_context(bus.subscribe(*TOPICS))
            events = await stack.enter_async_context(far.subscribe(*TOPICS))
            for n in range(300):
                await bus.publish(TOPICS[n % 3], n)
                if n == 50:
                    wire.cut()
                if n == 250:
                    await wire.mend()
            heard = [await take(one, 300) for one in (near, events)]
            assert [e.data for e in heard[1]] == [e.data for e in heard[0]]

    run(scenario())


def test_a_publisher_that_was_cut_off_publishes_once(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1"), proxy(nats_url) as wire, AsyncExitStack() as stack:
            bus = await stack.enter_async_context(connect(wire.url, "p", publish_timeout=0.5))
            near = await stack.enter_async_context(connect(nats_url, "near"))
            events = await stack.enter_async_context(near.subscribe("orders"))
            await bus.publish("orders", 0)
            wire.cut()
            begun = time.monotonic()
            with pytest.raises(UnconfirmedError, match="retry with id='one'"):
                await bus.publish("orders", 1, id="one")
            assert time.monotonic() - begun < 3
            waiting = [bus.publish_nowait("orders", n) for n in range(2, 50)]
            await wire.mend()
            await asyncio.wait_for(waiting[-1], 15)
            receipt = await bus.publish("orders", 1, id="one")
            assert receipt.stamp["orders"] == 2
            assert [e.data for e in await take(events, 50)] == [*range(50)]

    run(scenario())


def test_a_node_that_was_cut_off_is_replaced_and_comes_back(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1") as [first], proxy(nats_url) as wire, AsyncExitStack() as stack:
            [far] = await stack.enter_async_context(nodes(wire.url, "n2"))
            load, stop = Load(), asyncio.Event()
            await load.open(stack, nats_url)
            await until(lambda: set(first.control.live) == {"n1", "n2"})
            owners = dict(zip(TOPICS, ("n1", "n2", "n2"), strict=True))
            await rerank(nats_url, TOPICS, owners)
            work = asyncio.create_task(load.publish(stop))
            await asyncio.sleep(0.3)
            wire.cut()
            await until(lambda: first.control.dead == ("n2",))
            count = len(load.sent)
            await until(lambda: len(load.sent) > count + 20)
            await wire.mend()
            await until(lambda: first.control.dead == () and far.control.version == first.control.version)
            count = len(load.sent)
            await until(lambda: len(load.sent) > count + 20)
            stop.set()
            await work
            await load.check()
            assert not far._stop.is_set()

    run(scenario())


def test_a_subscription_that_the_broker_did_not_confirm_is_asked_for_again(nats_url, monkeypatch):
    """Else it would have joined, and heard nothing, for ever."""

    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            listen, refusals = bus._service._listen, [ConnectionError("away")] * 2

            async def stumble(sources):
                if refusals and any(source.startswith("e.") for source in sources):
                    raise refusals.pop()
                await listen(sources)

            monkeypatch.setattr(bus._service, "_listen", stumble)
            async with bus.subscribe("orders") as events:
                await bus.publish("orders", 1)
                assert [event.data for event in await take(events, 1)] == [1]
            assert not refusals

    run(scenario())
