"""What a world's networks are laid on, as data; `routes` makes ways of it."""

from __future__ import annotations

from math import log
from typing import Literal, TypeAlias

import msgspec

Topology: TypeAlias = Literal["flat", "pastry", "transit-stub"]
Bandwidth: TypeAlias = Literal["unlimited", "adsl"]

HOP_S = 0.3  # what a link of paper 000 takes seldom, on average over fast and slow ones


class Ground(msgspec.Struct, frozen=True):
    """How processes are connected; what messages take there comes before what a network's conditions add."""

    topology: Topology = "flat"
    hop_s: float | None = None  # what each hop takes; None: the links of paper 000
    peers: int = 0  # nodes of a Pastry ring, processes of the world among them
    clusters: int = 1  # of hosts, on a transit-stub graph
    link_loss: float = 0.0  # share that each link of a Pastry ring loses
    bandwidth: Bandwidth = "unlimited"  # of the line of each process


def slow_s(ground: Ground) -> float:
    """What a message seldom exceeds, if its bytes take no time."""
    hop_s = HOP_S if ground.hop_s is None or ground.topology == "transit-stub" else ground.hop_s
    return hop_s * hops(ground)


def hops(ground: Ground) -> float:
    """How many links a message seldom exceeds."""
    return 1 + log(max(2, ground.peers), 16) if ground.topology == "pastry" else 1.0
