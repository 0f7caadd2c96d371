"""What the tests of the server share."""

import asyncio
import functools
import os
import time


async def until(condition, *, within_s=20.0, every_s=0.02):
    """Wait for a condition, not for a time."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(every_s)


def until_now(condition, *, within_s=20.0, every_s=0.02):
    """The same, where there is no event loop."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(every_s)


def is_alive(pid):
    """Whether a process runs: it is there, and no zombie."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def in_a_loop(test):
    """A test that is a coroutine, in an event loop of its own."""

    @functools.wraps(test)
    def run(*given, **named):
        asyncio.run(test(*given, **named))

    return run
