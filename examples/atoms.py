"""One set of topics that everybody shares, sequenced by three nodes: `sequencer="atoms"` (docs/protocols/atoms.md).

Run it as it is: `python examples/atoms.py`. It starts the bundled NATS server in a temporary folder, and three nodes
that share six topics. While events flow a topic is added, and a node gives its topics away and leaves.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

import unisono
from unisono.ens.registry import open_service
from unisono.runtime.remote.admin import look
from unisono.runtime.remote.node import Node
from unisono.runtime.remote.node_options import DEFAULTS
from unisono.server import BundledServer, ServerSettings

TOPICS = ("orders", "payments", "stock", "returns", "audit", "news")
EVENTS = 60  # of each publisher, in each half
ATOMS = msgspec.structs.replace(DEFAULTS, node=msgspec.structs.replace(DEFAULTS.node, sequencer="atoms"))


async def publish(bus: unisono.Bus, topics: tuple[str, ...]) -> None:
    """Publish in turn on all topics."""
    for n in range(EVENTS):
        await bus.publish(topics[n % len(topics)], {"n": n})


async def shares(url: str) -> str:
    """How many topics each node has."""
    control = (await look(url)).control
    counts = Counter(control.owner.values())
    return ", ".join(f"{node} {counts[node]}" for node in control.live)


async def main() -> None:
    """A broker, three nodes, three publishers, two listeners."""
    async with AsyncExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory())
        server = await stack.enter_async_context(BundledServer(ServerSettings(data=Path(data), port=0)))
        url, nodes = server.url, []
        for name in ("n1", "n2", "n3"):
            node = await stack.enter_async_context(Node(open_service(url), name, ATOMS))
            await node.ready()
            nodes.append(node)
        buses = [await stack.enter_async_context(unisono.connect(url, sequencer="atoms")) for _ in range(3)]
        listeners = [await stack.enter_async_context(bus.subscribe(*TOPICS)) for bus in buses[:2]]

        await asyncio.gather(*(publish(bus, TOPICS) for bus in buses))
        print("topics:", await shares(url))

        for events in listeners:
            await events.add("prices")
        leaving = asyncio.create_task(nodes[0].drain(timeout_s=20))
        await asyncio.gather(*(publish(bus, (*TOPICS, "prices")) for bus in buses))
        await leaving
        print("topics, without n1:", await shares(url))

        count = 2 * EVENTS * len(buses)
        heard = [[(await e.get_one(timeout=30)).id for _ in range(count)] for e in listeners]
        orders = "in one order" if heard[0] == heard[1] else "in two orders"
        print(f"two listeners heard {len(heard[0])} events, {orders}")


if __name__ == "__main__":
    asyncio.run(main())
