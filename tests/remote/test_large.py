"""What nodes keep may be larger than a frame: epochs still begin, nodes still take over, nothing is asked twice."""

import asyncio
import random
from contextlib import AsyncExitStack

from remote_kit import connect, nodes, run, take

from unisono.ens.local_store import LocalStore
from unisono.runtime.remote.chest import PARTS, Chest

TOPICS = tuple(f"orders.{'x' * 20}.{i}" for i in range(12))


def small_frames(url):
    """So that little is already too large."""
    return f"{url}&frame_max=131072"


def test_an_epoch_may_begin_with_more_than_a_frame_holds(url):
    url = small_frames(url)

    async def scenario():
        async with nodes(url, "n1") as [node], AsyncExitStack() as stack:
            buses = [await stack.enter_async_context(connect(url, f"p{i}")) for i in range(4)]
            listeners = [await stack.enter_async_context(bus.subscribe(*TOPICS)) for bus in buses[:2]]
            for bus in buses:
                await bus.publish_many([(topic, n) for n in range(20) for topic in TOPICS])
            for n in range(4):
                await asyncio.wait_for(buses[0].publish(f"new.{n}", n), 10)
            heard = [await take(events, 4 * 20 * len(TOPICS)) for events in listeners]
            assert [e.id for e in heard[0]] == [e.id for e in heard[1]]
            epoch, store = node.control.epoch, node._keeper._store
            assert len(await store.keys(PARTS)) >= 1
            assert all(int(key.split(".")[1]) >= epoch - 3 for key in await store.keys(PARTS))

    run(scenario())


def test_a_node_takes_over_what_is_larger_than_a_frame(nats_url):
    url = small_frames(nats_url)

    async def scenario():
        async with AsyncExitStack() as stack:
            async with nodes(url, "n1"):
                bus = await stack.enter_async_context(connect(url, "p"))
                other = await stack.enter_async_context(connect(url, "q"))
                events = await stack.enter_async_context(other.subscribe(*TOPICS))
                more = await stack.enter_async_context(bus.subscribe(*TOPICS))
                for one in (bus, other):
                    await one.publish_many([(topic, n) for n in range(60) for topic in TOPICS])
                await bus.publish("new", 1)
            async with nodes(url, "n2"):
                receipt = await bus.publish(TOPICS[0], "last")
                assert receipt.stamp[TOPICS[0]] == 121
                heard = [await take(one, 120 * len(TOPICS) + 1) for one in (events, more)]
                assert [e.id for e in heard[0]] == [e.id for e in heard[1]]

    run(scenario())


def test_parts_are_swept_up_and_a_brief_note_is_left():
    async def scenario():
        store = LocalStore(8192)
        await store.open()
        chest, other = Chest(store, 8192), Chest(store, 8192)
        data = random.Random(1).randbytes(30_000)
        note = await chest.put(5, data, b"brief")
        assert len(note) < 100
        assert await other.take(note) == data
        await chest.put(8, data + b"more")
        await chest.sweep(8)
        assert await Chest(store, 8192).take(note) == b"brief"
        assert {key.split(".")[1] for key in await store.keys(PARTS)} == {"8"}

    run(scenario())
