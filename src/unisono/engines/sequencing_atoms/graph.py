"""Which atoms there are, and along which path the messages of each group pass them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from unisono.engines.plan import check_paths, components
from unisono.model.errors import PlanError

Groups = Mapping[str, frozenset[str]]
"""The members of every group."""


def atom_name(one: str, other: str) -> str:
    """The name of the atom of two groups."""
    return "&".join(sorted((one, other)))


def atoms_of(groups: Groups) -> dict[str, tuple[str, str]]:
    """An atom for every two groups that share two or more members: below that nobody can compare notes."""
    return {
        atom_name(one, other): (one, other)
        for one, other in combinations(sorted(groups), 2)
        if len(groups[one] & groups[other]) >= 2
    }


@dataclass(frozen=True)
class AtomGraph:
    """The groups, and for each the atoms its messages pass, in order, transit included."""

    groups: Groups
    paths: Mapping[str, tuple[str, ...]]

    def relevant(self, member: str) -> dict[str, tuple[str, ...]]:
        """For every group of a member: the group and its atoms that lie within the member's groups."""
        mine = {group for group, members in self.groups.items() if member in members}
        inside = {atom for atom, pair in atoms_of(self.groups).items() if mine.issuperset(pair)}
        atoms = atoms_of(self.groups)
        return {g: (g, *(a for a in sorted(inside) if g in atoms[a])) for g in sorted(mine)}


def check_graph(graph: AtomGraph) -> None:
    """Raise PlanError unless the graph keeps C1, C2 and C3."""
    for atom, pair in atoms_of(graph.groups).items():
        for group in pair:
            if atom not in graph.paths[group]:
                raise PlanError(f"C1: the path of '{group}' misses its atom '{atom}'")
    # Each group enters by a node of its own: that adds neither a loop nor a second direction.
    check_paths({f"in {group}": (f"in {group}", *path) for group, path in graph.paths.items()}, {})


def line_of_atoms(groups: Groups) -> AtomGraph:
    """All atoms of a component on one line, every path from left to right: lawful by construction."""
    atoms = atoms_of(groups)
    shared: dict[str, set[str]] = {group: set() for group in groups}
    for one, other in atoms.values():
        shared[one].add(other)
        shared[other].add(one)
    size = {group: (-len(members), group) for group, members in groups.items()}
    paths: dict[str, tuple[str, ...]] = {}
    for component in components(shared):
        inside = [atom for atom, (one, _) in atoms.items() if one in component]
        # Atoms of the largest groups come last, so that small groups have short paths.
        line = sorted(inside, key=lambda a: sorted((size[g] for g in atoms[a]), reverse=True), reverse=True)
        for group in component:
            places = [i for i, atom in enumerate(line) if group in atoms[atom]]
            paths[group] = tuple(line[places[0] : places[-1] + 1]) if places else ()
    return AtomGraph(groups, paths)
