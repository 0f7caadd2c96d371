"""The explorer itself: it misses nothing, agrees with itself, and finds what is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Hashable
from itertools import product

import pytest

from unisono.engines.effects import Deliver, Effect
from unisono.engines.inputs import Input, Notified
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.history import Kind
from unisono.model.frames import Stamped
from unisono.sim.explore import Explorer, Faults, Planned, Search, TooManyStatesError, World, forest, line
from unisono.sim.explore.arrivals import Outcomes
from unisono.sim.explore.packets import LinkScenario, explore_links
from unisono.sim.explore.search import Step
from unisono.testing.planted_bugs import engines, worlds


class Stairs:
    """Two walkers on three steps each."""

    def __init__(self, left: int = 0, right: int = 0) -> None:
        self.at = (left, right)

    def key(self) -> Hashable:
        return self.at

    def steps(self) -> list[Step]:
        return [(side,) for side, at in zip(("left", "right"), self.at, strict=True) if at < 3]

    def after(self, step: Step) -> Stairs:
        left, right = self.at
        return Stairs(left + 1, right) if step == ("left",) else Stairs(left, right + 1)


def test_a_search_visits_every_state_once() -> None:
    search = Search(Stairs())
    ends = list(search.ends())
    assert [end.at for end in ends] == [(3, 3)]
    assert search.states == 16
    assert sorted(search.trace(ends[0])) == [("left",)] * 3 + [("right",)] * 3


def test_a_search_that_is_too_large_says_so() -> None:
    with pytest.raises(TooManyStatesError):
        list(Search(Stairs(), states_max=10).ends())


class Blurts(Subscriber):
    """Delivers whatever comes, as it comes."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Notified(Stamped() as event):
                return [Deliver([event])]
        return []


def test_a_subscriber_that_keeps_no_order_is_found() -> None:
    found = Explorer().explore(worlds.TWO.but(make_subscriber=Blurts))
    assert "total_notification_order" in {finding.promise for finding in found.findings}


def test_a_subscriber_that_delivers_nothing_is_found() -> None:
    class Mute(Subscriber):
        def handle(self, input: Input, now: float) -> list[Effect]:
            return []

    found = Explorer().explore(worlds.TWO.but(make_subscriber=Mute))
    assert found.stuck == 1
    assert found.findings[0].explanation.startswith("s1 never saw ")


def test_an_engine_that_denies_its_invariants_is_found() -> None:
    class Uneasy(Subscriber):
        def check(self) -> None:
            assert not self.held, "I hold something"

    for together in (True, False):
        found = Explorer().explore(worlds.TWO.but(make_subscriber=Uneasy), together=together)
        assert [finding.promise for finding in found.findings] == ["invariants"]
        assert "I hold something" in found.findings[0].explanation


Run = tuple[Hashable, tuple[tuple[str, tuple[tuple[Hashable, bool], ...]], ...]]


def _told(log: tuple[object, ...]) -> tuple[tuple[Hashable, bool], ...]:
    return tuple((e.event, e.in_order) for e in log if e.kind is Kind.DELIVERED)  # type: ignore[attr-defined]


def _stamps(events: tuple[Stamped, ...]) -> Hashable:
    return tuple((e.publication.id, tuple(sorted(e.entries.items()))) for e in events)


@pytest.mark.parametrize("subscribers", [worlds.TWO.subscribers, worlds.TAG], ids=["exact", "tag"])
@pytest.mark.parametrize("plan", [line, forest])
def test_two_searches_find_exactly_what_one_finds(subscribers: object, plan: object) -> None:
    """The decomposition: assignments times what each subscriber can be told is all that can happen."""
    scenario = worlds.TWO.but(
        events=(*worlds.TWO.events, Planned("c", "T2")), subscribers=subscribers, plan=plan
    )
    whole: set[Run] = set()
    for end in Search(World(scenario, tuple(scenario.subscriptions))).ends():
        told = tuple((name, _told(end.logs.get(name, ()))) for name in scenario.subscriptions)
        whole.add((_stamps(tuple(end.stamped)), told))
    parts: set[Run] = set()
    explorer = Explorer()
    for assignment in explorer.assignments(scenario)[0]:
        choices = []
        for name in scenario.subscriptions:
            outcomes = explorer.outcomes(scenario, name, assignment)[0]
            choices.append({(name, _told(log)) for log, _ in outcomes.runs})
        parts |= {(_stamps(assignment.events), told) for told in product(*choices)}
    assert parts == whole


def test_entries_of_topics_not_held_make_no_difference() -> None:
    """Why what was found for a subscriber may be remembered by the entries it reads."""
    scenario = worlds.THREE.but(subscribers=worlds.HOLD)
    for assignment in Explorer().assignments(scenario)[0]:
        for name, held in scenario.subscriptions.items():
            mine = [e for e in assignment.events if e.topic in held]
            bare = [
                Stamped(e.publication, e.epoch, {x: n for x, n in e.entries.items() if x in held})
                for e in mine
            ]
            runs = [
                {_told(log) for log, _ in outcomes.runs}
                for outcomes in (
                    Outcomes(scenario.subscriber(name), events, losses=1, doubles=1, checked=True)
                    for events in (mine, bare)
                )
            ]
            assert runs[0] == runs[1]


def test_any_event_held_may_expire_at_any_moment() -> None:
    """A gap in T1 holds b, c and d; each prefix of them can be let go before a comes."""
    scenario = worlds.world({"s1": "T1"}, "a:T1 b:T1 c:T1", subscribers=worlds.HOLD)
    explorer = Explorer()
    assignment = explorer.assignments(scenario)[0][0]
    outcomes = explorer.outcomes(scenario, "s1", assignment)[0]
    late = {len([e for e in log if not e.in_order]) for log, _ in outcomes.runs}
    assert late == {0, 1, 2}


def test_faults_are_bounded_and_judged() -> None:
    lossy = worlds.TWO.but(subscribers=worlds.TAG, faults=Faults(losses=1, doubles=1))
    assert Explorer().explore(lossy).findings == ()
    assert Explorer().explore(worlds.LOSSY.but(faults=Faults(losses=1, doubles=1, ticks=2))).findings == ()


@pytest.mark.parametrize("mode", ["forward", "return"])
def test_a_repeated_request_is_numbered_once(mode: str) -> None:
    from unisono.engines.topic_managers.settings import ManagerSettings

    scenario = worlds.TWO.but(faults=Faults(repeats=1), managers=ManagerSettings(mode=mode))  # type: ignore[arg-type]
    assert Explorer().explore(scenario).findings == ()


def test_an_answer_may_be_overtaken_by_the_answer_to_a_repeated_request() -> None:
    """They come from different managers: a repeated one without the stamp would leave the event unpublished."""
    weak = worlds.AGAIN_RETURNED.but(make_manager=engines.AnswersWithoutStamp)
    assert Explorer().explore(weak).stuck
    assert Explorer().explore(worlds.AGAIN_RETURNED).findings == ()


def test_links_deliver_in_order_once_and_always() -> None:
    for scenario in (
        LinkScenario(left=2, right=1, losses=2, doubles=0),
        LinkScenario(left=2, right=0, losses=1, doubles=1, ticks=2),
    ):
        found = explore_links(scenario)
        assert found.findings == ()
        assert found.states > 500


_DIGEST = "from unisono.lab.explore import explore; print(explore(quick=True, patterns=3).digest)"


def test_results_do_not_depend_on_the_order_of_hashes() -> None:
    digests = set()
    for seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", _DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(run.stdout)
    assert len(digests) == 1
