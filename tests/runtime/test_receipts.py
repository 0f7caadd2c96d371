"""Receipts of events that were published together: each is told of its own event."""

import asyncio

import pytest

from unisono.model.errors import UnconfirmedError
from unisono.model.frames import Publication, Run
from unisono.runtime.receipts import SPANS_FEW, Flight, Receipt, Span


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario, 5))


def test_who_has_a_place_does_not_wait_for_fellow_passengers():
    async def scenario():
        flight = Flight()
        first, second = (asyncio.ensure_future(Receipt(flight, seat)) for seat in (0, 1))
        await asyncio.sleep(0)
        flight.place(0, {"t": 7})
        await first
        await asyncio.sleep(0)
        assert not second.done()
        flight.crash(UnconfirmedError("the node is away"))
        with pytest.raises(UnconfirmedError):
            await second
        await Receipt(flight, 0)  # what has its place keeps it

    run(scenario())


def test_who_is_refused_hears_of_it_at_once():
    async def scenario():
        flight = Flight()
        waiting = asyncio.ensure_future(Receipt(flight, 1))
        await asyncio.sleep(0)
        flight.refuse(1, UnconfirmedError("no"))
        with pytest.raises(UnconfirmedError):
            await waiting

    run(scenario())


def in_spans(count, spans):
    """A flight whose seats came back in so many runs, dealt in turns, and some of them alone before."""
    flight = Flight()
    flight.publications = [Publication("p", 1, n, "t") for n in range(count)]
    flight.place(0, {"t": 1})
    flight.refuse(1, UnconfirmedError("no"))
    new = 0
    for first in range(spans):
        seats = range(first, count, spans) if first % 2 else list(range(first, count, spans))
        run_ = Run(
            1,
            {"t": 0},
            [100 * first],
            {"t": ("t",)},
            [flight.publications[seat] for seat in seats],
            {"t": len(seats)},
        )
        new += flight.place_many(Span(seats, run_, 0))
    return flight, new


@pytest.mark.parametrize("spans", [1, SPANS_FEW, SPANS_FEW + 1, 40])
def test_each_is_told_of_its_own_place_in_however_many_runs_they_come_back(spans):
    flight, new = in_spans(80, spans)
    assert new == 80 - 2
    for seat in range(80):
        receipt = Receipt(flight, seat)
        assert flight.has_answer(seat)
        assert receipt.sequenced == (seat != 1)
        expected = {} if seat == 1 else {"t": 100 * (seat % spans) + seat // spans + 1}
        assert receipt.stamp == ({"t": 1} if seat == 0 else expected)
    assert not flight.has_answer(80)


def test_those_who_wait_for_seats_are_woken_by_the_run_that_brings_them():
    async def scenario():
        flight = Flight()
        flight.publications = [Publication("p", 1, n, "t") for n in range(100)]
        waiting = [asyncio.ensure_future(Receipt(flight, seat)) for seat in range(100)]
        await asyncio.sleep(0)
        for seat in range(0, 100, 2):
            pair = flight.publications[seat : seat + 2]
            flight.place_many(
                Span(range(seat, seat + 2), Run(1, {"t": 0}, [seat], {"t": ("t",)}, pair, {"t": 2}), 0)
            )
            await asyncio.sleep(0)
            assert [task.done() for task in waiting].count(True) == seat + 2
        assert all(task.done() for task in waiting)

    run(scenario())


def test_what_comes_back_in_very_many_runs_is_not_looked_through_for_each():
    class Counted(Span):
        asked = 0

        def place(self, seat):
            Counted.asked += 1
            return super().place(seat)

    flight = Flight()
    flight.publications = [Publication("p", 1, n, "t") for n in range(4000)]
    for seat in range(0, 4000, 2):
        pair = flight.publications[seat : seat + 2]
        flight.place_many(
            Counted(range(seat, seat + 2), Run(1, {"t": 0}, [seat], {"t": ("t",)}, pair, {"t": 2}), 0)
        )
    assert all(flight.stamp(seat) for seat in range(4000))
    assert Counted.asked < 5 * 4000
