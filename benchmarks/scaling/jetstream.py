"""One JetStream stream over all topics, in the roles of `benchmarks.scaling.system`: the stream's order is everybody's.

It is on disk, as what nodes share is. A subscriber is an ordered push consumer that asks for its topics only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import nats
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, StreamConfig

from benchmarks.peers.jetstream import STREAM, SUBJECTS, WINDOW
from benchmarks.peers.kit import Publishing, Row, say, told
from benchmarks.scaling.system import Load, Work, hear, phases_of
from unisono.cli.loop import run_loop
from unisono.server import BundledServer, ServerSettings


async def serve(work: Work) -> None:
    """A server with a stream, until our input ends."""
    settings = ServerSettings(data=Path(work.folder) / "nats", monitor_port=0)
    async with BundledServer(settings) as server:
        connection = await nats.connect(server.url)
        await connection.jetstream().add_stream(StreamConfig(name=STREAM, subjects=[SUBJECTS]))
        await connection.close()
        say({"url": server.url, "monitor": server.monitor_url, "server": server.pid, "nodes": []})
        await told()


async def subscribe(work: Work) -> None:
    """Subscribe, and say of each phase what was heard."""
    phases = phases_of(work)
    async with AsyncExitStack() as stack:
        for i, held in enumerate(work.holdings):
            connection = await nats.connect(work.url)
            stack.push_async_callback(connection.close)
            wanted = (
                None
                if len(held) == work.topics
                else ConsumerConfig(filter_subjects=[work.names[topic] for topic in held])
            )
            await connection.jetstream().subscribe(
                SUBJECTS,
                stream=STREAM,
                ordered_consumer=True,
                config=wanted,
                cb=_taking([phase.rows[i] for phase in phases]),
            )
            await connection.flush()
        await hear(phases, [])
    say([phase.judge(work) for phase in phases])
    await told()  # not before what we spent has been counted


def _taking(rows: list[Row]) -> Callable[[Msg], Awaitable[None]]:
    """The rows of the phases, one after the other."""
    at = 0

    async def take(message: Msg) -> None:
        nonlocal at
        while rows[at].done_ns and at + 1 < len(rows):
            at += 1
        rows[at].take(message.data)

    return take


async def publish(work: Work) -> None:
    """Of each phase: wait for the word, publish one by one, say when."""
    loads = [Load(work, events, rate) for events, rate in work.phases]
    connection = await nats.connect(work.url)
    stream = connection.jetstream(publish_async_max_pending=WINDOW)
    say({"ready": True})
    for load in loads:
        await told()
        async for burst in load.bursts():
            for topic, payload in burst:
                await stream.publish_async(topic, payload)
        await stream.publish_async_completed()
        say(Publishing(first_ns=load.first_ns, last_ns=time.monotonic_ns()))
    await told()
    await connection.close()


if __name__ == "__main__":
    roles = {"serve": serve, "subscribe": subscribe, "publish": publish}
    run_loop(roles[sys.argv[1]](msgspec.json.decode(sys.argv[2], type=Work)))
