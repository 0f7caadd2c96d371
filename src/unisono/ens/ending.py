"""Ending a task for certain: clients of brokers may swallow a cancellation, and then it goes on."""

from __future__ import annotations

import asyncio
from typing import Any

ATTEMPTS = 50
PATIENCE_S = 0.1


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task until it has ended; whatever it raises is no longer of interest."""
    for _ in range(ATTEMPTS):
        if task is None or task.done():
            break
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE_S)
    if task is not None and task.done() and not task.cancelled():
        task.exception()
