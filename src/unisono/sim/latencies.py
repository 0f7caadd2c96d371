"""What events took in a simulation, added up while it runs: worlds of millions of deliveries keep no records.

The measures are those of paper 000: for each event the time until it has its stamp, and from then until the last
subscriber is notified; which share of its notifications came within a limit; how many were tagged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.model.frames import Publication, Stamped
from unisono.sim.recorder import Recorder

Floats = NDArray[np.float64]


class Latencies(NamedTuple):
    """One row for each event that somebody was notified of, in the order of publication."""

    published_at: Floats
    ordering_s: Floats  # until it had its stamp
    diffusion_s: Floats  # from then until the last subscriber was notified
    heard_s: Floats  # from its publication until a subscriber was notified, on average
    within: Floats  # share of its notifications within the limit
    delivered: Floats  # how many
    tagged: Floats  # of those, out of order

    @property
    def total_s(self) -> Floats:
        """From publication until the last subscriber was notified."""
        return self.ordering_s + self.diffusion_s


class _Life:
    """One event."""

    __slots__ = ("delivered", "last_at", "published_at", "sequenced_at", "sum_s", "tagged", "within")

    def __init__(self, published_at: float) -> None:
        self.published_at = self.sequenced_at = self.last_at = published_at
        self.sum_s = 0.0
        self.delivered = self.within = self.tagged = 0


class LatencyRecorder(Recorder):
    """Keeps sums of what becomes of events; records only what is seldom: what is dropped, held, lost."""

    def __init__(self, order: str = "total", limit_s: float = 1.0) -> None:
        super().__init__(order)
        self.limit_s = limit_s
        self._lives: dict[object, _Life] = {}

    def published(self, process: str, publication: Publication, now: float) -> None:
        """An event's life begins."""
        self._lives[publication.id] = _Life(now)

    def sequenced(self, process: str, event: Stamped, now: float) -> None:
        """It has its stamp."""
        self._lives[event.publication.id].sequenced_at = now

    def delivered(self, process: str, event: Stamped, now: float, in_order: bool) -> None:
        """Somebody is notified."""
        life = self._lives[event.publication.id]
        took = now - life.published_at
        life.sum_s += took
        life.delivered += 1
        life.within += took <= self.limit_s
        life.tagged += not in_order
        if now > life.last_at:
            life.last_at = now

    def subscribed(self, process: str, topic: str, floor: int, now: float, on_gap: str) -> None:
        """Not kept."""

    def latencies(self) -> Latencies:
        """What the events took."""
        lives = [life for life in self._lives.values() if life.delivered]
        rows = [
            (
                life.published_at,
                life.sequenced_at - life.published_at,
                life.last_at - life.sequenced_at,
                life.sum_s / life.delivered,
                life.within / life.delivered,
                life.delivered,
                life.tagged,
            )
            for life in lives
        ]
        return Latencies(*np.array(rows, np.float64).reshape(-1, 7).T)
