"""Processes: their lives, their clocks, and the engines that live in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from unisono.engines.links import Links
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.publisher import Publisher
from unisono.sim.moving.world import ClockConditions


@dataclass(frozen=True)
class Makers:
    """How engines are made; a planted bug makes one of them otherwise."""

    node: Callable[..., ManagerNode] = ManagerNode
    member: Callable[..., Member] = Member
    publisher: Callable[..., Publisher] = Publisher
    links: Callable[..., Links] = Links


HONEST = Makers()


class Clock(NamedTuple):
    """A clock that is off by `offset_s` and runs `rate` times as fast as the world."""

    offset_s: float = 0.0
    rate: float = 1.0

    def local(self, now: float) -> float:
        """What it shows at this time of the world."""
        return self.offset_s + self.rate * now

    def world(self, local: float) -> float:
        """The time of the world at which it shows this."""
        return (local - self.offset_s) / self.rate


def draw_clock(conditions: ClockConditions, seed: int, process: str) -> Clock:
    """The clock of a process."""
    if not (conditions.offset_s or conditions.drift):
        return Clock()
    random = Random(f"{seed} clock {process}")
    # Engines take time from 0 on, so that an offset is never negative.
    return Clock(conditions.offset_s * random.random(), 1 + conditions.drift * (2 * random.random() - 1))


class Process:
    """One process of the world: alive, paused or dead; each life has a number."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.told = 0  # the newest version of the control record it was handed
        self.hosts: dict[str, Host] = {}
        self.stash: list[Any] = []  # what came while it was paused

    @property
    def label(self) -> str:
        """The name of this life."""
        return self.name if self.life <= 1 else f"{self.name}.{self.life}"


class Host:
    """One engine behind its links, at one address."""

    __slots__ = ("address", "latest", "links", "process", "wakes_at")

    def __init__(self, address: str, process: Process, links: Links) -> None:
        self.address = address
        self.process = process
        self.links = links
        self.latest = 0.0  # what its clock showed when it was last called
        self.wakes_at: float | None = None

    def now(self, world: float) -> float:
        """What its clock shows; never less than before."""
        self.latest = max(self.latest, self.process.clock.local(world))
        return self.latest

    def due(self) -> float | None:
        """When it wants to be called, in the time of the world."""
        local = self.links.next_timer()
        return None if local is None else self.process.clock.world(local)


class Detector:
    """Signs of life between nodes, and who has missed them for too long."""

    def __init__(self, nodes: tuple[str, ...], suspect_s: float) -> None:
        self.nodes = nodes
        self.suspect_s = suspect_s
        self._heard: dict[tuple[str, str], float] = {}

    def beat(self, node: str, listeners: list[str], now: float) -> None:
        """A node gives a sign of life to those it can reach."""
        for listener in listeners:
            self._heard[listener, node] = now

    def suspects(self, node: str, now: float) -> list[str]:
        """Whom a node takes for dead."""
        return [
            other
            for other in self.nodes
            if other != node and now - self._heard.setdefault((node, other), now) > self.suspect_s
        ]

    def forget(self, node: str) -> None:
        """A new life has heard of nobody yet, and waits before it suspects anybody."""
        for key in [key for key in self._heard if key[0] == node]:
            del self._heard[key]
