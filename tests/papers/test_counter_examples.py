"""The papers' counter-examples, each as a pair: the literal rule fails, ours holds, on the engines themselves.

The numbers are those of the project's table of errata; a test says what the paper wrote and what is wrong with it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from unisono.engines.sequencing_atoms import AtomGraph, check_graph
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.lab.bugs import explore_world, run_bug
from unisono.lab.explore import all_patterns
from unisono.model.errors import PlanError
from unisono.sim.explore import Explored, Explorer, Planned, TopicManagerScenario
from unisono.sim.explore.atoms import AtomScenario
from unisono.testing.planted_bugs import BUGS, PlantedBug, atom_table, engines, worlds

PAPERS = [bug for bug in BUGS if "CE-" in bug.source]

TOPICS = ("T1", "T2", "T3")


SOUND: dict[int, Explored] = {}  # several counter-examples share a world


@pytest.mark.parametrize("bug", PAPERS, ids=lambda bug: f"{bug.source.split(', ')[-1]} {bug.name}")
def test_the_literal_rule_fails_and_ours_holds(bug: PlantedBug) -> None:
    result = run_bug(bug, SOUND)
    assert result.caught, f"{result.says} broke nothing"
    assert result.explanation
    assert result.sound


def test_ce_1_definition_3_tags_too_little() -> None:
    """000 Definition 3: any larger entry is enough. c, then b with a larger T1: b passes for new."""
    result = run_bug(_bug("any_entry_larger"))
    assert result.explanation == ("s1 saw c/0/1 (T3 #1) before b/0/1 (T2 #1), s2 saw b/0/1 before c/0/1")


def test_ce_1_is_the_only_pattern_of_three_topics_that_definition_3_breaks() -> None:
    explorer = Explorer()
    events = tuple(Planned("abc"[i], topic) for i, topic in enumerate(TOPICS))
    broken = []
    for pattern in all_patterns(TOPICS, 3):
        held = {f"s{i}": topics for i, topics in enumerate(pattern)}
        scenario = TopicManagerScenario(
            TOPICS,
            held,
            events,
            managers=worlds.UPWARD,
            subscribers=worlds.TAG_UPWARD,
            make_subscriber=engines.AnyEntryLarger,
            promises=("total_notification_order",),
            invariants=False,
        )
        if explorer.explore(scenario).violations:
            broken.append(sorted("+".join(sorted(topics)) for topics in pattern))
    assert broken == [["T1+T2", "T1+T2+T3", "T2+T3"]]


def test_ce_2_with_upward_stamps_an_unlimited_buffer_still_tags() -> None:
    """000 Section 5 calls an event surely next that is not: only full stamps make the test exact."""
    patient = worlds.TWO.but(subscribers=worlds.HOLD)
    for stamps, tags in ((worlds.TWO.managers, False), (worlds.UPWARD, True)):
        scenario = patient.but(managers=stamps)
        explorer = Explorer()
        tagged = False
        for assignment in explorer.assignments(scenario)[0]:
            outcomes, _, _ = explorer.outcomes(scenario, "s1", assignment)
            never_expired = [log for (log, _), trace in outcomes.runs.items() if ("expire",) not in trace]
            tagged |= any(not entry.in_order for log in never_expired for entry in log)
        assert tagged is tags


def test_ce_4_three_events_wait_for_each_other() -> None:
    """001: T3's events jump over X, T2's do not, and every subscriber of all three is stuck."""
    assert run_bug(_bug("transit_skipped")).explanation == (
        "s1 still held a/0/1 (T1 #1) when the run ended (waits for T2 #1), "
        "and b/0/1 (waits for T1 #1), and c/0/1 (waits for T2 #1)"
    )


def test_ce_5b_two_subscribers_never_disagree_and_the_order_is_still_a_ring() -> None:
    """001: total notification order holds, the union of all orders does not fit into one."""
    weak = worlds.RING_UNSEEN.but(plan=engines.direct)
    assert {finding.promise for finding in explore_world(weak).findings} == {"acyclic_order"}


def test_ce_6_without_fifo_order_is_safe_and_only_waiting_is_endless() -> None:
    """FIFO links are for liveness: even overtaking managers never make two subscribers disagree."""
    weak = worlds.RETRY.but(faults=_weak("links_overtake").faults, invariants=False)
    found = explore_world(weak)
    assert found.stuck
    assert not found.violations


@pytest.mark.parametrize("directions", worlds.DIRECTIONS)
def test_ce_19_six_of_the_eight_directions_deadlock(directions: tuple[int, int, int]) -> None:
    """003's own example: all eight keep C1 and C2; only the two that keep C3 never deadlock."""
    scenario = worlds.atom_line(directions)
    lawful = len(set(directions)) == 1
    if lawful:
        check_graph(scenario.graph)
    else:
        with pytest.raises(PlanError, match="C3"):
            check_graph(scenario.graph)
    found = explore_world(scenario)
    assert bool(found.stuck) is not lawful
    assert not found.violations


@pytest.mark.parametrize("scenario", [atom_table.LOOP, atom_table.TWO_WAYS, atom_table.SHORT_CUT])
def test_003_section_3_3_a_loop_makes_three_messages_wait_for_each_other(scenario: AtomScenario) -> None:
    """x before y by one atom, y before z by the next, z before x by the third: C2 forbids it, in every direction."""
    check_graph(atom_table.LINE.graph)
    assert not explore_world(atom_table.LINE).findings
    with pytest.raises(PlanError, match="C2"):
        check_graph(scenario.graph)
    found = explore_world(scenario)
    assert found.stuck
    assert not found.violations
    assert "waits for X&Z #1" in next(iter(found.findings)).explanation


def test_003_section_3_3_any_direction_of_the_loop_does_it() -> None:
    """Whichever way each group goes round its edge, C2 is broken, and it can end in a deadlock."""
    stuck = 0
    for directions in worlds.DIRECTIONS:
        loop = atom_table.LOOP.graph.paths
        paths = {group: loop[group][::way] for group, way in zip("XYZ", directions, strict=True)}
        scenario = replace(atom_table.LOOP, graph=AtomGraph(worlds.GROUPS, paths))
        with pytest.raises(PlanError, match="C2"):
            check_graph(scenario.graph)
        stuck += bool(explore_world(scenario).stuck)
    assert stuck == 8


def test_ce_15_is_closed_by_rings_too() -> None:
    """000, 001: the publisher dies with the stamp; the manager that keeps the event can still be asked for it."""
    papers = worlds.CRASH.but(managers=ManagerSettings(mode="return"))
    assert explore_world(papers).stuck
    asking = papers.but(
        managers=ManagerSettings(mode="return", ring_events=4), subscribers=SubscriberSettings(repair=True)
    )
    assert explore_world(asking).findings == ()


@pytest.mark.parametrize("directions", worlds.DIRECTIONS)
def test_three_branches_of_a_star_deadlock_in_every_direction(directions: tuple[int, int, int]) -> None:
    """003's proof of transitivity: of three paths that meet two by two, none need hold another's atom."""
    star = worlds.atom_star(directions)
    with pytest.raises(PlanError, match="C3"):
        check_graph(star.graph)
    found = explore_world(star)
    assert found.stuck
    assert not found.violations


def test_ce_20_a_rumour_arrives_before_its_cause() -> None:
    """003: m1 causes m2 causes m3, and the groups overlap in one member each: A hears m3 first."""
    assert run_bug(_bug("double_overlaps_causal")).explanation == (
        "A saw c/0/1 (T3 #1) before a/0/1 (T1 #1), but a/0/1 happened before c/0/1: "
        "B saw a/0/1, then published b/0/1; C saw b/0/1, then published c/0/1"
    )


REPLAY = {42, 43, 44, 45}  # nothing is replayed before topics are retained


def test_every_counter_example_of_a_moving_world_is_paired() -> None:
    numbers = {int(bug.source.rsplit("CE-", 1)[1].rstrip("abc")) for bug in PAPERS}
    wanted = {*range(7, 15), 16, 17, 18, *range(22, 48)} - REPLAY
    assert wanted <= numbers


def _bug(name: str) -> PlantedBug:
    return next(bug for bug in BUGS if bug.name == name)


def _weak(name: str) -> TopicManagerScenario:
    weak = _bug(name).weak
    assert isinstance(weak, TopicManagerScenario)
    return weak
