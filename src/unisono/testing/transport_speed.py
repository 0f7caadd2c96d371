"""How many frames a second a transport carries: `python -m unisono.testing.transport_speed [URL ...]`.

Without URLs it starts each server that this machine has, and tries every mode. One publisher and one subscriber, each
with a connection of its own, in one process: both ends and the broker share the machine's cores.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import ExitStack

from unisono.ens.registry import open_service
from unisono.testing.servers import mosquitto_server, nats_server, redis_server, why_no_mosquitto

FRAME = bytes(100)
FLUSH_EVERY = 10_000
SECONDS_MAX = 60.0


async def measure(url: str, frames: int) -> float:
    """Frames a second from `publish` to `notify`."""
    here, there = open_service(url), open_service(url)
    await here.connect()
    await there.connect()
    heard, everything = 0, asyncio.Event()

    def notify(frame: bytes) -> None:
        nonlocal heard
        heard += 1
        if heard >= frames:
            everything.set()

    try:
        await there.subscribe(frozenset({"speed.test"}), notify)
        start = time.perf_counter()
        for n in range(1, frames + 1):
            here.publish(("speed.test",), FRAME)
            if n % FLUSH_EVERY == 0:
                await here.flush()
        await here.flush()
        async with asyncio.timeout(SECONDS_MAX):
            await everything.wait()
        return frames / (time.perf_counter() - start)
    finally:
        await here.close()
        await there.close()


def main(urls: list[str]) -> None:
    """Print a line for each URL."""
    with ExitStack() as stack:
        if not urls:
            nats = stack.enter_context(nats_server(jetstream=True)).url
            redis = stack.enter_context(redis_server()).url
            urls = [nats, f"{nats}?jetstream=SPEED", redis, f"{redis}?mode=pubsub"]
            if why_no_mosquitto() is None:
                mqtt = stack.enter_context(mosquitto_server()).url
                urls += [mqtt, f"{mqtt}?qos=0"]
        for url in urls:
            speed = asyncio.run(measure(url, 10_000 if url.startswith("mqtt") else 50_000))
            print(f"{speed:10,.0f} frames/s  {url}")


if __name__ == "__main__":
    main(sys.argv[1:])
