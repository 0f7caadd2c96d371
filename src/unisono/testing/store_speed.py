"""How fast a store is: `python -m unisono.testing.store_speed [URL ...]`.

Without URLs it starts NATS servers, alone and three together, and Redis servers. Records of 100 bytes are appended to one lane, each expected right
behind the one before, without waiting in between; then the lane is read at once. Client and server share the machine.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from unisono.ens.registry import open_service
from unisono.ens.store import Store, open_store
from unisono.server import BundledCluster, BundledServer, ServerSettings
from unisono.testing.servers import redis_server

RECORD = bytes(100)
RECORDS = 100_000
UNDER_WAY = 20_000
DECISIONS = 300


async def measure(url: str) -> tuple[float, float, float]:
    """Appends a second, records read a second, milliseconds for a decision."""
    service = open_service(url)
    await service.connect()
    try:
        store = await open_store(service)
        await store.drop("speed")
        return await _appends(store), await _reads(store), await _decisions(store)
    finally:
        await service.close()


async def _appends(store: Store) -> float:
    start = time.perf_counter()
    for n in range(0, RECORDS, UNDER_WAY):
        stored = [store.append("speed", RECORD, k) for k in range(n, n + UNDER_WAY)]
        assert [await one for one in stored] == list(range(n + 1, n + UNDER_WAY + 1))
    return RECORDS / (time.perf_counter() - start)


async def _reads(store: Store) -> float:
    start = time.perf_counter()
    records, tail = await store.read("speed")
    speed = RECORDS / (time.perf_counter() - start)
    assert tail == len(records) == RECORDS
    return speed


async def _decisions(store: Store) -> float:
    await store.delete("speed")
    revision = 0
    start = time.perf_counter()
    for _ in range(DECISIONS):
        decided = await store.decide("speed", RECORD, revision)
        assert decided is not None
        revision = decided
    return (time.perf_counter() - start) / DECISIONS * 1000


async def run(urls: list[str]) -> None:
    """Print a line for each URL, or for each store that we start ourselves."""
    async with AsyncExitStack() as stack:
        for what, url in [(url, url) for url in urls] or await _started(stack):
            appends, reads, decision_ms = await measure(url)
            print(
                f"{appends:10,.0f} appends/s {reads:10,.0f} records read/s {decision_ms:6.2f} ms to decide  {what}"
            )


async def _started(stack: AsyncExitStack) -> list[tuple[str, str]]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unisono-")))
    nats = await stack.enter_async_context(BundledServer(ServerSettings(data=folder / "one")))
    always = await stack.enter_async_context(
        BundledServer(ServerSettings(data=folder / "always", sync="always"))
    )
    three = await stack.enter_async_context(BundledCluster(ServerSettings(data=folder / "three")))
    redis = stack.enter_context(redis_server()).url
    second = stack.enter_context(redis_server("--appendfsync", "everysec")).url
    return [
        ("memory://", "memory://"),
        ("nats, memory", f"{nats.url}?durability=memory&prefix=m.&bucket=m"),
        ("nats, disk, synced every second", f"{nats.url}?durability=disk"),
        ("nats, disk, synced always", f"{always.url}?durability=disk"),
        ("nats, replicated on 3 servers", f"{three.url}?durability=replicated"),
        ("nats, disk on one of 3 servers", f"{three.url}?durability=disk&prefix=d.&bucket=d"),
        ("redis, disk, synced every second", second),
        ("redis, disk, synced always", redis),
    ]


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1:]))
