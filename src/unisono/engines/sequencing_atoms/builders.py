"""Ways to lay the paths: on a line, on the forest of groups, and as the paper does.

The forest is what the bus uses: the atom of two groups lives at whichever of them is the ancestor, together with the
ingress of that group, so a place is a topic manager. Line and forest are lawful for any membership. The paper gives
no algorithm and no direction; what it says leaves room for graphs that break C3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from unisono.engines.plan import Plan, components, elimination_forest
from unisono.engines.sequencing_atoms.graph import AtomGraph, Atoms, Groups, atom_name, atoms_of


def forest_of_atoms(
    groups: Groups, *, rates: Mapping[str, float] | None = None, atoms: Atoms | None = None
) -> AtomGraph:
    """The atoms on the elimination forest of their groups; `rates` as for `elimination_forest`."""
    atoms = atoms_of(groups) if atoms is None else atoms
    return graph_of_plan(elimination_forest(_conflicts(groups, atoms), rates=rates), groups)


def graph_of_plan(plan: Plan, groups: Groups) -> AtomGraph:
    """The graph that topic managers of this plan are: an atom for every conflict of two topics."""
    place = {group: i for i, group in enumerate(plan.rank)}
    atoms: dict[str, tuple[str, str]] = {}
    living: dict[str, list[tuple[bool, str]]] = {group: [] for group in plan.rank}
    home: dict[str, str] = {}
    for group in plan.rank:
        for higher in plan.above(group):
            atom = atom_name(group, higher)
            atoms[atom] = (min(group, higher), max(group, higher))
            home[atom] = higher
            goes_on = place[plan.emitter(group)] < place[higher]
            living[higher].append((goes_on, atom))
    # Atoms of groups that leave here come first: the others pass all of them anyway.
    inside = {group: tuple(atom for _, atom in sorted(found)) for group, found in living.items()}
    return AtomGraph(
        groups,
        {group: _climb(plan, group, inside) for group in plan.rank},
        home=home,
        ingress={group: group for group in plan.rank},
        pairs=dict(sorted(atoms.items())),
    )


def _climb(plan: Plan, group: str, inside: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    *before, last = plan.path(group)
    at_last = inside[last]
    if before:
        at_last = at_last[: at_last.index(atom_name(group, last)) + 1]
    return (*(atom for place in before for atom in inside[place]), *at_last)


def line_of_atoms(groups: Groups) -> AtomGraph:
    """All atoms of a component on one line, every path from left to right: lawful by construction."""
    atoms = atoms_of(groups)
    size = {group: (-len(members), group) for group, members in groups.items()}
    paths: dict[str, tuple[str, ...]] = {}
    for component in components(_conflicts(groups, atoms)):
        inside = [atom for atom, (one, _) in atoms.items() if one in component]
        # Atoms of the largest groups come last, so that small groups have short paths.
        line = sorted(inside, key=lambda a: sorted((size[g] for g in atoms[a]), reverse=True), reverse=True)
        paths |= {group: _stretch(line, group, atoms) for group in component}
    return AtomGraph(groups, paths, pairs=atoms)


def paper_graph(
    groups: Groups, nodes: Sequence[Sequence[str]] = (), backwards: Collection[str] = ()
) -> AtomGraph:
    """As the paper builds it: groups are added one after the other, and their new atoms put at the end of a line.

    With its example this is its figure 2b: the third group's path goes through an atom that is not its own. Atoms on
    one sequencing node are neighbours on the line if `nodes` says which. The paper gives the line no direction: messages of
    the groups in `backwards` travel from right to left, which keeps C1 and C2. For the lab only.
    """
    place = {group: i for i, group in enumerate(groups)}
    atoms = atoms_of(groups)
    born = {atom: sorted((place[g] for g in pair), reverse=True) for atom, pair in atoms.items()}
    home = {atom: f"node {i}" for i, node in enumerate(nodes) for atom in node}
    oldest: dict[str, list[int]] = {}
    for node in nodes:
        oldest |= dict.fromkeys(node, min(born[atom] for atom in node))
    paths: dict[str, tuple[str, ...]] = {}
    for component in components(_conflicts(groups, atoms)):
        inside = [atom for atom, (one, _) in atoms.items() if one in component]
        line = sorted(inside, key=lambda atom: (oldest.get(atom, born[atom]), born[atom]))
        paths |= {group: _stretch(line, group, atoms) for group in component}
    paths |= {group: paths[group][::-1] for group in backwards}
    return AtomGraph(groups, paths, home=home, pairs=atoms)


def _stretch(line: Sequence[str], group: str, atoms: Atoms) -> tuple[str, ...]:
    """From the first atom of a group on the line to its last."""
    places = [i for i, atom in enumerate(line) if group in atoms[atom]]
    return tuple(line[places[0] : places[-1] + 1]) if places else ()


def _conflicts(groups: Groups, atoms: Atoms) -> dict[str, set[str]]:
    conflicts: dict[str, set[str]] = {group: set() for group in groups}
    for one, other in atoms.values():
        conflicts[one].add(other)
        conflicts[other].add(one)
    return conflicts
