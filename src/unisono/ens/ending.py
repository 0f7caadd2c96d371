"""Ending tasks for certain: a cancellation may be swallowed on its way, and then a task goes on.

`asyncio.wait_for` of Python 3.11 does so when what it waits for is done in the same turn, and clients of brokers
send with it. So a task is cancelled again until it has ended, but not so soon that its own tidying up is cut short.
"""

from __future__ import annotations

import asyncio
from typing import Any

PATIENCE_S = (0.25, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0)  # between two attempts; their sum is the bound


async def end(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks until all have ended; whatever they raise is no longer of interest."""
    mine = asyncio.current_task()
    ending = [task for task in tasks if task is not None and task is not mine]
    for patience_s in PATIENCE_S:
        running = [task for task in ending if not task.done()]
        if not running:
            break
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=patience_s)
    for task in ending:
        if task.done() and not task.cancelled():
            task.exception()
