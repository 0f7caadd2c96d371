"""Applications that lag, change their minds, or leave: memory and waits are bounded."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from remote_kit import connect, nodes, run, take

from unisono import ClosedError, SlowConsumerError, UnisonoError


@pytest.mark.parametrize("taken", [False, True], ids=["in bursts", "steadily"])
def test_whoever_waits_hears_everything_later(nats_url, taken):
    """Frames that come while the application lags are not kept: they are asked for again."""

    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, AsyncExitStack() as stack:
            listener = await stack.enter_async_context(connect(nats_url, "s"))
            events = await stack.enter_async_context(listener.subscribe("orders", "stock", queue=8))
            got, most = [], 0
            for n in range(0, 2000, 20):
                await asyncio.gather(*(bus.publish(("orders", "stock")[m % 2], m) for m in range(n, n + 20)))
                most = max(most, events.waiting)
                if taken and events.waiting:
                    got.append(await events.get_one())
            assert most <= 8 + 1200  # what a few repairs bring at once; 2,000 were published
            assert events.deferred > 10
            begun = time.monotonic()
            got += await take(events, 2000 - len(got))
            assert time.monotonic() - begun < 20
            for topic in ("orders", "stock"):
                ns = [e.data for e in got if e.topic == topic]
                assert ns == sorted(ns)
            assert all(e.in_order and not e.missed for e in got)

    run(scenario())


def test_whoever_drops_is_told_how_much(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, AsyncExitStack() as stack:
            events = await stack.enter_async_context(bus.subscribe("orders", queue=5, slow="drop"))
            for n in range(50):
                await bus.publish("orders", n)
            got = await take(events, 5)
            await bus.publish("orders", 50)
            got += await take(events, 1)
            assert [e.data for e in got] == [0, 1, 2, 3, 4, 50]
            assert got[-1].missed == events.dropped == 45

    run(scenario())


def test_whoever_fails_fails_by_name(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, AsyncExitStack() as stack:
            quick = await stack.enter_async_context(bus.subscribe("orders"))
            events = await stack.enter_async_context(bus.subscribe("orders", queue=5, slow="fail"))
            stuck = await stack.enter_async_context(bus.subscribe("orders", queue=5, slow_timeout=0.3))
            for n in range(50):
                await bus.publish("orders", n)
            await asyncio.sleep(0.8)
            for slow in (events, stuck):
                with pytest.raises(SlowConsumerError):
                    await take(slow, 50, timeout=5)
            assert [e.data for e in await take(quick, 50)] == [*range(50)]

    run(scenario())


def test_leaving_with_events_under_way_is_bounded(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "other") as other, AsyncExitStack() as stack:
            events = await stack.enter_async_context(other.subscribe("orders"))
            async with connect(nats_url, "p") as bus:
                for n in range(3000):
                    bus.publish_nowait("orders", n)
            assert [e.data for e in await take(events, 3000)] == [*range(3000)], "leaving drains"
            bus = connect(nats_url, "q")
            await bus.__aenter__()
            receipts = [bus.publish_nowait("orders", n) for n in range(3000)]
            await asyncio.sleep(0)
            begun = time.monotonic()
            await bus.close()
            assert time.monotonic() - begun < 5
            with pytest.raises(UnisonoError):
                await asyncio.wait_for(receipts[-1], 5)

    run(scenario())


def test_two_buses_of_one_client_in_one_process(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1"), AsyncExitStack() as stack:
            buses = [await stack.enter_async_context(connect(nats_url, f"anna.{i}")) for i in range(2)]
            both = [await stack.enter_async_context(bus.subscribe("orders", name="mine")) for bus in buses]
            await asyncio.gather(*(bus.publish("orders", n) for n in range(20) for bus in buses))
            heard = [await take(events, 40) for events in both]
            assert [e.id for e in heard[0]] == [e.id for e in heard[1]]
            await buses[0].close()
            await buses[1].publish("orders", "still here")
            assert [e.data for e in await take(both[1], 1)] == ["still here"]

    run(scenario())


def test_a_cancelled_publish_harms_nobody(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, bus.subscribe("orders") as events:
            for n in range(30):
                work = asyncio.create_task(bus.publish("orders", n))
                await asyncio.sleep(0 if n % 2 else 0.001)
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            last = await bus.publish("orders", 30)
            got = await take(events, last.stamp["orders"])
            ns = [e.data for e in got]
            assert ns == sorted(set(ns))
            assert ns[-1] == 30
            assert bus._hub.unconfirmed == 0

    run(scenario())


def test_leaving_while_the_node_is_away_is_bounded(nats_url):
    async def scenario():
        bus = connect(nats_url, "p", publish_timeout=0.5)
        async with nodes(nats_url, "n1"):
            await bus.__aenter__()
            events = bus.subscribe("orders")
            await events.open()
            await bus.publish("orders", 0)
        work = asyncio.create_task(take(events, 2))
        late = bus.publish_nowait("orders", 1)
        with pytest.raises(UnisonoError, match="retry with"):
            await bus.publish("orders", 2)
        begun = time.monotonic()
        await bus.drain(timeout=0.3)
        await bus.close()
        assert time.monotonic() - begun < 5
        with pytest.raises(ClosedError):
            await work
        with pytest.raises(UnisonoError):
            await asyncio.wait_for(late, 5)

    run(scenario())
