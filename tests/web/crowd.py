"""Buses that publish and listen until they are stopped: something to look at. `python crowd.py URL`"""

import asyncio
import signal
import sys
from contextlib import suppress

import unisono


async def listen(events):
    async for _ in events:
        pass


async def main(url):
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with unisono.connect(url, name="desk") as desk, unisono.connect(url, name="shop") as shop:
        subscriptions = [
            desk.subscribe("orders", "payments", "stock", name="ledger"),
            shop.subscribe("orders", "payments", name="books", on_gap="tag"),
            shop.subscribe("chat", name="talk"),
        ]
        for subscription in subscriptions:
            await subscription.open()
        listening = [asyncio.create_task(listen(subscription)) for subscription in subscriptions]
        print('{"ready": true}', flush=True)
        while not stop.is_set():
            topics = ("orders", "payments", "stock", "chat")
            await asyncio.gather(*(shop.publish_nowait(topic, 1) for topic in topics), return_exceptions=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 0.05)
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)


asyncio.run(main(sys.argv[1]))
