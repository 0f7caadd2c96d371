"""Durable subscribers: their places are kept, one session holds each, and nothing is skipped."""

import asyncio

import pytest
from remote_kit import QUICK, connect, nodes, run, take

from unisono import ConfigError
from unisono.model.errors import HeldError, QuotaError


async def until(condition, timeout=10):
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_place_is_begun_and_kept(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                for n in range(40):
                    await bus.publish("ab"[n % 2], n)
                got = await take(events, 40)
                assert [event.data for event in got] == list(range(40))
                assert not any(event.redelivered for event in got)
                assert events.position.acknowledged == 39  # the last one is still being dealt with
                await until(lambda: events.position.kept == 39)
                assert events.position.clock == {"a": 20, "b": 19}
            assert events.position.kept == 40

    run(main())
