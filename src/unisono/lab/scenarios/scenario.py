"""A scenario: what a file says, checked, and nothing drawn yet."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from unisono.engines.takeover.control import Sequencer
from unisono.engines.topic_managers.settings import Mode, Stamps, SubscriberSettings
from unisono.sim.ground import Ground, hops, slow_s
from unisono.sim.links import ADSL
from unisono.sim.network import Conditions
from unisono.sim.world import PlanKind

Guarantee: TypeAlias = Literal["fifo", "total", "total_causal"]
Shape: TypeAlias = Literal["colocated", "chain", "nodes"]
FaultKind: TypeAlias = Literal["loss", "latency", "perturbation", "shuffle", "crash", "pause", "partition"]

ENTRY_BYTES = 24  # of a stamp, at most


class Popular(msgspec.Struct, frozen=True):
    """How topics are chosen."""

    kind: str = "uniform"
    shape: float = 0.0  # of a power law; of zipf, the exponent


class Group(msgspec.Struct, frozen=True):
    """Subscribers that are alike; each picks its own topics, or all hold the same."""

    names: tuple[str, ...]
    topics: tuple[str, ...]
    pick: int  # 0: they hold `topics`; else so many of them
    popularity: Popular
    settings: SubscriberSettings
    replies: float = 0.0  # with this probability a delivered event makes one publish another
    joins_at: float = 0.0
    leaves_at: float | None = None
    said_at: str = ""  # where the file says what they hold

    @property
    def title(self) -> str:
        """Who they are, for people."""
        first, last = self.names[0], self.names[-1]
        return first if first == last else f"{first} to {last}"


class Traced(msgspec.Struct, frozen=True):
    """One event of a trace."""

    at: float
    publisher: str
    topic: str
    size_bytes: int = 0


class Feed(msgspec.Struct, frozen=True):
    """Publishers that are alike: they share a rate, or replay a trace."""

    publishers: tuple[str, ...]
    rate: float  # events a second, all of them together
    topics: tuple[str, ...]
    popularity: Popular
    poisson: bool
    burst: int  # events published at once
    size_bytes: int  # of each, without its stamp
    start: float
    stop: float
    trace: tuple[Traced, ...] = ()
    said_at: str = ""  # where the file says how much they publish

    @property
    def size_bytes_max(self) -> int:
        """The size of the largest."""
        return max((event.size_bytes for event in self.trace), default=self.size_bytes)

    @property
    def events(self) -> float:
        """How many, about."""
        return self.rate * (self.stop - self.start) + len(self.trace)


class Fault(msgspec.Struct, frozen=True):
    """Harm that is done at some moment, perhaps for a while."""

    at: float
    kind: FaultKind
    until: float = 0.0
    process: str = ""
    side: tuple[str, ...] = ()
    peers: float = 0.0  # the share of a ring's nodes that are perturbed
    loss: float | None = None
    latency_s: float | None = None
    spread_s: float | None = None

    def changes(self, conditions: Conditions) -> Conditions:
        """What a network is like under this fault."""
        if self.kind not in ("loss", "latency"):
            return conditions
        return Conditions(
            conditions.latency_s if self.latency_s is None else self.latency_s,
            conditions.spread_s if self.spread_s is None else self.spread_s,
            conditions.loss if self.loss is None else self.loss,
            conditions.duplication,
            conditions.overtaking,
        )


class Scenario(msgspec.Struct, frozen=True):
    """Everything a file says."""

    name: str
    seed: int
    duration: float
    guarantee: Guarantee
    shape: Shape
    sequencer: Sequencer
    plan: PlanKind
    mode: Mode
    stamps: Stamps
    ring: int
    nodes: tuple[str, ...]
    topics: tuple[str, ...]
    groups: tuple[Group, ...]
    feeds: tuple[Feed, ...]
    packets: Conditions
    notifications: Conditions
    faults: tuple[Fault, ...] = ()
    record: tuple[str, ...] = ("journal",)
    ground: Ground | None = None

    @property
    def subscribers(self) -> int:
        """How many there are."""
        return sum(len(group.names) for group in self.groups)

    @property
    def publishers(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(name for feed in self.feeds for name in feed.publishers))

    @property
    def heals_at(self) -> float:
        """When no more harm is done: nothing is published any more and every fault is over."""
        return max(self.duration, *(fault.until for fault in self.faults), 0.0)

    @property
    def is_lossy(self) -> bool:
        """Whether anything is ever lost."""
        link_loss = 0.0 if self.ground is None else self.ground.link_loss
        always = (self.packets.loss, self.notifications.loss, link_loss)
        return any(always) or any(fault.loss for fault in self.faults)

    @property
    def latency_s_max(self) -> float:
        """The longest that anything takes that is not lost, one fault at a time."""
        calm = (self.packets, self.notifications)
        found = [*calm, *(fault.changes(network) for fault in self.faults for network in calm)]
        return self._ground_s() + max(conditions.latency_s_max for conditions in found)

    def _ground_s(self) -> float:
        """What a message seldom exceeds between two processes, before networks treat it."""
        if self.ground is None:
            return 0.0
        perturbed = [fault.latency_s or 0.0 for fault in self.faults if fault.kind == "perturbation"]
        line_s = 0.0
        if self.ground.bandwidth == "adsl":
            event_bytes = max(feed.size_bytes_max for feed in self.feeds)
            line_s = ADSL.transmission_s(event_bytes + ENTRY_BYTES * len(self.topics))
        return slow_s(self.ground) + hops(self.ground) * (line_s + max(perturbed, default=0.0))
