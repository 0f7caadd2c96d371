"""Which atoms there are, where they live, and along which path the messages of each group pass them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise

from unisono.engines.plan import check_paths
from unisono.model.errors import PlanError

Groups = Mapping[str, frozenset[str]]
"""The members of every group."""

Atoms = Mapping[str, tuple[str, str]]
"""The two groups of every atom."""

THRESHOLD_DEFAULT = 2  # below that nobody can compare notes; 1 where causes count


def atom_name(one: str, other: str) -> str:
    """The name of the atom of two groups."""
    return "&".join(sorted((one, other)))


def atoms_of(groups: Groups, threshold: int = THRESHOLD_DEFAULT) -> dict[str, tuple[str, str]]:
    """An atom for every two groups that share two or more members."""
    return {
        atom_name(one, other): (one, other)
        for one, other in combinations(sorted(groups), 2)
        if len(groups[one] & groups[other]) >= threshold
    }


@dataclass(frozen=True)
class AtomGraph:
    """The groups, and for each the atoms its messages pass, in order, transit included.

    Atoms live in places, where a message meets all of them in one visit; unless told otherwise each lives alone.
    """

    groups: Groups
    paths: Mapping[str, tuple[str, ...]]
    home: Mapping[str, str] = field(default_factory=dict)  # atom -> its place
    ingress: Mapping[str, str] = field(default_factory=dict)  # group -> the place where messages enter
    pairs: Atoms | None = None  # the atoms, if somebody knows them already

    @cached_property
    def atoms(self) -> Atoms:
        """The two groups of every atom."""
        return atoms_of(self.groups) if self.pairs is None else self.pairs

    @cached_property
    def atoms_by_group(self) -> Mapping[str, tuple[str, ...]]:
        """The atoms that number the messages of each group, by name."""
        found: dict[str, list[str]] = {group: [] for group in self.groups}
        for atom, pair in sorted(self.atoms.items()):
            for group in pair:
                found[group].append(atom)
        return {group: tuple(atoms) for group, atoms in found.items()}

    @cached_property
    def routes(self) -> Mapping[str, tuple[str, ...]]:
        """The places that the messages of each group visit, in order; the first is where they enter."""
        return {group: self._route(group) for group in self.groups}

    @cached_property
    def forwarding(self) -> Mapping[str, Mapping[str, str]]:
        """Place -> group -> where its messages go next; what goes nowhere leaves the network there."""
        return _hops(self.routes)

    @cached_property
    def reverse(self) -> Mapping[str, Mapping[str, str]]:
        """Place -> group -> where its messages came from; what came from nowhere entered there."""
        return _hops({group: route[::-1] for group, route in self.routes.items()})

    def relevant(self, member: str) -> dict[str, tuple[str, ...]]:
        """For every group of a member: the group and its atoms that lie within the member's groups."""
        mine = {group for group, members in self.groups.items() if member in members}
        return {
            group: (group, *(a for a in self.atoms_by_group[group] if mine.issuperset(self.atoms[a])))
            for group in sorted(mine)
        }

    def _route(self, group: str) -> tuple[str, ...]:
        visits = [self.home.get(atom, atom) for atom in self.paths[group]]
        first = self.ingress.get(group) or (visits[0] if visits else group)
        return (first, *(there for here, there in pairwise([first, *visits]) if here != there))


def _hops(routes: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {place: {} for route in routes.values() for place in route}
    for group, route in routes.items():
        for here, there in pairwise(route):
            table[here][group] = there
    return table


def check_graph(graph: AtomGraph) -> None:
    """Raise PlanError unless the graph keeps C1, C2 and C3, atom by atom and place by place."""
    on_path = {group: frozenset(path) for group, path in graph.paths.items()}
    for atom, pair in graph.atoms.items():
        for group in pair:
            if atom not in on_path[group]:
                raise PlanError(f"C1: the path of '{group}' misses its atom '{atom}'")
    # Each group enters by a node of its own: that adds neither a loop nor a second direction.
    check_paths({f"in {group}": (f"in {group}", *path) for group, path in graph.paths.items()}, {})
    check_paths({f"in {group}": (f"in {group}", *route) for group, route in graph.routes.items()}, {})
