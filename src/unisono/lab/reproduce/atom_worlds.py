"""Paper 003's worlds: hosts in clusters on a transit-stub network, groups of Zipf size, and where atoms are placed.

Every member sends one message to each of its groups. A message takes the way with the least delay to the first machine of
its group's route, from machine to machine, and from the last one to every other member; nothing queues and nothing is lost, as
in the paper's simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from unisono.engines.sequencing_atoms import (
    AtomGraph,
    contract,
    forest_of_atoms,
    machines_of_paper,
    nodes_of_paper,
    paper_graph,
    received,
    seen,
)
from unisono.sim.topologies.stub_delays import StubDelays
from unisono.sim.topologies.transit_stub import Floats, Ints, TransitStub, clustered_hosts, transit_stub
from unisono.sim.workloads import group_members, zipf_group_sizes

CLUSTERS = 16  # of 8 hosts each, if there are 128
ROUNDS_MAX = 6  # until a mapping has settled
Bools = NDArray[np.bool_]
Placed = tuple[AtomGraph, dict[str, int]]


@dataclass(frozen=True)
class Members:
    """Who is in which group."""

    held: Bools  # a row for each host, a column for each group
    groups: dict[str, frozenset[str]]

    @property
    def rates(self) -> dict[str, float]:
        """Every member sends one message to its group."""
        return {group: float(len(members)) for group, members in self.groups.items()}

    def papers(self, generator: np.random.Generator) -> AtomGraph:
        """The paper's graph, with its sequencing nodes for places."""
        nodes = nodes_of_paper(self.groups, lambda members: members[int(generator.integers(len(members)))])
        return paper_graph(self.groups, nodes)

    def ours(self) -> AtomGraph:
        """Our graph: what is put together sees no more than the busiest receiver."""
        return contract(self.forest(), self.rates, self.busiest())

    def one(self) -> AtomGraph:
        """Our graph, as much together as possible without a load above that of the heaviest place."""
        forest = self.forest()
        return contract(forest, self.rates, max(seen(forest, self.rates).values()))

    def forest(self) -> AtomGraph:
        """Our graph, nothing put together."""
        return forest_of_atoms(self.groups, rates=self.rates)

    def busiest(self) -> float:
        """The messages of the busiest receiver."""
        return max(received(self.groups, self.rates).values(), default=0.0)


def members_of(held: Bools) -> Members:
    """Groups and members by name."""
    names = [f"host {i:03}" for i in range(len(held))]
    columns = (np.flatnonzero(column).tolist() for column in held.T)
    return Members(
        held, {f"group {i:03}": frozenset(names[j] for j in inside) for i, inside in enumerate(columns)}
    )


def zipf_members(hosts: int, groups: int, generator: np.random.Generator) -> Members:
    """Groups of Zipf size; all hosts are in the largest."""
    return members_of(group_members(zipf_group_sizes(groups, hosts, hosts), hosts, generator))


class Network:
    """Hosts on routers, and how far everything is."""

    def __init__(self, hosts: int, stub_domains: int, seed: int) -> None:
        graph = transit_stub(seed, TransitStub(stub_domains=stub_domains))
        self.routers = np.arange(graph.routers)
        self.delays = StubDelays(graph)
        at = clustered_hosts(graph, hosts, min(CLUSTERS, hosts), seed)
        self.from_hosts = self.delays.between(at, self.routers)  # [host, router]
        self.unicast = self.from_hosts[:, at]
        self._from: dict[int, Floats] = {}

    def near(self, router: int) -> list[int]:
        """All routers, the nearest first."""
        nearest: list[int] = np.argsort(self.delays_from(router), kind="stable").tolist()
        return nearest

    def chain(self, machines: list[int]) -> float:
        """How long it takes along these machines."""
        return sum(float(self.delays_from(a)[b]) for a, b in pairwise(machines))

    def delays_from(self, router: int) -> Floats:
        """How far all routers are from one, in seconds."""
        if router not in self._from:
            self._from[router] = self.delays.between(np.array([router]), self.routers)[0]
        return self._from[router]

    def settle(self, members: Members, graph: AtomGraph) -> dict[str, int]:
        """Our mapping: each place where it costs least, given where its neighbours are, until nothing moves.

        What is counted is delay, once for every message and every member that hears it. A machine takes one place.
        """
        pull, cost = self._costs(members, graph)
        machine: dict[str, int] = {}
        taken = np.zeros(len(self.routers), np.bool_)
        order = sorted(cost, key=lambda place: (-sum(pull[place].values()), place))
        for _ in range(ROUNDS_MAX):
            moved = False
            for place in order:
                here = machine.pop(place, None)
                if here is not None:
                    taken[here] = False
                total = cost[place].copy()
                for other, weight in pull[place].items():
                    if other in machine:
                        total += weight * self.delays_from(machine[other])
                total[taken] = np.inf
                best = int(np.argmin(total))
                if here is not None and total[here] <= total[best] * (1 + 1e-9):
                    best = here
                machine[place], taken[best] = best, True
                moved |= best != here
            if not moved:
                break
        return machine

    def _costs(
        self, members: Members, graph: AtomGraph
    ) -> tuple[dict[str, dict[str, float]], dict[str, Floats]]:
        """For each place: what draws it to other places, and what each router costs for those who enter and leave."""
        pull: dict[str, dict[str, float]] = {}
        ends: dict[str, Floats] = {}
        for column, route in zip(members.held.T, graph.routes.values(), strict=True):
            size = int(column.sum())
            for place in route:
                pull.setdefault(place, {})
                ends.setdefault(place, np.zeros(len(column)))
            for place in (route[0], route[-1]):
                ends[place] += column * (size - 1.0)
            for here, there in pairwise(route):
                for a, b in ((here, there), (there, here)):
                    pull[a][b] = pull[a].get(b, 0.0) + size * (size - 1.0)
        return pull, dict(zip(ends, np.stack(list(ends.values())) @ self.from_hosts, strict=True))


def place(members: Members, network: Network, placing: str, seed: int) -> Placed:
    """A graph, and the machine of each of its places; all placings of a seed draw the same.

    `paper`, `paper_near` (its graph on our machines), `graph` (our graph on its machines), `ours`, `spread` (nothing
    put together) and `one` (as much together as the heaviest place allows).
    """
    build = {"ours": members.ours, "graph": members.ours, "spread": members.forest, "one": members.one}
    if placing in build:
        graph = build[placing]()
    else:
        graph = members.papers(np.random.default_rng([seed, 0x34]))
    if placing in ("paper", "graph"):
        generator = np.random.default_rng([seed, 0x3A])
        machine = machines_of_paper(graph, lambda: int(generator.choice(network.routers)), network.near)
    else:
        machine = network.settle(members, graph)
    return graph, machine


@dataclass(frozen=True)
class Heard:
    """What members heard: a row for each message and member other than its sender."""

    receiver: Ints
    sequenced_s: Floats
    unicast_s: Floats

    def stretch(self) -> Floats:
        """For each destination: the time of all its messages through the sequencers by that of the direct way."""
        sequenced = np.bincount(self.receiver, self.sequenced_s)
        unicast = np.bincount(self.receiver, self.unicast_s)
        stretch: Floats = sequenced[unicast > 0] / unicast[unicast > 0]
        return stretch


def send(members: Members, network: Network, placed: Placed) -> Heard:
    """Every member sends one message to each of its groups."""
    graph, machine = placed
    receivers: list[Ints] = []
    sequenced: list[Floats] = []
    unicast: list[Floats] = []
    for column, route in zip(members.held.T, graph.routes.values(), strict=True):
        inside = np.flatnonzero(column)
        machines = [machine[one] for one in route]
        into = network.from_hosts[inside, machines[0]] + network.chain(machines)
        out = network.from_hosts[inside, machines[-1]]
        sender, receiver = np.nonzero(~np.eye(len(inside), dtype=np.bool_))
        receivers.append(inside[receiver])
        sequenced.append(into[sender] + out[receiver])
        unicast.append(network.unicast[inside[sender], inside[receiver]])
    return Heard(np.concatenate(receivers), np.concatenate(sequenced), np.concatenate(unicast))
