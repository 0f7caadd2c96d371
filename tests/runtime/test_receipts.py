"""Receipts of events that were published together: each is told of its own event."""

import asyncio

import pytest

from unisono.model.errors import UnconfirmedError
from unisono.runtime.receipts import Flight, Receipt


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
