"""What a publisher holds until its event has its place in the order.

Events published in one turn of the event loop fly together; a receipt is a seat in a flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import msgspec

from unisono.model.frames import Publication, Run

FLIGHT_EVENTS_MAX = 4096


class Flight:
    """Publications on their way together, and who waits for their arrival."""

    __slots__ = ("_waiters", "arrived", "error", "publications", "run", "seats")

    def __init__(self) -> None:
        self.publications: list[Publication] = []
        self.arrived = False
        self.run: Run | None = None  # where their stamps are, if they were sequenced
        self.seats: dict[int, int] | None = None  # seat -> place in the run; None: the same
        self.error: Exception | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def land(self, run: Run | None, seats: dict[int, int] | None = None) -> None:
        """All of them have their places."""
        self.arrived, self.run, self.seats = True, run, seats
        self._wake()

    def crash(self, error: Exception) -> None:
        """None of them will be published."""
        self.arrived, self.error = True, error
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def arrival(self) -> None:
        """Return when they have arrived."""
        if not self.arrived:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        if self.error is not None:
            raise self.error


class Receipt(msgspec.Struct, eq=False, gc=False):
    """Proof of publication; `await` it to know that the event has its place in the order."""

    _flight: Flight
    _seat: int

    def __await__(self) -> Generator[Any, Any, Receipt]:
        yield from self._flight.arrival().__await__()
        return self

    @property
    def id(self) -> str:
        """The id the event was published with, or one that is its alone."""
        publication = self._flight.publications[self._seat]
        return publication.key or str(publication.id)

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        return self._flight.publications[self._seat].topic

    @property
    def sequenced(self) -> bool:
        """Whether it has its place in the order."""
        return self._flight.arrived and self._place is not None

    @property
    def stamp(self) -> dict[str, int]:
        """Its stamp; empty while it is under way, and for topics that nobody wants ordered."""
        run, place = self._flight.run, self._place
        return {} if run is None or place is None else dict(run.entries(place))

    @property
    def _place(self) -> int | None:
        if self._flight.run is None:
            return None
        return self._seat if self._flight.seats is None else self._flight.seats.get(self._seat)

    def __repr__(self) -> str:
        return f"Receipt({self.topic!r}, id={self.id!r}, stamp={self.stamp})"
