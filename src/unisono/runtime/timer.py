"""Hands an engine its Ticks: one timer, set to the time the engine named, or an earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timed(Protocol):
    """An engine, or an engine behind its links."""

    def next_timer(self) -> float | None:
        """When to hand in a Tick, or None for never."""
        ...


class EngineTimer:
    """Calls `tick` when the engine's next timer is due."""

    __slots__ = ("_due", "_engine", "_handle", "_loop", "_tick")

    def __init__(self, engine: Timed, tick: Callable[[], None]) -> None:
        self._engine = engine
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._due: float | None = None

    def reset(self) -> None:
        """Look at the engine's timer again; to be called after each input.

        A timer that is put off stays where it is, and looks again when it is due: mostly they are put off.
        """
        due = self._engine.next_timer()
        if due is None or (self._due is not None and self._due <= due):
            return
        self.cancel()
        self._due = due
        self._handle = self._loop.call_at(due, self._fire)

    def _fire(self) -> None:
        self._handle = self._due = None
        due = self._engine.next_timer()
        if due is not None and due <= self._loop.time():
            self._tick()
        else:
            self.reset()

    def cancel(self) -> None:
        """Forget the timer."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._due = None
