"""Events for `unisono bench spark`, published by a process of its own: python -m unisono.cli.bench_spark_load COUNT RATE."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import unisono

TOPICS = ("desk.a", "desk.b", "desk.c")
MANY = 2000
PAYLOAD = 64


async def publish(url: str, count: int, rate: float) -> float:
    """So many events, at most so many a second (0: as fast as it goes); how many a second it were."""
    async with unisono.connect(url, name="load", publish_timeout=120) as bus:
        began = time.monotonic()
        for first in range(0, count, MANY):
            if rate and (ahead_s := began + first / rate - time.monotonic()) > 0:
                await asyncio.sleep(ahead_s)
            numbers = range(first, min(count, first + MANY))
            await bus.publish_many([(TOPICS[n % len(TOPICS)], b"%0*d" % (PAYLOAD, n)) for n in numbers])
        return count / (time.monotonic() - began)


if __name__ == "__main__":
    speed = asyncio.run(publish(os.environ["UNISONO_URL"], int(sys.argv[1]), float(sys.argv[2])))
    sys.stdout.write(f"{speed:.0f} {time.process_time():.2f}\n")
