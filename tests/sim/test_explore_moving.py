"""Moving worlds: the search is whole and repeatable, harm is spent, walks are decided by their seed."""

from __future__ import annotations

import msgspec
import pytest

from unisono.lab.moving import moving_worlds
from unisono.sim.explore.moving import Harm, MovingScenario
from unisono.sim.explore.moving_ends import explore_moving
from unisono.sim.explore.moving_world import MovingWorld
from unisono.sim.explore.search import Search
from unisono.sim.explore.walks import random_moving, walk
from unisono.testing.planted_bugs import moving_nodes as nodes
from unisono.testing.planted_bugs import moving_worlds as worlds


@pytest.mark.parametrize("world", [worlds.JOIN, worlds.LEAVE, worlds.TAKEOVER, worlds.TWO_LANES])
def test_a_world_that_fits_is_searched_to_its_end(world: MovingScenario) -> None:
    found = explore_moving(world)
    assert found.whole
    assert found.findings == ()
    assert found.ends > 5


def test_a_world_that_does_not_fit_says_so() -> None:
    found = explore_moving(worlds.TAKEOVER, 100, cut=True)
    assert not found.whole


def test_a_node_may_die_at_any_moment_and_only_once() -> None:
    ends = list(Search(MovingWorld(worlds.TAKEOVER)).ends())
    died = {end.dead for end in ends}
    assert died == {frozenset(), frozenset({"N1"}), frozenset({"N2"})}
    assert {end.storage.control.epoch for end in ends} == {0, 1}


def test_a_takeover_can_cost_numbers_and_never_an_acknowledged_event() -> None:
    voids = set()
    for end in Search(MovingWorld(worlds.TWO_LANES)).ends():
        settled = end.settled()
        stored = {event.publication.id for event in settled.storage.events()}
        assert settled.acknowledged <= stored
        for _, record in settled.storage.lanes["N1"]:
            notice = getattr(record, "notice", None)
            voids.add(notice is not None and bool(notice.voids))
    assert voids == {True, False}


def test_a_swap_reverses_the_rank_while_events_are_on_their_way() -> None:
    ends = list(Search(MovingWorld(worlds.TAKEOVER.but(harm=worlds.SWAP))).ends())
    assert {end.storage.control.plan.rank for end in ends} == {("T1", "T2"), ("T2", "T1")}
    epochs = {frozenset(e.epoch for e in end.storage.events()) for end in ends}
    assert frozenset({0, 1}) in epochs


def test_an_answer_to_an_old_question_does_not_start_an_epoch() -> None:
    """Found here: a lane read before an epoch began in it arrived while that epoch was being adopted."""
    fresh = worlds.moving(
        "T1:N1", "a:T1:p b:T1:p", observers={"o": "T1"}, harm=Harm(ranks=(("T1",),), stale_reads=1, ticks=1)
    )
    weak = fresh.but(make_node=nodes.BelievesOldReads, invariants=False, promises=("invariants",))
    found = explore_moving(weak, 60_000, cut=True)
    assert [f.explanation for f in found.findings] == ["o: two different events claim number 1 of 'T1'"]


def test_walks_are_decided_by_their_seed() -> None:
    one, other = random_moving(5), random_moving(5)
    assert msgspec.json.encode(one.harm) == msgspec.json.encode(other.harm)
    assert walk(one, 7) == walk(other, 7)


def test_walks_find_nothing() -> None:
    for seed in range(60):
        walked = walk(random_moving(seed), seed)
        assert walked.findings == (), f"seed {seed}: {walked.findings}"


def test_the_sweep_names_every_row_once_per_world() -> None:
    names = [(row, name) for row, name, _, _ in moving_worlds(quick=False)]
    assert len(set(names)) == len(names) > 100
    assert {row.split(";")[0] for row, _ in names} >= {"swap", "crash", "zombie", "joins and leaves, crash"}
