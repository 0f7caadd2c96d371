"""Which events of which flights have their places, beside a table of single events."""

import asyncio
from random import Random

import pytest

from unisono.model.errors import UnisonoError
from unisono.model.frames import Publication, Run, Sequenced, count_topics
from unisono.model.ids import EventId
from unisono.runtime.receipts import Flight, Receipt
from unisono.runtime.remote.departures import UNDER_WAY_MAX, Departures


def publications(ns, topics="A"):
    return [Publication("p", 1, n, topics[n % len(topics)]) for n in ns]


def flight(ns):
    one = Flight()
    one.publications.extend(publications(ns, "AB"))
    return one


def run_of(events, base=(0, 0)):
    index = {"A": 0, "B": 1}
    groups = dict.fromkeys("AB", ("A", "B"))
    return Run(1, index, list(base), groups, events, count_topics(events))


class Confirmed:
    """An observer that counts."""

    def __init__(self):
        self.events = []

    def confirmed(self, publication):
        self.events.append(publication.n)


@pytest.mark.parametrize("seed", range(40))
def test_each_event_is_answered_once_however_it_is_told(seed):
    random, departures, n = Random(seed), Departures(), 0
    departures.observer = observer = Confirmed()
    flights, answered = [], {}  # n -> its stamp, or the error
    for _ in range(random.randint(1, 5)):
        ns = range(n + 1, n + 1 + random.randint(1, 9))
        n = ns[-1]
        flights.append(flight(ns))
        departures.depart(flights[-1])
    receipts = {p.n: Receipt(f, i) for f in flights for i, p in enumerate(f.publications)}
    for _ in range(40):
        kind = random.random()
        if kind < 0.3:
            one, entries = random.randint(1, n + 2), {"A": random.randint(1, 99)}
            departures.placed(Sequenced("A", EventId("p", 1, one), 1, entries))
            if one <= n:
                answered.setdefault(one, entries)
        elif kind < 0.4:
            one, error = random.randint(1, n + 2), UnisonoError("no")
            departures.refused(EventId("p", 1, one), error)
            if one <= n:
                answered.setdefault(one, error)
        elif kind < 0.6:
            # Those that were sent at once; some may have been answered alone, as a publisher tells all of them.
            left = [m for m in range(1, n + 1) if not _was_in_a_run(receipts[m])]
            some = sorted(random.sample(left, min(len(left), random.randint(1, 6))))
            if some:
                run = run_of(publications(some, "AB"), (random.randint(0, 9), random.randint(0, 9)))
                departures.placed_run(run)
                for place, m in enumerate(some):
                    answered.setdefault(m, run.entries(place))
        assert departures.count == n - len(answered)
        for m, receipt in receipts.items():
            was = answered.get(m)
            assert receipt.sequenced == isinstance(was, dict)
            assert receipt.stamp == (was if isinstance(was, dict) else {})
            assert receipt.has_failed == isinstance(was, UnisonoError)
    assert sorted(observer.events) == sorted(m for m, was in answered.items() if isinstance(was, dict))
    assert all(f.arrived == all(p.n in answered for p in f.publications) for f in flights)
    departures.crash(UnisonoError("gone"))
    assert departures.count == 0
    assert all(f.arrived for f in flights)
    assert all(receipts[m].has_failed for m in range(1, n + 1) if m not in answered)


def _was_in_a_run(receipt):
    return any(span.place(receipt._seat) is not None for span in receipt._flight.spans)


def test_who_waits_for_one_event_is_woken_by_the_run_that_has_it():
    async def scenario():
        departures, one = Departures(), flight(range(1, 7))
        departures.depart(one)

        async def wait(seat):
            await Receipt(one, seat)
            return seat

        waiting = [asyncio.create_task(wait(seat)) for seat in range(6)]
        await asyncio.sleep(0)
        departures.placed_run(run_of(publications((2, 4, 5), "AB")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [task.done() for task in waiting] == [False, True, False, True, True, False]
        departures.crash(UnisonoError("gone"))
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(one, UnisonoError) for one in done] == [True, False, True, False, False, True]

    asyncio.run(scenario())


def test_it_is_full_and_makes_room():
    async def scenario():
        departures, woken = Departures(), []
        departures.depart(flight(range(1, UNDER_WAY_MAX + 1)))
        assert departures.is_full
        departures.park(lambda: woken.append(departures.count))
        departures.placed_run(run_of(publications(range(1, 11), "AB")))
        assert not departures.is_full
        await asyncio.sleep(0)
        assert woken == [UNDER_WAY_MAX - 10]

    asyncio.run(scenario())


def test_each_node_that_gives_us_places_has_its_share():
    async def scenario():
        departures = Departures()
        departures.owned({"A": "n1", "B": "n2", "C": "n3"})
        departures.tell("A", 1)
        departures.depart(flight(range(1, UNDER_WAY_MAX + 1)))
        assert departures.is_full
        woken = []
        departures.park(lambda: woken.append(departures.is_full))
        departures.tell("B", 1)  # n2 gives us places too; n3 never did
        await asyncio.sleep(0)
        assert woken == [False]
        departures.depart(flight(range(UNDER_WAY_MAX + 1, 2 * UNDER_WAY_MAX + 1)))
        assert departures.is_full
        departures.owned({"A": "n1", "B": "n1"})  # n2 has left
        assert departures.is_full

    asyncio.run(scenario())


def test_who_waits_for_room_hears_that_it_has_ended():
    async def scenario():
        departures, woken = Departures(), []
        departures.depart(flight(range(1, UNDER_WAY_MAX + 1)))
        departures.park(lambda: woken.append(True))
        departures.crash(UnisonoError("gone"))
        await asyncio.sleep(0)
        assert woken == [True]

    asyncio.run(scenario())
