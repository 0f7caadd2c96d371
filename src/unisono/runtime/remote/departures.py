"""Events that were sent to nodes and have no place yet, and the flights they are on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from unisono.model.frames import Run
from unisono.model.ids import EventId
from unisono.runtime.known_ids import KnownIds
from unisono.runtime.receipts import Flight

if TYPE_CHECKING:
    from unisono.runtime.observer import Observer

UNDER_WAY_MAX = 4096  # events that wait for their places before the bus has to wait


class Departures:
    """The flights of one bus; the events of a flight count up by one."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}  # topic -> the highest number that an event of ours was given
        self.ids = KnownIds()
        self.observer: Observer | None = None
        self._flights: dict[int, Flight] = {}  # n -> where it sits
        self._missing: dict[Flight, int] = {}  # how many of a flight have no place yet
        self._parked: dict[Callable[[], None], None] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def depart(self, flight: Flight) -> None:
        """A flight is on its way."""
        first, count = flight.publications[0].n, len(flight.publications)
        self._flights.update(dict.fromkeys(range(first, first + count), flight))
        self._missing[flight] = count
        flight.stamps = {}

    def crash(self, error: Exception) -> None:
        """What is under way will never be confirmed to us."""
        for flight in dict.fromkeys(self._flights.values()):
            flight.crash(error)
        self._flights.clear()
        self._missing.clear()

    def placed(self, id: EventId, entries: dict[str, int], *, repeated: bool) -> None:
        """An event has its place, or that of an earlier one with the same key."""
        flight = self._flights.pop(id.n, None)
        if flight is None:
            return
        seat = id.n - flight.publications[0].n
        if repeated:
            flight.known = {seat, *(flight.known or ())}
        flight.place(seat, entries)
        if self.observer is not None:
            self.observer.confirmed(flight.publications[seat])
        self._seated(flight, 1)

    def placed_run(self, run: Run) -> None:
        """All events of a run have their places; some may have been told of alone."""
        for topic, count in run.counts.items():
            self.tell(topic, run.base[run.index[topic]] + count)
        found: dict[Flight, tuple[list[int], list[int]]] = {}
        flights, observer = self._flights, self.observer
        for place, publication in enumerate(run.publications):
            flight = flights.pop(publication.n, None)
            if flight is None:
                continue
            seats, places = found.get(flight) or found.setdefault(flight, ([], []))
            seats.append(publication.n - flight.publications[0].n)
            places.append(place)
            if observer is not None:
                observer.confirmed(publication)
        for flight, (seats, places) in found.items():
            flight.place_many(seats, run, places)
            self._seated(flight, len(seats))

    def tell(self, topic: str, number: int) -> None:
        """An event of ours was given this number."""
        self.told[topic] = max(number, self.told.get(topic, 0))

    def refused(self, id: EventId, error: Exception) -> None:
        """An event will never have a place."""
        flight = self._flights.pop(id.n, None)
        if flight is not None:
            flight.refuse(id.n - flight.publications[0].n, error)
            self._seated(flight, 1)

    def _seated(self, flight: Flight, count: int) -> None:
        self._missing[flight] -= count
        if not self._missing[flight]:
            del self._missing[flight]
            flight.land(None)
            self.ids.landed(flight)
        if self._parked and not self.is_full:
            parked, self._parked = self._parked, {}
            for resume in parked:
                asyncio.get_running_loop().call_soon(resume)

    # Back-pressure.

    @property
    def is_full(self) -> bool:
        """Whether publishers have to wait."""
        return len(self._flights) >= UNDER_WAY_MAX

    def park(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room again."""
        self._parked[resume] = None

    def unpark(self, resume: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._parked.pop(resume, None)
