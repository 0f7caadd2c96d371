"""Events that were sent to nodes and have no place yet, and the flights they are on."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from unisono.model.frames import Publication, Run, Sequenced
from unisono.model.ids import EventId
from unisono.runtime.known_ids import KnownIds
from unisono.runtime.receipts import Flight, Span

if TYPE_CHECKING:
    from unisono.runtime.observer import Observer

UNDER_WAY_MAX = (
    4096  # events that wait for their places before the bus has to wait, for each node that gives us some
)
NODES_MAX = 16  # that count for this

_n = attrgetter("n")


class Departures:
    """The flights of one bus; its events, and so those of a flight, count up by one."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}  # topic -> the highest number that an event of ours was given
        self.ids = KnownIds()
        self.observer: Observer | None = None
        self.count = 0  # events that have no place yet
        self._count_max = UNDER_WAY_MAX
        self._owner: Mapping[str, str] = {}  # node by topic
        self._owners: set[str] = set()  # of the topics on which we publish
        self._flights: list[Flight] = []  # that they are on, in their order
        self._firsts: list[int] = []  # the first event of each of these
        self._missing: list[int] = []  # how many of each have no place yet
        self._parked: dict[Callable[[], None], None] = {}

    def depart(self, flight: Flight) -> None:
        """A flight is on its way."""
        count = len(flight.publications)
        self._flights.append(flight)
        self._firsts.append(flight.publications[0].n)
        self._missing.append(count)
        self.count += count
        flight.stamps = {}

    def crash(self, error: Exception) -> None:
        """What is under way will never be confirmed to us."""
        flights = self._flights
        self._flights, self._firsts, self._missing, self.count = [], [], [], 0
        for flight in flights:
            flight.crash(error)
        self._resume()

    def placed(self, sequenced: Sequenced) -> None:
        """An event has its place, or that of an earlier one with the same key."""
        n, entries = sequenced.id.n, sequenced.entries
        self.tell(sequenced.topic, entries[sequenced.topic])
        at = self._find(n)
        if at is None:
            return
        flight, seat = self._flights[at], n - self._firsts[at]
        if flight.has_answer(seat):
            return
        if sequenced.repeated:
            flight.known = {seat, *(flight.known or ())}
        flight.place(seat, entries)
        if self.observer is not None:
            self.observer.confirmed(flight.publications[seat])
        self._seated(at, 1)

    def placed_run(self, run: Run) -> None:
        """All events of a run have their places; some may have been told of alone."""
        for topic, count in run.counts.items():
            self.tell(topic, run.base[run.index[topic]] + count)
        publications, start = run.publications, 0
        while start < len(publications):
            at = self._find(publications[start].n)
            if at is None:
                start += 1
                continue
            first = self._firsts[at]
            end = bisect_left(publications, first + len(self._flights[at].publications), start, key=_n)
            span = Span(_seats(publications, start, end, first), run, start)
            if self.observer is not None:
                self._observe(self.observer, self._flights[at], span)
            start = end
            self._seated(at, self._flights[at].place_many(span))

    def _observe(self, observer: Observer, flight: Flight, span: Span) -> None:
        for seat in span.seats:
            if not flight.has_answer(seat):
                observer.confirmed(flight.publications[seat])

    def tell(self, topic: str, number: int) -> None:
        """An event of ours was given this number."""
        if topic not in self.told:
            self._share(topic)
        self.told[topic] = max(number, self.told.get(topic, 0))

    def refused(self, id: EventId, error: Exception) -> None:
        """An event will never have a place."""
        at = self._find(id.n)
        if at is None or self._flights[at].has_answer(id.n - self._firsts[at]):
            return
        self._flights[at].refuse(id.n - self._firsts[at], error)
        self._seated(at, 1)

    def _find(self, n: int) -> int | None:
        """Which flight an event is on."""
        at = bisect_right(self._firsts, n) - 1
        return at if at >= 0 and n - self._firsts[at] < len(self._flights[at].publications) else None

    def _seated(self, at: int, count: int) -> None:
        self.count -= count
        self._missing[at] -= count
        if not self._missing[at]:
            flight = self._flights.pop(at)
            del self._firsts[at], self._missing[at]
            flight.land(None)
            self.ids.landed(flight)
        self._resume()

    # Back-pressure.

    def owned(self, owner: Mapping[str, str]) -> None:
        """Who gives places on each topic: a node that has its hands full leaves the others room."""
        self._owner, self._owners = owner, set()
        self._count_max = UNDER_WAY_MAX
        for topic in self.told:
            self._share(topic)

    def _share(self, topic: str) -> None:
        """Leave room for the events of a topic on which we publish."""
        self._owners.add(self._owner.get(topic, ""))
        self._count_max = UNDER_WAY_MAX * min(len(self._owners), NODES_MAX)
        self._resume()

    def _resume(self) -> None:
        """There may be room: call whoever waits for some."""
        if self._parked and not self.is_full:
            parked, self._parked = self._parked, {}
            for resume in parked:
                asyncio.get_running_loop().call_soon(resume)

    @property
    def is_full(self) -> bool:
        """Whether publishers have to wait."""
        return self.count >= self._count_max

    def park(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room again."""
        self._parked[resume] = None

    def unpark(self, resume: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._parked.pop(resume, None)


def _seats(publications: list[Publication], start: int, end: int, first: int) -> Sequence[int]:
    """The seats of some events on a flight that begins with the event `first`."""
    seat, last = publications[start].n - first, publications[end - 1].n - first
    if last - seat == end - 1 - start:
        return range(seat, last + 1)
    return [publication.n - first for publication in publications[start:end]]
