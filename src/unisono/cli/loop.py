"""The event loop of our own processes: uvloop where there is one, or else asyncio's."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

GARBAGE = 20_000  # objects more than before, until it is looked for


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` does, on the fastest loop there is."""
    with asyncio.Runner(loop_factory=factory()) as runner:
        return runner.run(main)


def settle() -> None:
    """Let the collector of garbage look only at what comes from now on, and less often: it stops everything."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 50)


def factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes a loop; None where asyncio's own is the best there is."""
    try:
        import uvloop
    except ImportError:  # Windows, or a Python that has no wheel yet
        return None
    return uvloop.new_event_loop
