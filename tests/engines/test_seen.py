"""What a manager remembers of publishers, beside a table in which every event stands by itself."""

from random import Random

import pytest

from unisono.engines.topic_managers import seen as room
from unisono.engines.topic_managers.seen import Seen
from unisono.model.frames import Publication, Sequenced
from unisono.model.ids import EventId
from unisono.model.runs import bundle_of


def together(ns, number, others):
    """Events of topic A that were numbered together, with those of B in between."""
    events = [Publication("p", 1, n, "B" if n in others else "A") for n in ns]
    bundle = bundle_of(events, 1, 1, {})
    return bundle, bundle.stamped(1, "N", 1, {"A": number, "B": 0}), bundle.topics.index("A")


def alone(n, number):
    return Sequenced("A", EventId("p", 1, n), 1, {"A": number})


@pytest.mark.parametrize("seed", range(40))
def test_it_knows_what_a_table_of_single_events_knows(seed, monkeypatch):
    monkeypatch.setattr(room, "SWEEP_MIN", 3)
    random, made, table, n, number, floor = Random(seed), Seen("A", 10**9), {}, 0, 0, 0
    before = Random(seed + 1000)
    recalled = [(n := n + 1, number := number + 1) for _ in range(before.randrange(6))]
    for one, at in before.sample(recalled, len(recalled)):  # in no order
        made.recall(alone(one, at))
        table[one] = {"A": at}
    for _ in range(150):
        kind = random.random()
        if kind < 0.35:
            n += random.choice((1, 1, 4))
            assert made.admit(n)
            table[n] = None
            if random.random() < 0.8:
                number += 1
                made.finish(alone(n, number))
                table[n] = {"A": number}
        elif kind < 0.7:
            ns = [n := n + random.choice((1, 1, 3)) for _ in range(random.randint(2, 6))]
            others = set(random.sample(ns[1:], random.randrange(len(ns) - 1)))
            bundle, stamped, place = together(ns, number, others)
            made.admit_many(bundle, place)
            mine = [one for one in ns if one not in others]
            table |= dict.fromkeys(mine)
            if random.random() < 0.8:
                made.finish_many(stamped, place)
                table |= {one: {"A": number + i} for i, one in enumerate(mine, 1)}
                number += len(mine)
        elif kind < 0.8 and n:
            floor = max(floor, random.randint(max(0, n - 9), n + 1))
            made.forget_below(floor)
            table = {one: answer for one, answer in table.items() if one >= floor}
        if random.random() < 0.1:
            made = made.copy()
        for one in random.sample(range(n + 3), min(9, n + 3)):
            assert made.knows(one) == (one in table or one < floor)
            answer = made.answer(one)
            assert (answer and {"A": answer.entries["A"]}) == table.get(one)


def test_what_was_numbered_together_is_not_looked_for_among_everything(monkeypatch):
    """A client may let a node remember very many single events, and then ask for a bundle event by event."""
    made, looks = Seen("A", 10**9), []
    for n in range(1, 20_001):
        made.admit(n)
        made.finish(alone(n, n))
    ns = list(range(20_001, 20_501))
    bundle, stamped, place = together(ns, 20_000, set())
    made.admit_many(bundle, place)
    made.finish_many(stamped, place)

    class Watched(type(made._units)):
        def items(self):
            looks.append("all")
            return super().items()

    made._units = Watched(made._units)
    assert all(made.knows(n) and made.answer(n).entries["A"] == n for n in ns)
    assert not looks


def test_the_oldest_go_when_there_are_too_many_and_only_whole():
    made = Seen("A", 10)
    for first in (1, 5, 9, 13):
        bundle, stamped, place = together(list(range(first, first + 4)), first - 1, set())
        made.admit_many(bundle, place)
        made.finish_many(stamped, place)
    assert made.floor == 5
    assert made.answer(4) is None
    assert [made.answer(n).entries["A"] for n in range(5, 17)] == list(range(5, 17))
