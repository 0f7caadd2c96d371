"""What a publisher holds until its event has its place in the order.

Events published in one turn of the event loop fly together; a receipt is a seat in a flight.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from unisono.model.errors import BackPressureError, UnconfirmedError, UnisonoError
from unisono.model.frames import Publication, Run

FLIGHT_EVENTS_MAX = 4096
SPANS_FEW = 8  # of a flight: more are looked up by seat


class Span(NamedTuple):
    """Seats whose events have their places in one run: seats in order, and where their places there begin."""

    seats: Sequence[int]  # a range, unless events for other nodes sit between them
    run: Run
    first: int

    def place(self, seat: int) -> int | None:
        """Where in the run the event on a seat is."""
        i = bisect_left(self.seats, seat)
        return self.first + i if i < len(self.seats) and self.seats[i] == seat else None

    def common(self, seats: Mapping[int, object]) -> list[int]:
        """Those of some seats that are of this span."""
        if len(seats) < len(self.seats):
            return [seat for seat in seats if self.place(seat) is not None]
        return [seat for seat in self.seats if seat in seats]


class Flight:
    """Publications on their way together, and who waits for their arrival."""

    __slots__ = (
        "_by_seat",
        "_refused",
        "_seated",
        "_then",
        "_waiters",
        "arrived",
        "error",
        "keyed",
        "known",
        "publications",
        "run",
        "seats",
        "spans",
        "stamps",
        "timed",
    )

    def __init__(self) -> None:
        self.publications: list[Publication] = []
        self.keyed: list[int] = []  # seats of those that were given an id
        self.known: set[int] | None = None  # seats of those that had a place before
        self.arrived = False
        self.timed = False  # whether one of them has a deadline
        self.run: Run | None = None  # where their stamps are, if they were sequenced
        self.seats: dict[int, int] | None = None  # seat -> place in the run; None: the same
        self.stamps: dict[int, dict[str, int]] | None = None  # by seat, of those that nodes placed one by one
        self.spans: list[Span] = []  # those that nodes placed together
        self._by_seat: dict[int, Span] | None = None  # the same, once there are many
        self._refused: dict[int, Exception] | None = None  # seats that will never have a place
        self._then: Callable[[Flight], object] | None = None
        self.error: Exception | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._seated: dict[int, list[asyncio.Future[None]]] = {}  # who waits for one of them only

    def land(self, run: Run | None, seats: dict[int, int] | None = None) -> None:
        """All of them have their places."""
        self.arrived, self.run, self.seats = True, run, seats
        self._wake()

    def crash(self, error: Exception) -> None:
        """None of them will be published."""
        self.arrived, self.error = True, error
        self._wake()

    def refuse(self, seat: int, error: Exception) -> None:
        """One of them will never have a place; the others go on."""
        if self._refused is None:
            self._refused = {}
        self._refused[seat] = error
        self._wake_one(seat)

    def place(self, seat: int, entries: dict[str, int]) -> None:
        """One of them has its place; others may have to wait for nodes that are away."""
        if self.stamps is None:
            self.stamps = {}
        self.stamps[seat] = entries
        if self._seated:
            self._wake_one(seat)

    def place_many(self, span: Span) -> int:
        """Some of them have their places, all in one run; returns how many of them had no answer before."""
        self.spans.append(span)
        if self._by_seat is not None:
            self._by_seat.update(dict.fromkeys(span.seats, span))
        elif len(self.spans) > SPANS_FEW:
            self._by_seat = {seat: one for one in self.spans for seat in one.seats}
        if self._seated:
            for seat in span.common(self._seated):
                self._wake_one(seat)
        alone = sum([len(span.common(seats)) for seats in (self.stamps, self._refused) if seats])
        return len(span.seats) - alone

    def _span(self, seat: int) -> Span | None:
        """With which others one of them was placed together."""
        if self._by_seat is not None:
            return self._by_seat.get(seat)
        for span in self.spans:
            if span.place(seat) is not None:
                return span
        return None

    def is_placed(self, seat: int) -> bool:
        """Whether nodes gave one of them a place."""
        if self._refused is not None and seat in self._refused:
            return False
        return bool(self.stamps and seat in self.stamps) or self._span(seat) is not None

    def stamp(self, seat: int) -> dict[str, int] | None:
        """The stamp that nodes gave one of them; None if they have not."""
        if not self.is_placed(seat):
            return None
        if self.stamps is not None and seat in self.stamps:
            return self.stamps[seat]
        span = self._span(seat)
        place = None if span is None else span.place(seat)
        return None if span is None or place is None else span.run.entries(place)

    def has_answer(self, seat: int) -> bool:
        """Whether it is known of one of them that it has a place, or never will."""
        return bool(self._refused and seat in self._refused) or self.is_placed(seat)

    def when_landed(self, then: Callable[[Flight], object]) -> None:
        """Call `then` when all have their places, which may be now."""
        if self.arrived:
            then(self)
        else:
            self._then = then

    def failure(self, seat: int) -> Exception | None:
        """Why an event will never have a place; None if it will, or has one."""
        if self._refused is not None and seat in self._refused:
            return self._refused[seat]
        return None if self.error is None or self.has_answer(seat) else self.error

    def _wake(self) -> None:
        if self._then is not None:
            self._then(self)
            self._then = None
        if self._waiters:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()
        if self._seated:
            for seat in list(self._seated):
                self._wake_one(seat)

    def _wake_one(self, seat: int) -> None:
        for waiter in self._seated.pop(seat, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def seating(self, seat: int) -> None:
        """Return when it is known of this one whether it has a place."""
        if not self.arrived and not self.has_answer(seat):
            waiter = asyncio.get_running_loop().create_future()
            self._seated.setdefault(seat, []).append(waiter)
            await waiter

    async def landing(self) -> None:
        """Return when it is known of each whether it has a place."""
        if not self.arrived:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def arrival(self) -> None:
        """Return when all have their places; raises what kept one of them from it."""
        await self.landing()
        if self.error is not None:
            raise self.error
        if self._refused:
            raise next(iter(self._refused.values()))


class Receipt(msgspec.Struct, eq=False, gc=False):
    """Proof of publication; `await` it to know that the event has its place in the order."""

    _flight: Flight
    _seat: int
    _again: bool = False  # the bus knew its id

    def __await__(self) -> Generator[Any, Any, Receipt]:
        if not self._flight.arrived:
            yield from self._flight.seating(self._seat).__await__()
        if (error := self._flight.failure(self._seat)) is not None:
            raise error
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
        if self._flight.stamps is not None:
            return self._flight.is_placed(self._seat)
        return self._flight.arrived and self._place is not None

    @property
    def stamp(self) -> dict[str, int]:
        """Its stamp; empty while it is under way, and for topics that nobody wants ordered."""
        if self._flight.stamps is not None:
            return dict(self._flight.stamp(self._seat) or {})
        run, place = self._flight.run, self._place
        return {} if run is None or place is None else dict(run.entries(place))

    @property
    def duplicate(self) -> bool:
        """Whether an event with this id was published before, by whomever: then it is that one, and no second."""
        return self._again or (self._flight.known is not None and self._seat in self._flight.known)

    @property
    def has_failed(self) -> bool:
        """Whether it will never have one."""
        return self._flight.failure(self._seat) is not None

    def again(self) -> Receipt:
        """The receipt of whoever publishes the same event once more."""
        return Receipt(self._flight, self._seat, True)

    def arrived(self) -> Arrived:
        """What is left to say of an arrived event, without payload and fellow passengers: cheap to remember."""
        publication = self._flight.publications[self._seat]
        life = publication.publisher, publication.incarnation, publication.n
        return Arrived(*life, publication.topic, publication.key, self.stamp)

    @property
    def _place(self) -> int | None:
        if self._flight.run is None:
            return None
        return self._seat if self._flight.seats is None else self._flight.seats.get(self._seat)

    def __repr__(self) -> str:
        return f"Receipt({self.topic!r}, id={self.id!r}, stamp={self.stamp})"


class Arrived(NamedTuple):
    """An event that has its place; whoever publishes it again gets a receipt that says so."""

    publisher: str
    incarnation: int
    n: int
    topic: str
    key: str | None
    stamp: dict[str, int]

    def receipt(self) -> Receipt:
        """The receipt of whoever publishes the same event once more."""
        flight = Flight()
        flight.publications.append(Publication(*self[:4], key=self.key))
        flight.land(None if not self.stamp else _run_of_one(flight.publications, self.stamp))
        return Receipt(flight, 0, True)


def _run_of_one(publications: list[Publication], stamp: dict[str, int]) -> Run:
    topic = publications[0].topic
    index = {x: i for i, x in enumerate(stamp)}
    base = [number - (x == topic) for x, number in stamp.items()]
    return Run(0, index, base, {topic: tuple(stamp)}, publications, {topic: 1})


def unconfirmed(
    receipt: Receipt | None, topic: str, events: int, timeout_s: float, why: str = ""
) -> UnisonoError:
    """What to tell a publisher that has waited long enough: for a receipt, or for room to get one."""
    if receipt is None:
        return BackPressureError(
            f"no room for an event on '{topic}' within {timeout_s:g} s; "
            "look for a subscriber that holds everybody up"
        )
    return UnconfirmedError(
        f"no confirmation for {events} event(s) on '{topic}' within {timeout_s:g} s; retry with id={receipt.id!r}; "
        f"{why or 'look for a subscriber that holds everybody up'}"
    )
