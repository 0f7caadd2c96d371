"""Whether a bus publishes so much that events should wait a moment for each other.

While little is published nothing waits. From some thousands of events a second on, each one alone would cost every
subscriber a frame: then they are sent every few milliseconds, together.
"""

from __future__ import annotations

WINDOW_S = 0.02  # over which events are counted
BUSY_EVENTS = 40  # in a window: 2,000 events/s
LINGER_S = 0.004
STALE_S = 0.1  # after a silence nobody is busy


class Pace:
    """How much was published lately."""

    __slots__ = ("_begun", "_busy", "_count")

    def __init__(self) -> None:
        self._begun = 0.0  # of the window that is counted
        self._count = 0
        self._busy = False  # in the window before

    def add(self, count: int, now: float) -> None:
        """So many events are sent."""
        elapsed = now - self._begun
        if elapsed >= WINDOW_S:
            self._busy = self._count >= BUSY_EVENTS * elapsed / WINDOW_S
            self._begun, self._count = now, 0
        self._count += count

    def linger_s(self, now: float) -> float:
        """How long the next event waits for others."""
        return LINGER_S if self._busy and now - self._begun < STALE_S else 0.0
