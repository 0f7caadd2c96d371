"""Readings without a broker: dispatchers over UDP that lose a tenth of everything, one of them killed, and what came.

python examples/edge.py
"""

from __future__ import annotations

import asyncio
import json
import sys

import unisono

READINGS = 300
LOSS = 0.1


async def dispatcher(*join: str) -> tuple[asyncio.subprocess.Process, str]:
    """A `unisono dispatcher` on a free port, and its URL."""
    words = ["dispatcher", "--json", "--listen", "udp://127.0.0.1:0", "--loss", str(LOSS)]
    for url in join:
        words += ["--join", url]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "unisono", *words, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    return process, json.loads(await process.stdout.readline())["url"]


async def main() -> None:
    """Four dispatchers, a sensor at one end, an alarm at the other."""
    first, a = await dispatcher()
    second, b = await dispatcher(a)
    third, c = await dispatcher(a, b)
    fourth, d = await dispatcher(b, c)
    try:
        async with (
            unisono.connect(f"{d}?loss={LOSS}") as control,
            control.subscribe("readings", order="none", where="celsius > 30") as alarms,
            unisono.connect(f"{a}?loss={LOSS}") as sensor,
        ):
            await asyncio.sleep(1.0)  # until the other end knows what is wanted
            for n in range(READINGS):
                sensor.publish_nowait("readings", {"n": n, "celsius": 20 + n % 20})
                if n == READINGS // 2:
                    second.kill()
                await asyncio.sleep(0.01)
            wanted = [n for n in range(READINGS) if n % 20 > 10]
            came: list[int] = []
            try:
                while len(came) < len(wanted):
                    came.append((await alarms.get_one(timeout=5)).data["n"])
            except TimeoutError:
                pass
            twice = len(came) - len(set(came))
            print(f"{len(set(came))} of {len(wanted)} alarms came, {twice} of them twice")
            print(f"{LOSS:.0%} of all datagrams were thrown away, and one of four dispatchers was killed")
    finally:
        for process in (first, second, third, fourth):
            if process.returncode is None:
                process.kill()
            await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
