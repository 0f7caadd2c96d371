"""What the tests of the bus share: one loop per test, waiting with a bound, and the judges."""

import asyncio
import time

from unisono import UnisonoError
from unisono.history import History, Kind, Outcome, Record, judge

PATIENCE_S = 10.0


def run(scenario):
    """Run a coroutine function in a loop of its own; it must come to its end, and leave no task behind."""

    async def bounded():
        async with asyncio.timeout(60):
            result = await scenario()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        return result

    return asyncio.run(bounded())


async def until(condition, patience_s=PATIENCE_S):
    """Wait until `condition()` is true."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.001)


async def take(events, count, timeout=PATIENCE_S):
    """The next `count` events."""
    return [await events.get_one(timeout=timeout) for _ in range(count)]


async def take_to_the_end(events):
    """The payloads of all events until the subscription ends, and the error it ends with, if any."""
    got = []
    try:
        async for event in events:
            got.append(event.data)  # noqa: PERF401 (what was taken before the error counts)
    except UnisonoError as error:
        return got, error
    return got, None


def numbers(events):
    """The payloads, where they are numbers."""
    return [event.data for event in events]


def healed(records):
    """The history with a note that the world does no more harm, so that what is owed can be judged."""
    return [*records, Record(Kind.HEALED, "test", 1, time.time())]


def assert_held(records, *promises):
    """Each of the promises was kept, and could be judged."""
    for verdict in judge(History(healed(records)), promises):
        assert verdict.outcome is Outcome.HELD, f"{verdict.promise}: {verdict.explanation}"
        assert verdict.checked > 0, f"{verdict.promise}: nothing was examined"
