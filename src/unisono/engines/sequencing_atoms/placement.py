"""Which atoms share a machine: the paper's heuristic, and ours.

The paper puts atoms together whose overlaps are alike, wherever they are in the graph, and says that no machine
then sees more messages than the busiest receiver. That counts what its atoms number; `seen` counts transit too.
Ours contracts the busiest edges of the graph while what a machine sees stays under a limit: what is together is one
stretch of the graph, so the laws hold for machines as they do for places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from unisono.engines.sequencing_atoms.graph import AtomGraph, Groups, atoms_of
from unisono.model.errors import ConfigError

Choose = Callable[[Sequence[str]], str]
"""One of several, at random or not: engines know no chance."""


def nodes_of_paper(groups: Groups, choose: Choose) -> list[tuple[str, ...]]:
    """The paper's two steps (3.4): atoms whose overlaps are nested, then those that share a chosen member.

    Each atom is put together with others once in each step, the largest overlaps first.
    """
    overlaps = {atom: groups[one] & groups[other] for atom, (one, other) in atoms_of(groups).items()}
    left = sorted(overlaps, key=lambda atom: (-len(overlaps[atom]), atom))
    nested: list[tuple[str, ...]] = []
    while left:
        largest = overlaps[left[0]]
        nested.append(tuple(atom for atom in left if overlaps[atom] <= largest))
        left = [atom for atom in left if not overlaps[atom] <= largest]
    nodes: list[tuple[str, ...]] = []
    while nested:
        member = choose(sorted(overlaps[nested[0][0]]))
        nodes.append(tuple(atom for unit in nested if member in overlaps[unit[0]] for atom in unit))
        nested = [unit for unit in nested if member not in overlaps[unit[0]]]
    return nodes


def machines_of_paper(
    graph: AtomGraph, choose: Callable[[], int], near: Callable[[int], Iterable[int]]
) -> dict[str, int]:
    """The paper's mapping: group by group, a first place anywhere, the next ones on machines nearby.

    `choose` gives any machine, `near` all machines from the nearest on. A machine takes one place.
    """
    machine: dict[str, int] = {}
    taken: set[int] = set()

    def assign(place: str, candidates: Iterable[int]) -> None:
        found = next((one for one in candidates if one not in taken), None)
        if found is None:
            raise ConfigError(f"there are more places than machines: none is left for '{place}'")
        machine[place] = found
        taken.add(found)

    for route in graph.routes.values():
        if not any(place in machine for place in route):
            assign(route[0], near(choose()))
        while (step := _nearest_step(route, machine)) is not None:
            known, place = step
            assign(place, near(machine[known]))
    return machine


def _nearest_step(route: Sequence[str], known: Mapping[str, int]) -> tuple[str, str] | None:
    """A place of the route without a machine, and its neighbour that has one."""
    for here, there in pairwise(route):
        if (here in known) != (there in known):
            return (here, there) if here in known else (there, here)
    return None


def contract(graph: AtomGraph, rates: Mapping[str, float], seen_max: float, places_min: int = 1) -> AtomGraph:
    """Put places together along the busiest edges, while no place sees more than `seen_max` messages.

    A place that sees more by itself stays as it is. `places_min` keeps at least so many apart.
    """
    passing = _passing(graph)
    traffic: dict[tuple[str, str], float] = {}
    for group, route in graph.routes.items():
        for edge in pairwise(route):
            traffic[edge] = traffic.get(edge, 0) + rates.get(group, 0)
    joined: dict[str, str] = {}
    for here, there in sorted(traffic, key=lambda edge: (-traffic[edge], edge)):
        if len(passing) <= places_min:
            break
        low, high = _end(joined, here), _end(joined, there)
        together = passing[low] | passing[high]
        if sum(rates.get(group, 0) for group in together) <= seen_max:
            joined[low] = high
            passing[high] = together
            del passing[low]
    return replace(
        graph,
        home={atom: _end(joined, graph.home.get(atom, atom)) for atom in graph.atoms},
        ingress={group: _end(joined, route[0]) for group, route in graph.routes.items()},
    )


def seen(graph: AtomGraph, rates: Mapping[str, float]) -> dict[str, float]:
    """The messages that each place sees, transit included."""
    return _sums(_passing(graph), rates)


def numbered(graph: AtomGraph, rates: Mapping[str, float]) -> dict[str, float]:
    """The messages that atoms of each place number: what the paper counts."""
    groups: dict[str, set[str]] = {}
    for atom, pair in graph.atoms.items():
        groups.setdefault(graph.home.get(atom, atom), set()).update(pair)
    return _sums(groups, rates)


def received(groups: Groups, rates: Mapping[str, float]) -> dict[str, float]:
    """The messages that each member receives."""
    load: dict[str, float] = {}
    for group, members in groups.items():
        for member in members:
            load[member] = load.get(member, 0) + rates.get(group, 0)
    return load


def _passing(graph: AtomGraph) -> dict[str, set[str]]:
    passing: dict[str, set[str]] = {}
    for group, route in graph.routes.items():
        for place in route:
            passing.setdefault(place, set()).add(group)
    return passing


def _sums(groups: Mapping[str, Iterable[str]], rates: Mapping[str, float]) -> dict[str, float]:
    return {place: sum(rates.get(group, 0) for group in inside) for place, inside in groups.items()}


def _end(joined: Mapping[str, str], place: str) -> str:
    while place in joined:
        place = joined[place]
    return place
