"""Paper 003, one run: latency on a network (figures 3 and 4), and what can be counted without one (5 to 8)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unisono.engines.sequencing_atoms import AtomGraph, check_graph, numbered, paper_graph, seen
from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.atom_worlds import Members, Network, members_of, place, send, zipf_members
from unisono.lab.reproduce.experiments import ATOM_PLACINGS, DECILES, QUANTILES
from unisono.model.errors import PlanError


def run_stretch(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One membership on one network, placed in every way."""
    hosts, groups, stub_domains = (int(parameters[name]) for name in ("hosts", "groups", "stub_domains"))
    network = Network(hosts, stub_domains, seed)
    members = zipf_members(hosts, groups, np.random.default_rng([seed, 0x3]))
    figures: Figures = {}
    for placing in ATOM_PLACINGS:
        placed = place(members, network, placing, seed)
        heard = send(members, network, placed)
        stretch, is_apart = heard.stretch(), heard.unicast_s > 0
        unicast = heard.unicast_s[is_apart]
        penalty = heard.sequenced_s[is_apart] / unicast
        worst = penalty >= np.quantile(penalty, 0.99)
        by_distance = np.array_split(np.argsort(unicast, kind="stable"), DECILES)
        figures |= {
            f"{placing}_mean": float(stretch.mean()),
            f"{placing}_max": float(stretch.max()),
            f"{placing}_penalty": float(penalty.mean()),
            f"{placing}_machines": float(len(placed[1])),
            f"{placing}_hops": _hops(members, placed[0]),
            f"{placing}_worst": float(unicast[worst].mean() / unicast.mean()),
        }
        shares = np.quantile(stretch, np.linspace(0, 1, QUANTILES))
        figures |= {f"{placing}_stretch_{i:02}": float(value) for i, value in enumerate(shares)}
        for i, pairs in enumerate(by_distance):
            figures[f"{placing}_penalty_{i}"] = float(penalty[pairs].mean())
            figures[f"unicast_ms_{i}"] = 1000 * float(unicast[pairs].mean())
    return figures


def _hops(members: Members, graph: AtomGraph) -> float:
    """The machines that a message meets, on average."""
    rates = members.rates
    return sum(rates[g] * len(route) for g, route in graph.routes.items()) / sum(rates.values())


def run_nodes(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One membership of Zipf sizes: nodes, stress, load, atoms on paths, state."""
    hosts, groups = int(parameters["hosts"]), int(parameters["groups"])
    members = zipf_members(hosts, groups, np.random.default_rng([seed, 0x3]))
    graph = members.papers(np.random.default_rng([seed, 0x34]))
    atoms = np.array([len(graph.atoms_by_group[group]) for group in members.groups]) / hosts
    passed = max(len(path) for path in graph.paths.values()) / hosts
    shares = np.quantile(atoms, np.linspace(0, 1, QUANTILES))
    return {
        "atoms": float(len(graph.atoms)),
        **_of_nodes("paper", graph, members),
        **_of_nodes("ours", members.ours(), members),
        **_of_nodes("spread", members.forest(), members),
        "atoms_on_path_max": float(atoms.max()),
        "atoms_passed_max": passed,
        "coin_breaks_c3": float(_coin_breaks(members, np.random.default_rng([seed, 0xC3]))),
        **{f"atoms_on_path_{i:02}": float(value) for i, value in enumerate(shares)},
    }


def _of_nodes(name: str, graph: AtomGraph, members: Members) -> Figures:
    """What nodes with atoms have to do; those that are only an ingress are not counted, as in the paper."""
    groups: dict[str, set[str]] = {}
    for atom, pair in graph.atoms.items():
        groups.setdefault(graph.home.get(atom, atom), set()).update(pair)
    passing = {node: {g for g, route in graph.routes.items() if node in route} for node in groups}
    count, busiest = len(members.groups), members.busiest()
    numbers, sees = numbered(graph, members.rates), seen(graph, members.rates)
    stress = np.array([len(inside) / count for inside in groups.values()] or [0.0])
    common = [
        bool(frozenset.intersection(*(members.groups[g] for g in inside))) for inside in groups.values()
    ]
    entries = [
        sum(graph.home.get(atom, atom) == node for atom in graph.atoms)
        + sum(route[0] == node for route in graph.routes.values())
        + len(graph.forwarding[node])
        + len(graph.reverse[node])
        for node in groups
    ] or [0]
    return {
        f"{name}_nodes": float(len(groups)),
        f"{name}_stress": float(stress.mean()),
        f"{name}_stress_p90": float(np.quantile(stress, 0.9)),
        f"{name}_stress_max": float(stress.max()),
        f"{name}_passing": float(np.mean([len(p) / count for p in passing.values()] or [0.0])),
        f"{name}_common": float(np.mean(common or [True])),
        f"{name}_numbered": max(numbers.values(), default=0.0) / busiest,
        f"{name}_seen": max(sees.values()) / busiest,
        f"{name}_numbers_more": float(np.mean([numbers[node] > busiest for node in groups] or [False])),
        f"{name}_sees_more": float(np.mean([sees[node] > busiest for node in groups] or [False])),
        f"{name}_state": float(np.mean(entries)),
        f"{name}_state_max": float(max(entries)),
    }


def _coin_breaks(members: Members, generator: np.random.Generator) -> bool:
    """Whether C3 is broken if the direction of each group's path is drawn: C1 and C2 hold either way."""
    backwards = [group for group in members.groups if generator.random() < 0.5]
    try:
        check_graph(paper_graph(members.groups, backwards=backwards))
    except PlanError:
        return True
    return False


def run_occupancy(parameters: Mapping[str, Value], seed: int) -> Figures:
    """Every host is in every group with the same probability."""
    hosts, groups = int(parameters["hosts"]), int(parameters["groups"])
    generator = np.random.default_rng([seed, 0x8])
    members = members_of(generator.random((hosts, groups)) < float(parameters["occupancy"]))
    graph = members.papers(generator)
    return {
        "atoms": float(len(graph.atoms)),
        "paper_nodes": float(len(set(graph.home.values()))),
        "ours_nodes": float(len(set(members.ours().home.values()))),
    }
