"""A feed that publishes one event after the other, as fast as it goes: they travel in bundles, and nobody has to care.

Run it as it is: `python examples/busy_feed.py`. It starts the bundled NATS server in a temporary folder.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import unisono
from unisono.ens.registry import open_service
from unisono.runtime.remote.node import Node
from unisono.server import BundledServer, ServerSettings

EVENTS = 20_000
TOPICS = ("quotes.bonds", "quotes.shares", "trades")


async def listen(bus: unisono.Bus, ready: asyncio.Event) -> list[str]:
    """Take events one by one."""
    async with bus.subscribe(*TOPICS) as events:
        ready.set()
        return [(await events.get_one(timeout=60)).id for _ in range(EVENTS)]


async def main() -> None:
    """A broker, a node, a feed and two listeners with connections of their own."""
    with tempfile.TemporaryDirectory() as data:
        server = BundledServer(ServerSettings(data=Path(data)))
        async with (
            server,
            Node(open_service(server.url), "n1") as node,
            unisono.connect(server.url, name="feed") as feed,
            unisono.connect(server.url, name="first") as first,
            unisono.connect(server.url, name="second") as second,
        ):
            await node.ready()
            listeners = []
            for bus in (first, second):
                ready = asyncio.Event()
                listeners.append(asyncio.create_task(listen(bus, ready)))
                await ready.wait()
            begun = time.perf_counter()
            for n in range(EVENTS):
                feed.publish_nowait(TOPICS[n % len(TOPICS)], {"n": n})
                if n % 1000 == 0:
                    await feed.flush()  # lets others have their turn, and waits when too much is under way
            one, other = await asyncio.gather(*listeners)
            seconds = time.perf_counter() - begun
    assert one == other, "they heard different orders"
    print(f"{EVENTS:,} events, two listeners, one order, {EVENTS / seconds:,.0f} events/s in one process")


if __name__ == "__main__":
    asyncio.run(main())
