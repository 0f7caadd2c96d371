"""An exchange without anybody who sequences: `connect(..., nodes=False)`, for those who want deadlines and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from unisono.engines.plan import Plan
from unisono.ens.port import EventNotificationService
from unisono.model.durability import Durability
from unisono.model.errors import ConfigError
from unisono.runtime.known_ids import KnownIds
from unisono.runtime.options import Options
from unisono.runtime.receipts import Flight

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.lane import Lane
    from unisono.runtime.recorder import Recorder
    from unisono.runtime.subscription import Subscription


class Nobody:
    """Gives no places; what is published is told from bus to bus."""

    linger_s = 0.0
    is_quiet = False
    is_full = False
    durability: Durability = "none"
    trouble = ""
    unconfirmed = retries = rejected = 0
    plan: Plan | None = None

    def __init__(self, service: EventNotificationService) -> None:
        self.service = service
        self.full: dict[Lane, None] = {}
        self.ids = KnownIds()

    async def open(self) -> None:
        """Always ready."""

    def welcome(self, bus: Bus) -> int:
        """Take in a bus; returns its incarnation."""
        return time.time_ns()

    async def part(self, bus: Bus) -> None:
        """A bus publishes and subscribes no more."""

    def subscription(
        self, name: str, asked: frozenset[str], options: Options, recorder: Recorder | None
    ) -> Subscription:
        """None that would have to be sequenced."""
        raise ConfigError(
            f"order={options.order!r} needs nodes, and this bus was connected with nodes=False; "
            "use order='causal' with deadline=, or leave nodes= out"
        )

    def is_held(self, topic: str) -> bool:
        """Nobody can tell."""
        return True

    def depart(self, flight: Flight) -> None:
        """What could be told has been told."""
        flight.land(None)
        self.ids.landed(flight)

    def apply_plan(self, plan: Plan) -> tuple[str, ...]:
        """There is nothing to plan."""
        raise ConfigError("this bus was connected with nodes=False; nobody sequences its events")

    def park(self, resume: Callable[[], None]) -> None:
        """Nobody ever waits."""

    def unpark(self, resume: Callable[[], None]) -> None:
        """Nobody ever waits."""

    def make_room(self, lane: Lane) -> None:
        """Nobody ever waits."""
