"""How long publishers wait when topics and members come and go under load: three nodes, real NATS, both sequencers.

    python benchmarks/atoms/pauses.py [--changes 40] [--rate 200]

Two trees of topics: listeners of the first gain and lose topics, members of it come and go; nobody touches the second.
A pause is the longest time that an event published within half a second of a change waited for its place. Changes
during which this process itself stood still for a fifth of a second are not counted, and told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import unisono

TREES = {"changed": ("a.1", "a.2", "a.3", "a.4"), "left alone": ("b.1", "b.2", "b.3", "b.4")}
WINDOW_S = 0.5
TICK_S, STILL_S = 0.02, 0.2
Waits = dict[str, list[tuple[float, float]]]  # tree -> when an event was published, and how long it waited


async def load(bus: unisono.Bus, tree: str, rate: float, waits: Waits) -> None:
    """Publish at this rate until cancelled, whether the events before have their places or not."""
    n, begun, tasks = 0, time.monotonic(), set()

    async def one(topic: str) -> None:
        at = time.monotonic()
        await bus.publish(topic, n)
        waits[tree].append((at, time.monotonic() - at))

    while True:
        task = asyncio.create_task(one(TREES[tree][n % 4]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        n += 1
        await asyncio.sleep(max(0.0, begun + n / rate - time.monotonic()))


async def heard(events: unisono.Subscription) -> None:
    """Take everything."""
    async for _ in events:
        pass


async def watch(stood_still: list[float]) -> None:
    """Note when this process, and so probably the machine, stood still."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(TICK_S)
        if time.monotonic() - before > STILL_S:
            stood_still.append(time.monotonic())


def worst(waits: list[tuple[float, float]], at: float) -> float:
    """The longest wait of what was published just before a change, or in the half second after it."""
    return 1000 * max((waited for when, waited in waits if at - 0.05 <= when <= at + WINDOW_S), default=0.0)


def told(name: str, found: list[float]) -> str:
    """Median, 99th percentile and worst, in milliseconds."""
    found = sorted(found) or [0.0]
    p99 = found[min(len(found) - 1, int(0.99 * len(found)))]
    return f"{name:>18}: p50 {found[len(found) // 2]:7.1f}  p99 {p99:7.1f}  max {found[-1]:7.1f} ms  ({len(found)})"


async def measure(url: str, changes: int, rate: float) -> list[str]:
    """Both kinds of change, one after the other."""
    waits: Waits = {tree: [] for tree in TREES}
    still: list[float] = []
    async with AsyncExitStack() as stack:
        listeners, tasks = [], [asyncio.create_task(watch(still))]
        for i in range(4):
            bus = await stack.enter_async_context(unisono.connect(url, name=f"l{i}"))
            tree = "changed" if i < 2 else "left alone"
            listeners.append(await stack.enter_async_context(bus.subscribe(*TREES[tree])))
            tasks.append(asyncio.create_task(heard(listeners[-1])))
        for tree in TREES:
            bus = await stack.enter_async_context(
                unisono.connect(url, name=f"p-{tree[:4]}", publish_timeout=3600.0)
            )
            tasks.append(asyncio.create_task(load(bus, tree, rate, waits)))
        await asyncio.sleep(2.0)
        spare = await stack.enter_async_context(unisono.connect(url, name="spare"))

        async def nothing(i: int) -> None:
            await asyncio.sleep(0)

        async def add_topic(i: int) -> None:
            await asyncio.gather(*(events.add(f"a.new.{i}") for events in listeners[:2]))

        async def add_member(i: int) -> None:
            async with spare.subscribe(*TREES["changed"][:3], name=f"m{i}"):
                pass

        lines = []
        kinds: dict[str, Callable[[int], Awaitable[None]]] = {
            "nothing changes": nothing,
            "a member comes and goes": add_member,
            "a topic is added": add_topic,
        }
        for kind, change in kinds.items():
            took: list[float] = []
            pauses: dict[str, list[float]] = {tree: [] for tree in TREES}
            left_out = 0
            for i in range(changes):
                at = time.monotonic()
                await change(i)
                done = time.monotonic()
                await asyncio.sleep(max(0.0, at + 2 * WINDOW_S - time.monotonic()))
                if still and still[-1] >= at:
                    left_out += 1
                    continue
                took.append(1000 * (done - at))
                for tree in TREES:
                    pauses[tree].append(worst(waits[tree], at))
            lines.append(f"{kind}: {changes} times, {left_out} left out")
            lines += [told(f"{tree} tree", pauses[tree]) for tree in TREES]
            lines.append(told("the call itself", took))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return lines


async def main() -> None:
    """A system of each kind, one after the other."""
    options = argparse.ArgumentParser()
    options.add_argument("--changes", type=int, default=40)
    options.add_argument("--rate", type=float, default=200.0)
    options.add_argument("--nodes", type=int, default=3)
    given = options.parse_args()
    for sequencer in ("topics", "atoms"):
        with tempfile.TemporaryDirectory() as data:
            command = ["up", "--port", "0", "--data", data, "--json", "--sequencer", sequencer]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "unisono", *command, "--nodes", str(given.nodes),
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                assert process.stdout is not None
                url = json.loads(await asyncio.wait_for(process.stdout.readline(), 90))["url"]
                print(f"sequencer={sequencer}, {given.nodes} nodes, 2 x {given.rate:g} events/s")
                for line in await measure(url, given.changes, given.rate):
                    print(line, flush=True)
            finally:
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
