"""Theorem G by execution: events climb their paths over FIFO links, and the orders they force are compared.

The laws are about roads; what a subscriber feels is whether the orders forced along them contradict each
other. Here a schedule moves one event one step at a time, and every pair of conflicting topics is ordered by
who passed their meeting place first.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.plan import Conflicts, conflict_graph, elimination_forest, rank_line

Paths = Mapping[str, Sequence[str]]
Move = int | tuple[str, str]  # create that event, or take the next one off that link

CE4 = conflict_graph([{"T1", "T2", "T3"}, {"T1", "T2", "T3", "X"}, {"X", "T2"}])
CE4_DIRECT: Paths = {"T1": ("T1",), "X": ("X",), "T2": ("T2", "X", "T1"), "T3": ("T3", "T2", "T1")}
CE5 = conflict_graph([{"T1", "T2", "T3", "T4"}, {"T1", "T3"}, {"T3", "T4"}, {"T4", "T2"}, {"T2", "T1"}])
CE5_DIRECT: Paths = {"T1": ("T1",), "T2": ("T2", "T1"), "T3": ("T3", "T1"), "T4": ("T4", "T3", "T2")}
# Three topics on one line, lawful by C1 and C2, but both edges are travelled both ways.
BOTH_WAYS: Paths = {"a": ("a", "b", "c"), "b": ("b", "a"), "c": ("c", "b")}
TRIANGLE = conflict_graph([{"a", "b", "c"}], threshold=1)


def passages(
    paths: Paths, events: Sequence[str], choose: Callable[[list[Move]], Move]
) -> dict[str, list[int]]:
    """Let one event of each named topic climb its path; return in which order each node was passed."""
    links: defaultdict[tuple[str, str], deque[tuple[int, int]]] = defaultdict(deque)
    passed: defaultdict[str, list[int]] = defaultdict(list)
    new = list(range(len(events)))
    while True:
        moves: list[Move] = [*new, *(link for link in sorted(links) if links[link])]
        if not moves:
            return passed
        move = choose(moves)
        if isinstance(move, int):
            new.remove(move)
            event, step = move, 0
        else:
            event, step = links[move].popleft()
        path = paths[events[event]]
        passed[path[step]].append(event)
        if step + 1 < len(path):
            links[path[step], path[step + 1]].append((event, step + 1))


def contradicts(
    paths: Paths, conflicts: Conflicts, events: Sequence[str], choose: Callable[[list[Move]], Move]
) -> bool:
    """Whether this schedule forces orders between conflicting events that no one order can satisfy."""
    passed = passages(paths, events, choose)
    before: dict[int, set[int]] = {event: set() for event in range(len(events))}
    for one, two in combinations(before, 2):
        if events[one] == events[two]:
            meeting = events[one]
        elif events[two] in conflicts[events[one]]:
            meeting = events[two] if events[two] in paths[events[one]] else events[one]
        else:
            continue
        here = passed[meeting]
        first, second = (one, two) if here.index(one) < here.index(two) else (two, one)
        before[second].add(first)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return True
    return False


@pytest.mark.parametrize(
    ("paths", "conflicts"),
    [(CE4_DIRECT, CE4), (CE5_DIRECT, CE5), (BOTH_WAYS, TRIANGLE)],
    ids=["direct hops, CE-4", "direct hops, CE-5", "an edge both ways"],
)
def test_some_schedule_of_an_unlawful_plan_deadlocks(paths: Paths, conflicts: Conflicts) -> None:
    rng = random.Random(0)
    assert any(contradicts(paths, conflicts, sorted(paths), rng.choice) for _ in range(5000))


@pytest.mark.parametrize(
    ("paths", "conflicts", "events", "script"),
    [
        # b leaves T2 for X; c follows and hops straight from T2 to T1; a is created; b reaches T1 at last.
        (
            CE4_DIRECT,
            CE4,
            ["T1", "T2", "T3"],
            [1, 2, ("T3", "T2"), ("T2", "T1"), 0, ("T2", "X"), ("X", "T1")],
        ),
        # b is slow from T2 to T1 while d passes T3 and T2, c is created and passes T1, and a is created.
        (
            CE5_DIRECT,
            CE5,
            ["T1", "T2", "T3", "T4"],
            [1, 3, ("T4", "T3"), ("T3", "T2"), 2, ("T3", "T1"), 0, ("T2", "T1")],
        ),
    ],
    ids=["CE-4", "CE-5"],
)
def test_the_schedule_told_in_the_docs_deadlocks(
    paths: Paths, conflicts: Conflicts, events: list[str], script: list[Move]
) -> None:
    rest = iter(script)

    def follow(moves: list[Move]) -> Move:
        move = next(rest)
        assert move in moves
        return move

    assert contradicts(paths, conflicts, events, follow)
    assert next(rest, None) is None


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, frozenset[str]], list[str], list[str]]:
    topics = [f"t{i}" for i in range(draw(st.integers(3, 7)))]
    subscriptions = draw(st.lists(st.frozensets(st.sampled_from(topics), min_size=2), min_size=2, max_size=8))
    graph = conflict_graph(subscriptions, topics, threshold=draw(st.sampled_from([1, 2])))
    events = draw(st.lists(st.sampled_from(topics), min_size=3, max_size=9))
    return graph, draw(st.permutations(topics)), events


@given(worlds(), st.randoms(use_true_random=False))
def test_no_schedule_of_a_lawful_plan_contradicts_itself(
    world: tuple[dict[str, frozenset[str]], list[str], list[str]], rng: random.Random
) -> None:
    graph, rank, events = world
    for plan in (
        rank_line(graph, rank=rank),
        elimination_forest(graph, rank=rank),
        elimination_forest(graph),
    ):
        paths = {topic: plan.path(topic) for topic in plan.rank}
        for _ in range(5):
            assert not contradicts(paths, graph, events, rng.choice)
