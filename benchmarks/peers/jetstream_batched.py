"""JetStream with batches made by hand: a message carries up to a hundred events, as one would write it for speed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import nats
from nats.aio.msg import Msg

from benchmarks.peers.jetstream import WINDOW, JetStream
from benchmarks.peers.kit import Load, Publish, Row, Work, main

BATCH = 100
SUBJECT = "topic.batch"


class BatchedJetStream(JetStream):
    """The same stream and the same consumers; what is due goes in batches of at most a hundred."""

    @asynccontextmanager
    async def publisher(self, work: Work) -> AsyncIterator[Publish]:
        connection = await nats.connect(work.url)
        stream = connection.jetstream(publish_async_max_pending=WINDOW)
        encode = msgspec.msgpack.Encoder().encode

        async def publish(load: Load) -> None:
            batch: list[tuple[str, bytes]] = []
            async for burst in load.bursts():
                for event in burst:
                    batch.append(event)
                    if len(batch) == BATCH:
                        await stream.publish_async(SUBJECT, encode(batch))
                        batch.clear()
                if batch:
                    await stream.publish_async(SUBJECT, encode(batch))
                    batch.clear()
            await stream.publish_async_completed()

        try:
            yield publish
        finally:
            await connection.close()

    @staticmethod
    def taking(row: Row) -> Callable[[Msg], Coroutine[Any, Any, None]]:
        take, decode = row.take, msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode

        async def heard(message: Msg) -> None:
            for _topic, payload in decode(message.data):
                take(payload)

        return heard


if __name__ == "__main__":
    main(BatchedJetStream())
