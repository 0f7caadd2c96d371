"""Zenoh, peer to peer: no broker, every subscriber is reached by every publisher directly, and nobody orders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import zenoh

from benchmarks.peers.kit import TOPICS, Listening, Load, Peer, Publish, Row, Work, main, versions
from unisono.server.probe import free_ports

HOST = "127.0.0.1"
SUBSCRIBERS_MAX = 10
MEET_S = 30.0


class Zenoh(Peer):
    """eclipse-zenoh: a session for each subscriber, callbacks, publishers that wait rather than drop."""

    def check(self) -> str:
        return versions("eclipse-zenoh")

    @asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[str]:
        yield ",".join(f"tcp/{HOST}:{port}" for port in free_ports(HOST, SUBSCRIBERS_MAX))

    async def subscribe(self, work: Work, rows: Sequence[Row], stack: AsyncExitStack) -> list[Listening]:
        for i, (row, endpoint) in enumerate(zip(rows, work.url.split(","), strict=False)):
            session = zenoh.open(_config(listen=[endpoint]))
            stack.callback(session.close)
            session.declare_subscriber("topic/*", _Taking(row))
            session.declare_subscriber(f"ready/{i}", _ignore)  # behind the other, so that it is seen after it
        return []

    @asynccontextmanager
    async def publisher(self, work: Work) -> AsyncIterator[Publish]:
        session = zenoh.open(_config(connect=work.url.split(",")[: work.subscribers]))
        blocking = zenoh.CongestionControl.BLOCK
        publishers = {
            topic: session.declare_publisher(topic.replace(".", "/"), congestion_control=blocking)
            for topic in TOPICS
        }
        meeting = [session.declare_publisher(f"ready/{i}") for i in range(work.subscribers)]
        async with asyncio.timeout(MEET_S):
            while not all(map(_is_met, meeting)):  # noqa: ASYNC110 (it is another process)
                await asyncio.sleep(0.01)

        async def publish(load: Load) -> None:
            async for burst in load.bursts():
                for topic, payload in burst:
                    publishers[topic].put(payload)

        try:
            yield publish
        finally:
            session.close()  # type: ignore[no-untyped-call]


class _Taking:
    """A callback that gives payloads to a row."""

    def __init__(self, row: Row) -> None:
        self._take = row.take

    def __call__(self, sample: zenoh.Sample) -> None:
        self._take(sample.payload.to_bytes())


def _is_met(publisher: zenoh.Publisher) -> bool:
    """Whether a subscriber for this one is known; the stubs of zenoh are wrong about what they call it."""
    status: Any = publisher.matching_status
    return bool(status.matching)


def _ignore(_sample: zenoh.Sample) -> None:
    """Nothing is published there."""


def _config(*, listen: Sequence[str] = (), connect: Sequence[str] = ()) -> zenoh.Config:
    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("scouting/gossip/enabled", "false")
    config.insert_json5("listen/endpoints", json.dumps(list(listen)))
    config.insert_json5("connect/endpoints", json.dumps(list(connect)))
    return config


if __name__ == "__main__":
    main(Zenoh())
