"""Reads the network of a scenario: what it is laid on, and how it treats what is sent."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from unisono.lab.scenarios.reading import Table
from unisono.sim.ground import Bandwidth, Ground, Topology
from unisono.sim.network import Conditions

NOTIFICATIONS_KEYS = ("latency_ms", "spread_ms", "loss", "duplication", "overtaking")
NETWORK_KEYS = (
    "topology",
    "links",
    "peers",
    "clusters",
    "bandwidth",
    "link_loss",
    *NOTIFICATIONS_KEYS,
    "notifications",
)
TOPOLOGIES = ("flat", "pastry", "transit-stub")
LINKS = ("even", "paper-000")
BANDWIDTHS = ("unlimited", "adsl")
PEERS_MAX = 20_000
CLUSTERS = 8


def read_conditions(network: Table) -> tuple[Conditions, Conditions]:
    """How packets and notifications fare, beyond what the ground makes them take."""
    below = network.table("notifications", NOTIFICATIONS_KEYS)
    ground = _ground(network)
    if ground is not None:
        for table in (network, below):
            _refuse_latency(table, ground)
    packets = _conditions(network, Conditions(latency_s=0.005 if ground is None else 0.0), ground)
    return packets, _conditions(below, packets, ground)


def read_ground(network: Table, processes: int, sequencers: int) -> Ground | None:
    """What the network is laid on; None if everybody is as far from everybody."""
    ground = _ground(network)
    if ground is None:
        return None
    if ground.topology == "pastry" and not ground.peers:
        return replace(ground, peers=processes + sequencers)
    if ground.topology == "pastry" and ground.peers < processes:
        network.fail("peers", f"is {ground.peers}, and {processes} subscribers and publishers are among them")
    if ground.topology == "transit-stub" and "clusters" not in network:
        return replace(ground, clusters=min(CLUSTERS, processes + sequencers))
    if ground.clusters > processes + sequencers:
        network.fail("clusters", f"is {ground.clusters}, and there are {processes + sequencers} processes")
    return ground


def _ground(network: Table) -> Ground | None:
    topology = cast(Topology, network.word("topology", "flat", TOPOLOGIES))
    links = network.word("links", "paper-000" if topology == "pastry" else "even", LINKS)
    for key, of in (("peers", "pastry"), ("clusters", "transit-stub"), ("link_loss", "pastry")):
        if key in network and topology != of:
            instead = "; 'loss' says what is lost elsewhere" if key == "link_loss" else ""
            network.fail(key, f'goes with topology = "{of}", not with "{topology}"{instead}')
    bandwidth = cast(Bandwidth, network.word("bandwidth", "unlimited", BANDWIDTHS))
    if topology == "transit-stub":
        if "links" in network:
            network.fail(
                "links", 'does not go with topology = "transit-stub", whose links have delays of their own'
            )
        return Ground(topology, clusters=network.whole("clusters", 1, least=1), bandwidth=bandwidth)
    peers = network.whole("peers", 0, least=1 if "peers" in network else 0, most=PEERS_MAX)
    hop_s = None if links == "paper-000" else network.number("latency_ms", 5.0, most=60_000) / 1000
    loss = network.number("link_loss", 0.0, most=0.5)
    if (topology, links, bandwidth) == ("flat", "even", "unlimited"):
        return None
    return Ground(topology, hop_s, peers, link_loss=loss, bandwidth=bandwidth)


def _refuse_latency(table: Table, ground: Ground) -> None:
    """What the ground says cannot be said again."""
    is_paper = ground.hop_s is None and ground.topology != "transit-stub"
    for key in ("latency_ms", "spread_ms"):
        if key not in table:
            continue
        if ground.topology == "transit-stub" and key == "latency_ms":
            table.fail(key, 'contradicts topology = "transit-stub", whose links have delays of their own')
        if is_paper:
            table.fail(key, 'contradicts links = "paper-000", which says what messages take')
        if key == "latency_ms" and table.title != "network":
            table.fail(key, "is given for all links, in [network]")


def _conditions(table: Table, otherwise: Conditions, ground: Ground | None) -> Conditions:
    latency_ms = table.number("latency_ms", 1000 * otherwise.latency_s, most=60_000)
    return Conditions(
        latency_s=latency_ms / 1000 if ground is None else 0.0,
        spread_s=table.number("spread_ms", 1000 * otherwise.spread_s, most=60_000) / 1000,
        loss=table.number("loss", otherwise.loss, most=0.9),
        duplication=table.number("duplication", otherwise.duplication, most=1.0),
        overtaking=table.flag("overtaking", otherwise.overtaking),
    )
