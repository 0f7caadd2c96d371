"""What is final of an epoch that goes on: in simulated worlds with views, it is how the closed epoch begins."""

from __future__ import annotations

from random import Random

import pytest

from unisono.engines.chronicle import Present, in_order, is_ordered
from unisono.engines.plan import Plan
from unisono.model.frames import Publication, Stamped
from unisono.model.runs import bundle_of
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.processes import HONEST
from unisono.sim.moving.simulation import Simulation


def stored_by_epoch(seed: int):
    """Of a drawn world: for each epoch and view, all events of the epoch, and the topics of the view."""
    ending = Simulation(draw_moving(seed), HONEST).run()
    for epoch, views in ending.viewed.items():
        events = [event for event in ending.stored if event.epoch == epoch]
        for view in views:
            if len({event.topic for event in events} & view) > 1:
                yield events, view


def read_in_pieces(events: list[Stamped], dice: Random):
    """What a reader of lanes knows, more and more of it: of each topic a beginning."""
    topics = sorted({event.topic for event in events})
    known = dict.fromkeys(topics, 0)
    while any(known[e.topic] < e.number for e in events):
        topic = dice.choice(topics)
        known[topic] += (
            dice.choice((1, 2, 5)) if known[topic] else min(e.number for e in events if e.topic == topic)
        )
        yield [event for event in events if event.number <= known[event.topic]]


@pytest.mark.parametrize("seeds", [range(60), range(60, 120)], ids=str)
def test_what_is_final_is_how_the_closed_epoch_begins(seeds: range) -> None:
    seen = early = 0
    for seed in seeds:
        for events, view in stored_by_epoch(seed):
            whole = [event for event in in_order(events) if event.topic in view]
            floors = {t: min(e.number for e in whole if e.topic == t) - 1 for t in {e.topic for e in whole}}
            present = Present(floors, frozenset(floors))
            for known in read_in_pieces(events, Random(seed)):
                present.extend(known)
                assert present.units == whole[: len(present.units)]
                early += bool(present.units) and len(present.units) < len(whole)
            seen += len(present.units)
    assert seen > 100, "these worlds have views with events"
    assert early > 50, "much is final before all is known"


def event(topic: str, at: float = 0.0, **entries: int) -> Stamped:
    return Stamped(Publication(topic, 1, entries[topic], topic, published_at=at), 1, entries)


def test_what_follows_a_number_that_is_not_stored_waits() -> None:
    present = Present({"A": 0, "B": 4}, frozenset("AB"))
    late, early = event("A", 1.0, A=1, B=5), event("B", 2.0, B=5, A=0)
    assert present.extend([late]) == 0
    assert present.extend([late, early]) == 2
    assert present.units == [early, late]
    assert present.clock == {"A": 1, "B": 5}


def test_topics_that_nobody_asked_for_are_not_waited_for() -> None:
    present = Present({"A": 0, "C": 0}, frozenset("A"))
    assert present.extend([event("C", C=2), event("A", A=1, C=9)]) == 1


def test_a_bundle_comes_as_a_whole() -> None:
    publications = [Publication("p", 1, n, "AB"[n % 2], nth=n) for n in range(1, 5)]
    made = bundle_of(publications, 1, 0, {})
    bundle = made.stamped(1, "N", 1, {"B": 3, "A": 7})
    present = Present({"A": 7, "B": 2}, frozenset("AB"))
    assert present.extend([bundle]) == 0
    assert present.extend([bundle, event("B", B=3, A=7)]) == 2
    assert present.clock == {"A": 9, "B": 5}


def test_topics_are_ordered_together_if_all_share_a_group() -> None:
    group = {"A": frozenset("AB"), "B": frozenset("ABC"), "C": frozenset("BC")}
    plan = Plan(rank=("A", "B", "C"), parent={"A": None, "B": "A", "C": "B"}, group=group, epoch=1)
    assert is_ordered(plan, "AB")
    assert is_ordered(plan, "C")
    assert not is_ordered(plan, "ABC")
