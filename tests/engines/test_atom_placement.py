"""Which atoms share a machine: the paper's two steps and its mapping, and ours under a limit."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.engines.sequencing_atoms import (
    atoms_of,
    check_graph,
    contract,
    forest_of_atoms,
    machines_of_paper,
    nodes_of_paper,
    numbered,
    paper_graph,
    received,
    seen,
)
from unisono.model.errors import ConfigError, PlanError

PAPERS = {"G0": frozenset("ABD"), "G1": frozenset("ABC"), "G2": frozenset("BCD")}
memberships = st.dictionaries(
    st.sampled_from("TUVWXYZ"), st.frozensets(st.sampled_from("ABCDEFGH")), min_size=1, max_size=7
)


def test_the_papers_graph_of_its_own_example_is_its_figure_2b():
    graph = paper_graph(PAPERS)
    assert graph.paths == {
        "G0": ("G0&G1", "G0&G2"),
        "G1": ("G0&G1", "G0&G2", "G1&G2"),  # redirected through a sequencer that is not its own
        "G2": ("G0&G2", "G1&G2"),
    }
    check_graph(graph)


def test_ce_19_c1_and_c2_leave_the_direction_open_and_six_of_eight_break_c3():
    lawful = []
    for count in range(4):
        for backwards in combinations(PAPERS, count):
            try:
                check_graph(paper_graph(PAPERS, backwards=backwards))
                lawful.append(backwards)
            except PlanError as error:
                assert str(error).startswith("C3")  # noqa: PT017
    assert lawful == [(), ("G0", "G1", "G2")]


@given(memberships, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_papers_graph_is_lawful_while_all_go_one_way(groups, rng):
    nodes = nodes_of_paper(groups, rng.choice)
    assert sorted(atom for node in nodes for atom in node) == sorted(atoms_of(groups))
    check_graph(paper_graph(groups, nodes))


def test_nested_overlaps_share_a_node_and_then_those_with_a_chosen_member():
    groups = {
        "V": frozenset("ABCXY"),
        "W": frozenset("ABCXY"),
        "X": frozenset("ABDE"),
        "Y": frozenset("DEPQ"),
        "Z": frozenset("PQRS"),
    }
    asked = []

    def last(members):
        asked.append(tuple(members))
        return members[-1]

    assert nodes_of_paper(groups, last) == [("V&W", "V&X", "W&X"), ("X&Y",), ("Y&Z",)]
    assert asked == [tuple("ABCXY"), ("D", "E"), ("P", "Q")]
    more = groups | {"U": frozenset("ACDER")}  # shares A, D and E with X
    first = ("V&W", "U&V", "U&W", "V&X", "W&X", "U&X", "U&Y", "X&Y")
    assert nodes_of_paper(more, lambda members: members[0]) == [first, ("Y&Z",)]
    assert nodes_of_paper(more, last) == [first[:5], first[5:], ("Y&Z",)]


@given(memberships, st.integers(0, 30), st.integers(1, 4))
@settings(max_examples=120, deadline=None)
def test_contracted_graphs_are_lawful_and_no_place_sees_too_much(groups, seen_max, places_min):
    graph = forest_of_atoms(groups)
    rates = {group: float(len(members)) for group, members in groups.items()}
    alone = seen(graph, rates)
    placed = contract(graph, rates, seen_max, places_min)
    check_graph(placed)
    assert placed.paths == graph.paths
    assert all(load <= max(seen_max, alone[place]) for place, load in seen(placed, rates).items())
    places = {place for route in placed.routes.values() for place in route}
    assert len(places) >= min(places_min, len(groups))
    if places_min == 1:  # nothing that could still go together is apart
        for route in placed.routes.values():
            for here, there in pairwise(route):
                passing = [g for g, r in placed.routes.items() if here in r or there in r]
                assert sum(rates[group] for group in passing) > seen_max


def test_the_busiest_edges_go_together_first():
    groups = {g: frozenset(m) for g, m in {"X": "AB", "Y": "ABCD", "Z": "CDEF", "W": "EF"}.items()}
    graph = forest_of_atoms(groups)
    busy, quiet = {"X": 9.0, "Y": 1, "Z": 1, "W": 2}, {"X": 2.0, "Y": 1, "Z": 1, "W": 9}
    for rates, pair in ((busy, "XY"), (quiet, "ZW")):
        homes = {group: route[0] for group, route in contract(graph, rates, 99, 3).routes.items()}
        assert homes[pair[0]] == homes[pair[1]]
        assert len(set(homes.values())) == 3


def test_without_a_limit_a_tree_is_one_place():
    placed = contract(forest_of_atoms(PAPERS), dict.fromkeys(PAPERS, 1.0), 3)
    assert len({place for route in placed.routes.values() for place in route}) == 1


def test_transit_breaks_the_papers_bound_and_it_is_counted():
    rng = random.Random(0)
    worse = 0
    for _ in range(50):
        groups = {g: frozenset(rng.sample("ABCDEFGHIJ", 4)) for g in "STUVWXYZ"}
        rates = dict.fromkeys(groups, 1.0)
        graph = paper_graph(groups, nodes_of_paper(groups, rng.choice))
        sees, numbers = seen(graph, rates), numbered(graph, rates)
        assert all(sees[node] >= numbers[node] for node in numbers)
        busiest = max(received(groups, rates).values())
        worse += bool(numbers) and max(numbers.values()) <= busiest < max(sees.values())
    assert worse > 5


def test_places_of_a_route_get_machines_nearby_and_each_its_own():
    graph = paper_graph(PAPERS)
    machine = machines_of_paper(graph, lambda: 50, lambda one: sorted(range(100), key=lambda m: abs(m - one)))
    assert machine == {"G0&G1": 50, "G0&G2": 49, "G1&G2": 48}
    with pytest.raises(ConfigError, match="more places than machines"):
        machines_of_paper(graph, lambda: 0, lambda one: range(2))
