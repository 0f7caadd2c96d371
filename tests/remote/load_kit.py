"""Publishers and subscribers that work on while something happens to the broker or to nodes."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack, asynccontextmanager

from outage_kit import until
from remote_kit import connect, nodes, shared, take

from unisono import UnconfirmedError

TOPICS = ("orders", "payments", "stock")


class Load:
    """Publishers that retry what is not confirmed, and subscribers that hear everything, in one order."""

    def __init__(self):
        self.sent = []
        self.unconfirmed = 0
        self.longest_s = 0.0  # that an event waited for its confirmation

    async def open(self, stack, url, publishers=2):
        self.publishers = [
            await stack.enter_async_context(connect(url, f"p{i}", publish_timeout=3))
            for i in range(publishers)
        ]
        buses = [await stack.enter_async_context(connect(url, f"s{i}")) for i in range(2)]
        self.listeners = [await stack.enter_async_context(bus.subscribe(*TOPICS)) for bus in buses]

    async def publish(self, stop):
        await asyncio.gather(*(self._publish(bus, stop) for bus in self.publishers))

    async def _publish(self, bus, stop):
        dice, n = random.Random(bus.name), 0
        while not stop.is_set():
            n += 1
            topic, id = dice.choice(TOPICS), f"{bus.name}-{n}"
            asked = time.monotonic()
            for _ in range(20):
                try:
                    begun = time.monotonic()
                    await bus.publish(topic, n, id=id)
                    break
                except UnconfirmedError:
                    self.unconfirmed += 1
                finally:
                    assert time.monotonic() - begun < 6, "a publish has a bound"
            else:
                raise AssertionError(f"{id} was never confirmed")
            self.longest_s = max(self.longest_s, time.monotonic() - asked)
            self.sent.append(id)
            await asyncio.sleep(0.002)

    async def check(self):
        rows = [await take(events, len(self.sent)) for events in self.listeners]
        one, other = shared(*rows)
        assert one == other
        for row in rows:
            assert {event.id for event in row} == set(self.sent)
            assert all(event.in_order and not event.missed for event in row)
            for bus in self.publishers:
                for topic in TOPICS:
                    ns = [event.data for event in row if event.publisher == bus.name and event.topic == topic]
                    assert ns == sorted(ns)


@asynccontextmanager
async def under_load(url, *names, seconds=0.4):
    """Load before, during and after whatever happens in the block."""
    async with nodes(url, *names) as started, loaded(url, seconds):
        yield started


@asynccontextmanager
async def loaded(url, seconds=0.4):
    """The same, with nodes of somebody else's."""
    async with AsyncExitStack() as stack:
        load, stop = Load(), asyncio.Event()
        await load.open(stack, url)
        work = asyncio.create_task(load.publish(stop))
        try:
            await asyncio.sleep(seconds)
            before = len(load.sent)
            yield load
            await until(lambda: len(load.sent) > before + 50)
            stop.set()
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        assert before
        await load.check()
