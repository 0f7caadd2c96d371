"""Two desks in processes of their own, a broker and a node: both see trades and news in one order.

Run it as it is: `python examples/two_desks.py`. It starts the bundled NATS server in a temporary folder.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

import unisono
from unisono.ens.registry import open_service
from unisono.runtime.remote.node import Node
from unisono.server import BundledServer, ServerSettings

EVENTS = 200  # on each topic


def desk(url: str, ready: Any, told: Any) -> None:
    """A process that listens, and tells what it heard."""

    async def listen() -> list[str]:
        async with unisono.connect(url) as bus, bus.subscribe("trades", "news.*") as events:
            ready.release()
            return [(await events.get_one(timeout=30)).id for _ in range(3 * EVENTS)]

    told.put(asyncio.run(listen()))


async def publish(url: str, topic: str) -> None:
    """Publish without waiting for each; leaving the bus waits for all."""
    async with unisono.connect(url) as bus:
        for n in range(EVENTS):
            bus.publish_nowait(topic, {"n": n})


async def main() -> None:
    """A broker, a node, two desks."""
    context = multiprocessing.get_context("spawn")
    ready, told = context.Semaphore(0), context.Queue()
    with tempfile.TemporaryDirectory() as data:
        server = BundledServer(ServerSettings(data=Path(data)))
        async with server, Node(open_service(server.url), "n1") as node:
            await node.ready()
            desks = [context.Process(target=desk, args=(server.url, ready, told)) for _ in range(2)]
            for process in desks:
                process.start()
            for _ in desks:
                await asyncio.to_thread(ready.acquire)
            await asyncio.gather(*(publish(server.url, t) for t in ("trades", "news.eu", "news.us")))
            first, second = [await asyncio.to_thread(told.get, timeout=60) for _ in desks]
            for process in desks:
                process.join()
    print(f"two desks heard {len(first)} events,", "in one order" if first == second else "in two orders")


if __name__ == "__main__":
    asyncio.run(main())
