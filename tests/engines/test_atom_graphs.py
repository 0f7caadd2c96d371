"""Overlaps that change, lawful graphs of atoms, and the paper's numbers in our stamps."""

from __future__ import annotations

import random
import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.engines.effects import Announce, Effect, Send
from unisono.engines.inputs import Received
from unisono.engines.plan import conflict_graph, elimination_forest
from unisono.engines.sequencing_atoms import (
    Atom,
    AtomGraph,
    Change,
    Ingress,
    MemberOverlaps,
    atom_address,
    atom_numbers,
    atoms_of,
    check_graph,
    forest_of_atoms,
    graph_of_plan,
    line_of_atoms,
)
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.manager import TopicManager
from unisono.model.errors import ConfigError, FrameError, PlanError
from unisono.model.frames import Create, Publication, Stamped

PAPERS = {"X": frozenset("ABD"), "Y": frozenset("ABC"), "Z": frozenset("BCD")}
memberships = st.dictionaries(
    st.sampled_from("TUVWXYZ"), st.frozensets(st.sampled_from("ABCDEFGH")), max_size=7
)


def random_groups(rng: random.Random, groups: int, members: int, size: int) -> dict[str, frozenset[str]]:
    return {f"g{i}": frozenset(f"m{m}" for m in rng.sample(range(members), size)) for i in range(groups)}


@given(memberships)
@settings(max_examples=150, deadline=None)
def test_any_membership_has_a_lawful_graph(groups):
    for graph in (forest_of_atoms(groups), line_of_atoms(groups)):
        check_graph(graph)
        assert graph.atoms == atoms_of(groups)


@given(memberships)
@settings(max_examples=100, deadline=None)
def test_a_route_is_the_path_of_the_plan_and_atoms_live_at_the_ancestor(groups):
    holders = {m: {g for g in groups if m in groups[g]} for m in "ABCDEFGH"}
    plan = elimination_forest(conflict_graph(holders.values(), groups))
    graph = graph_of_plan(plan, groups)
    assert graph == forest_of_atoms(groups)
    assert graph.routes == {group: plan.path(group) for group in groups}
    for atom, (one, other) in graph.atoms.items():
        assert graph.home[atom] == (one if one in plan.path(other) else other)


@given(memberships)
@settings(max_examples=60, deadline=None)
def test_the_tables_lead_along_every_route_and_back(groups):
    graph = forest_of_atoms(groups)
    for group, route in graph.routes.items():
        for table, way in ((graph.forwarding, route), (graph.reverse, route[::-1])):
            here, walked = way[0], [way[0]]
            while (there := table[here].get(group)) is not None:
                walked.append(here := there)
            assert tuple(walked) == way
    for table in (graph.forwarding, graph.reverse):
        assert sum(map(len, table.values())) == sum(len(route) - 1 for route in graph.routes.values())


def test_a_graph_whose_places_make_a_loop_is_refused():
    line = line_of_atoms(PAPERS)
    first, _, last = max(line.paths.values(), key=len)
    check_graph(line)
    with pytest.raises(PlanError, match="C3"):
        check_graph(AtomGraph(PAPERS, line.paths, home={first: "here", last: "here"}))


actions = st.lists(
    st.tuples(
        st.sampled_from(["group", "gone", "join", "leave"]),
        st.sampled_from("VWXYZ"),
        st.frozensets(st.sampled_from("ABCDEF"), min_size=1, max_size=4),
    ),
    max_size=25,
)


@given(actions, st.sampled_from([1, 2, 3]))
@settings(max_examples=150, deadline=None)
def test_overlaps_that_were_changed_are_those_of_the_membership(steps, threshold):
    overlaps = MemberOverlaps(threshold=threshold)
    for what, group, members in steps:
        before = set(overlaps.atoms)
        if (group in overlaps.groups) == (what == "group"):
            continue  # nothing to add, or nothing to change
        if what == "group":
            change = overlaps.add_group(group, members)
        elif what == "gone":
            change = overlaps.remove_group(group)
        elif what == "join":
            change = overlaps.add_member(group, min(members))
        else:
            change = overlaps.remove_member(group, min(members))
        assert set(overlaps.atoms) == (before | set(change.made)) - set(change.retired)
        assert overlaps.atoms == atoms_of(overlaps.groups, threshold)
        check_graph(overlaps.graph())
    for group in list(overlaps.groups):
        overlaps.remove_group(group)
    assert [overlaps.groups, overlaps.atoms, overlaps._shared, overlaps._groups_of] == [{}] * 4


def test_a_member_makes_and_retires_an_atom():
    overlaps = MemberOverlaps({"X": frozenset("AB"), "Y": frozenset("BC")})
    assert overlaps.add_member("Y", "A") == Change(made=("X&Y",))
    assert overlaps.add_member("Y", "A") == Change()
    assert overlaps.groups_of("A") == {"X", "Y"}
    assert overlaps.remove_member("X", "B") == Change(retired=("X&Y",))
    with pytest.raises(ConfigError, match="there already"):
        overlaps.add_group("X")
    with pytest.raises(ConfigError, match="no group 'Z'"):
        overlaps.remove_group("Z")


def test_a_group_comes_and_goes_cheaply_in_a_graph_of_200_overlaps():
    rng = random.Random(9)
    overlaps = MemberOverlaps()
    for group, members in random_groups(rng, 200, 60, 10).items():
        if len(overlaps.atoms) >= 200:
            break
        overlaps.add_group(group, members)
    atoms, graph = dict(overlaps.atoms), overlaps.graph()
    took = []
    for _ in range(5):
        started = time.process_time()
        change = overlaps.add_group("new", frozenset(f"m{m}" for m in range(0, 60, 4)))
        grown = overlaps.graph()
        check_graph(grown)
        took.append(time.process_time() - started)
        assert change.made
        assert set(grown.atoms) == set(atoms) | set(change.made)
        assert overlaps.remove_group("new") == Change(retired=change.made)
    assert overlaps.atoms == atoms
    assert overlaps.graph() == graph
    assert min(took) < 0.05, took


class Places:
    """Topic managers and the paper's atoms beside them; messages meet both in the same order."""

    def __init__(self, groups: dict[str, frozenset[str]]) -> None:
        self.graph = forest_of_atoms(groups)
        holders = {m: {g for g in groups if m in groups[g]} for m in set().union(*groups.values())}
        self.plan = elimination_forest(conflict_graph(holders.values(), groups))
        self.managers = {group: TopicManager(group, self.plan) for group in groups}
        self.ingress = {group: Ingress(group, self.graph) for group in groups}
        self.atoms = {atom_address(atom): (self.graph.home[atom], Atom(atom)) for atom in self.graph.atoms}
        self.links: dict[tuple[str, str], list[tuple[Send, Send]]] = {}
        self.done: list[tuple[Stamped, Stamped]] = []

    def publish(self, group: str, n: int) -> None:
        create = Received("p", Create(Publication("p", 0, n, group)))
        self._settle(group, self.managers[group].handle(create, 0), self.ingress[group].handle(create, 0))

    def move(self, link: tuple[str, str]) -> None:
        ours, literal = self.links[link].pop(0)
        effects = self.managers[link[1]].handle(Received("m", ours.message), 0)
        _, atom = self.atoms[literal.to]
        self._settle(link[1], effects, atom.handle(Received("a", literal.message), 0))

    def _settle(self, place: str, ours: list[Effect], literal: list[Effect]) -> None:
        """Take the paper's message through the atoms of this place, then pass both on, or keep both."""
        while isinstance(sent := literal[0], Send) and self.atoms[sent.to][0] == place:
            literal = self.atoms[sent.to][1].handle(Received("a", sent.message), 0)
        first = ours[0]
        if isinstance(first, Announce):
            assert isinstance(sent, Announce)
            self.done.append((first.notification, sent.notification))
        else:
            there = self.atoms[sent.to][0]
            assert first.to == manager_address(there)
            self.links.setdefault((place, there), []).append((first, sent))


@pytest.mark.parametrize("seed", range(20))
def test_our_stamps_hold_the_numbers_that_the_papers_atoms_give(seed):
    rng = random.Random(seed)
    places = Places(random_groups(rng, rng.randint(2, 6), 8, rng.randint(3, 5)))
    left = [rng.choice(sorted(places.managers)) for _ in range(40)]
    while left or any(places.links.values()):
        busy = sorted(link for link, queue in places.links.items() if queue)
        if left and (not busy or rng.random() < 0.4):
            places.publish(left.pop(), len(left) + 1)
        else:
            places.move(rng.choice(busy))
    assert len(places.done) == 40
    for ours, literal in places.done:
        assert atom_numbers(ours, places.graph) == literal


def test_numbers_count_from_where_the_atom_began():
    graph = forest_of_atoms({"X": frozenset("AB"), "Y": frozenset("AB")})
    message = Stamped(Publication("p", 0, 9, "X"), 1, {"X": 9, "Y": 5})
    assert atom_numbers(message, graph).entries == {"X": 9, "X&Y": 14}
    began = {"X": {"X": 6}, "X&Y": {"X": 7, "Y": 5}}
    assert atom_numbers(message, graph, began).entries == {"X": 3, "X&Y": 2}
    with pytest.raises(FrameError, match="does not name 'Y'"):
        atom_numbers(Stamped(message.publication, 1, {"X": 9}), graph)


def test_every_pair_of_atoms_of_a_group_is_met_in_one_order():
    graph = forest_of_atoms(random_groups(random.Random(2), 12, 20, 7))
    for one, other in combinations(graph.groups, 2):
        common = [atom for atom in graph.paths[one] if atom in graph.paths[other]]
        assert common == [atom for atom in graph.paths[other] if atom in graph.paths[one]]
