"""Whatever is under way when something is closed, it ends, and no connection stays open."""

import asyncio
import random
import time

import pytest
from redis.asyncio import Redis

from unisono.ens.ending import end
from unisono.ens.registry import open_service
from unisono.testing.servers import redis_server


def test_a_task_that_swallows_a_cancellation_ends_all_the_same():
    async def scenario():
        swallowed = []

        async def stubborn():
            while len(swallowed) < 2:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    swallowed.append(1)
            await asyncio.sleep(60)

        async def failing():
            raise ValueError("nobody wants to know")

        tasks = [asyncio.create_task(stubborn()), asyncio.create_task(failing()), None]
        await asyncio.sleep(0)
        await end(*tasks, asyncio.current_task())
        assert tasks[0].cancelled()
        assert len(swallowed) == 2

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_its_tidying_up_is_not_cut_short():
    async def scenario():
        tidied = []

        async def tidy():
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.15)
                tidied.append(1)

        task = asyncio.create_task(tidy())
        await asyncio.sleep(0)
        await end(task)
        assert tidied == [1]

    asyncio.run(asyncio.wait_for(scenario(), 10))


@pytest.fixture(scope="module")
def server():
    with redis_server() as running:
        yield running


@pytest.mark.parametrize("mode", ["streams", "pubsub"])
def test_redis_has_no_connection_of_a_service_that_was_closed(server, mode):
    dice = random.Random(7)

    async def life():
        service = open_service(f"{server.url}?mode={mode}&prefix=p{dice.randrange(10**9)}:&name=short-lived")
        await service.connect()
        store = service.store()
        await store.open()
        await store.watch("control", lambda revision, value: None)
        await service.subscribe(frozenset({"a", "b.*"}), lambda frame: None)
        for n in range(50):
            service.publish(("a",), b"%d" % n)
            store.append("lane", b"%d" % n)
        tasks = [asyncio.create_task(store.look("control")) for _ in range(10)]
        tasks.append(asyncio.create_task(service.subscribe(frozenset({"c"}), lambda frame: None)))
        await asyncio.sleep(dice.random() * 0.01)
        for task in tasks:
            task.cancel()
        await service.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def scenario():
        for _ in range(20):
            await life()
        async with Redis.from_url(server.url) as redis:
            names = [client["name"] for client in await redis.client_list()]
        assert "short-lived" not in names

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_closing_a_redis_that_is_stuck_takes_seconds(server):
    async def scenario():
        service = open_service(f"{server.url}?close_timeout=0.5&connect_timeout=0.5&store_timeout=0.5")
        await service.connect()
        store = service.store()
        await store.open()
        await store.watch("control", lambda revision, value: None)
        with server.stuck():
            for n in range(50):
                service.publish(("a",), bytes(100_000) + b"%d" % n)
            looking = asyncio.create_task(store.look("control"))
            await asyncio.sleep(0.05)
            began = time.monotonic()
            await service.close()
            assert time.monotonic() - began < 10
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scenario(), 60))
