"""What a world's networks are laid on, as data; `routes` makes ways of it."""

from __future__ import annotations

from math import log
from typing import Literal, TypeAlias

import msgspec

Topology: TypeAlias = Literal["flat", "pastry", "transit-stub"]

HOP_S = 0.3  # what a link of paper 000 takes seldom, on average over fast and slow ones


class Ground(msgspec.Struct, frozen=True):
    """How processes are connected; what messages take there comes before what a network's conditions add."""

    topology: Topology = "flat"
    hop_s: float | None = None  # what each hop takes; None: the links of paper 000
    peers: int = 0  # nodes of a Pastry ring, processes of the world among them
    clusters: int = 1  # of hosts, on a transit-stub graph


def slow_s(ground: Ground) -> float:
    """What a message seldom exceeds."""
    hop_s = HOP_S if ground.hop_s is None else ground.hop_s
    hops = 1 + log(max(2, ground.peers), 16) if ground.topology == "pastry" else 1.0
    return HOP_S if ground.topology == "transit-stub" else hop_s * hops
