"""Ways between the processes of a world: what a packet takes, and what a notification takes to each subscriber.

Flat: one link between any two processes. Pastry: packets are routed hop by hop; a notification is routed to the
root of its topic and goes down the topic's SCRIBE tree, each link drawing one latency for it. The manager of a topic is
the root of its tree. Transit-stub: the least delay between the routers of two hosts; a notification is sent to
each subscriber by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Protocol

import numpy as np

from unisono.sim.ground import Ground
from unisono.sim.links import ADSL, WAN, Channel, Links, Mixture
from unisono.sim.network import Perturbation
from unisono.sim.ring_routes import RingRoutes
from unisono.sim.topologies.pastry import Ring, key_of
from unisono.sim.topologies.scribe import Tree, tree
from unisono.sim.topologies.transit_stub import clustered_hosts, transit_stub

LINES = {"unlimited": None, "adsl": ADSL}


class Routes(Protocol):
    """What messages take between processes, in seconds; infinity, if a link on the way loses them."""

    @property
    def is_narrow(self) -> bool:
        """Whether bytes take time: who asks should know then how many there are."""

    def packet_s(self, source: str, to: str, size_bytes: float = 0.0) -> float:
        """One packet from a process to another."""

    def notices_s(
        self, source: str, topics: tuple[str, ...], to: Sequence[str], size_bytes: float = 0.0
    ) -> list[float]:
        """A notification about topics, from a process to each of these subscribers."""

    def perturb(self, perturbation: Perturbation) -> None:
        """Have some nodes on the way treat what passes them like this from now on."""

    def heal(self) -> None:
        """Lose nothing from now on, and perturb nothing."""


def make_routes(
    ground: Ground,
    seed: int,
    subscribers: Mapping[str, Sequence[str]],
    publishers: Sequence[str],
    sequencers: Mapping[str, str],
) -> Routes:
    """The ways of a world: `subscribers` says who holds what, `sequencers` what each is found by on a ring."""
    processes = [*subscribers, *publishers, *sequencers]
    if ground.topology == "pastry":
        return _ring_routes(ground, seed, subscribers, publishers, sequencers)
    if ground.topology == "transit-stub":
        return _RouterRoutes(seed, processes, ground)
    return _FlatRoutes(seed, processes, ground)


def _links(seed: int, ground: Ground) -> Links:
    lines = LINES[ground.bandwidth]
    if ground.hop_s is None:
        return Links(seed, WAN, lines, ground.link_loss)
    same = Channel(ground.hop_s, 0.0, floor_s=0.0)
    return Links(seed, Mixture(same, same, 0.0), lines, ground.link_loss)


class _FlatRoutes:
    """One link between any two."""

    def __init__(self, seed: int, processes: Sequence[str], ground: Ground) -> None:
        self.links = _links(seed, ground)
        self.random = Random(f"{seed} flat routes")
        self.generator = np.random.default_rng([seed, 0xF1A7])
        self.place = {process: i for i, process in enumerate(processes)}

    @property
    def is_narrow(self) -> bool:
        """Whether bytes take time."""
        return self.links.bandwidth is not None

    def perturb(self, perturbation: Perturbation) -> None:
        """Nobody is on the way."""

    def heal(self) -> None:
        """These links lose nothing."""

    def packet_s(self, source: str, to: str, size_bytes: float = 0.0) -> float:
        """Over the one link."""
        return self.links.sample(self.place[source], self.place[to], self.random, size_bytes)

    def notices_s(
        self, source: str, topics: tuple[str, ...], to: Sequence[str], size_bytes: float = 0.0
    ) -> list[float]:
        """Over a link to each; where lines are narrow, one copy after the other."""
        there = [self.place[name] for name in to]
        found = self.links.sample_many(
            np.full(len(there), self.place[source]), there, self.generator, size_bytes
        )
        if self.links.bandwidth is not None:
            found += np.arange(len(there)) * self.links.bandwidth.up_s(size_bytes)
        times: list[float] = found.tolist()
        return times


def _ring_routes(
    ground: Ground,
    seed: int,
    subscribers: Mapping[str, Sequence[str]],
    publishers: Sequence[str],
    sequencers: Mapping[str, str],
) -> RingRoutes:
    """A ring whose nodes are the processes of the world, and others."""
    links = _links(seed, ground)
    ring = Ring(ground.peers, seed, links=links)
    places = np.random.default_rng([seed, 0x9B]).permutation(ground.peers).tolist()
    place = {name: places[i % len(places)] for i, name in enumerate([*subscribers, *publishers])}
    keys = {sequencer: key_of(key) for sequencer, key in sequencers.items()}
    place |= zip(keys, ring.roots(np.array(list(keys.values()), np.uint64)).tolist(), strict=True)
    holders: dict[str, list[int]] = {}
    for name, topics in subscribers.items():
        for topic in topics:
            holders.setdefault(topic, []).append(place[name])

    def tree_of(topic: str) -> Tree:
        return tree(ring, topic, np.array(holders.get(topic, []), np.int64))

    return RingRoutes(ring, links, place, tree_of, seed, keys=keys)


class _RouterRoutes:
    """Hosts in clusters on the routers of a transit-stub graph."""

    def __init__(self, seed: int, processes: Sequence[str], ground: Ground) -> None:
        self.graph = transit_stub(seed)
        self.lines = LINES[ground.bandwidth]
        clusters = min(ground.clusters, len(processes))
        routers = clustered_hosts(self.graph, len(processes), clusters, seed).tolist()
        order = np.random.default_rng([seed, 0xC2]).permutation(len(processes)).tolist()
        self.router = {processes[i]: router for i, router in zip(order, routers, strict=True)}
        self._searched: set[int] = set()

    @property
    def is_narrow(self) -> bool:
        """Whether bytes take time."""
        return self.lines is not None

    def perturb(self, perturbation: Perturbation) -> None:
        """Routers are never perturbed."""

    def heal(self) -> None:
        """Routers lose nothing."""

    def packet_s(self, source: str, to: str, size_bytes: float = 0.0) -> float:
        """The least delay; bytes take their time on the lines of the two hosts."""
        a, b = self.router[source], self.router[to]
        if b in self._searched and a not in self._searched:
            a, b = b, a  # delays are the same both ways, and a search is dear
        self._searched.add(a)
        line_s = self.lines.transmission_s(size_bytes) if self.lines else 0.0
        return self.graph.delay_s(a, b) + line_s

    def notices_s(
        self, source: str, topics: tuple[str, ...], to: Sequence[str], size_bytes: float = 0.0
    ) -> list[float]:
        """To each by itself; where lines are narrow, one copy after the other."""
        delays = self.graph.delays_from(self.router[source])
        self._searched.add(self.router[source])
        up_s, line_s = (
            (self.lines.up_s(size_bytes), self.lines.transmission_s(size_bytes)) if self.lines else (0.0, 0.0)
        )
        return [float(delays[self.router[name]]) + line_s + i * up_s for i, name in enumerate(to)]
