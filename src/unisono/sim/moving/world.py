"""A moving world: everything a simulation of nodes, members and publishers needs to know before it starts.

A world is data: who takes part, what is scripted to happen, and how badly networks, storage and clocks behave.
The shrinker takes things out of it one by one and runs what is left.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.links import LinkSettings
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.recalling import Start
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.model.ids import is_pattern
from unisono.sim.ground import Ground
from unisono.sim.network import Conditions, Weather

STORE, SERVICE = "store", "service"  # places that a partition may cut off: durable storage, notifications


class Burst(msgspec.Struct, frozen=True):
    """A publisher publishes on these topics, at once."""

    at: float
    publisher: str
    topics: tuple[str, ...]
    key: str | None = None  # whoever publishes with the same one, means the same events
    size_bytes: int = 0  # of each event, without its stamp

    def __str__(self) -> str:
        key = "" if self.key is None else f" with key {self.key}"
        return f"{self.publisher} publishes on {', '.join(self.topics)}{key}"


class Want(msgspec.Struct, frozen=True):
    """A member wants more topics or patterns, or fewer; the first time, it comes into being."""

    at: float
    member: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def __str__(self) -> str:
        changes = [f"joins {', '.join(self.add)}"] if self.add else []
        changes += [f"leaves {', '.join(self.remove)}"] if self.remove else []
        return f"{self.member} {' and '.join(changes)}"


class Crash(msgspec.Struct, frozen=True):
    """A process dies; what it remembered is gone, and perhaps what it had just sent."""

    at: float
    process: str
    keeps_output: bool = True
    back_at: float | None = None  # when its next life begins

    def __str__(self) -> str:
        output = "its last words arrive" if self.keeps_output else "its last words are lost"
        back = "for ever" if self.back_at is None else f"until {self.back_at:.3f}"
        return f"{self.process} crashes {back}, {output}"


class Pause(msgspec.Struct, frozen=True):
    """A process stops, and goes on later as if nothing had happened."""

    at: float
    process: str
    until: float

    def __str__(self) -> str:
        return f"{self.process} pauses until {self.until:.3f}"


class Partition(msgspec.Struct, frozen=True):
    """One side can reach itself only; the storage and the notification service are on one side too."""

    at: float
    until: float
    side: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.side)} cut off until {self.until:.3f}"


class Suspicion(msgspec.Struct, frozen=True):
    """A node takes another one for dead, whatever its failure detector says."""

    at: float
    by: str
    node: str

    def __str__(self) -> str:
        return f"{self.by} takes {self.node} for dead"


class Rerank(msgspec.Struct, frozen=True):
    """Somebody asks for this rank."""

    at: float
    rank: tuple[str, ...]

    def __str__(self) -> str:
        return f"somebody asks for the rank {', '.join(self.rank)}"


class Arrive(msgspec.Struct, frozen=True):
    """A node comes that nobody knows yet."""

    at: float
    node: str

    def __str__(self) -> str:
        return f"{self.node} comes"


class Drain(msgspec.Struct, frozen=True):
    """An operator asks that a node give its topics away and go, and repeats that until it has."""

    at: float
    node: str

    def __str__(self) -> str:
        return f"an operator drains {self.node}"


class Move(msgspec.Struct, frozen=True):
    """An operator asks once that a node own a topic."""

    at: float
    topic: str
    node: str

    def __str__(self) -> str:
        return f"an operator moves {self.topic} to {self.node}"


class MakeView(msgspec.Struct, frozen=True):
    """An operator asks for a view, and repeats that for a while."""

    at: float
    name: str
    names: tuple[str, ...]
    tries: int = 0

    def __str__(self) -> str:
        return f"an operator makes the view {self.name} of {', '.join(self.names)}"


class DropView(msgspec.Struct, frozen=True):
    """An operator asks that a view be forgotten, and repeats that for a while."""

    at: float
    name: str
    tries: int = 0

    def __str__(self) -> str:
        return f"an operator removes the view {self.name}"


class Delete(msgspec.Struct, frozen=True):
    """An operator asks that a topic be deleted, and repeats that for a while."""

    at: float
    topic: str
    tries: int = 0

    def __str__(self) -> str:
        return f"an operator deletes {self.topic}"


Happening: TypeAlias = (
    Burst
    | Want
    | Crash
    | Pause
    | Partition
    | Suspicion
    | Rerank
    | Arrive
    | Drain
    | Move
    | MakeView
    | DropView
    | Delete
)


class MemberSpec(msgspec.Struct, frozen=True):
    """One subscriber: what it asked for at a gap, and how often it answers what it sees."""

    name: str
    settings: SubscriberSettings
    replies: float = 0.0  # with this probability a delivered event makes it publish one
    start: Start | None = None  # where its first life begins; None: in the present
    durable: bool = False  # its next life goes on where the one before ended


class StorageConditions(msgspec.Struct, frozen=True):
    """How durable storage treats requests; those of one process stay in order."""

    latency_s: float = 0.002
    spread_s: float = 0.0
    lost_before: float = 0.0  # never stored, never answered
    lost_after: float = 0.0  # stored, never answered
    slow: float = 0.0  # the probability of a request that takes up to `slow_s` more
    slow_s: float = 0.6
    late: float = (
        0.0  # an append that is accepted, and stored up to `slow_s` later, wherever its lane ends then
    )
    twice: float = 0.0  # an append that is stored once more, as much later


class WatchConditions(msgspec.Struct, frozen=True):
    """How soon processes are told of a new control record."""

    latency_s: float = 0.005
    spread_s: float = 0.0
    skip: float = 0.0  # the probability that a version is not told; the newest comes at last


class ClockConditions(msgspec.Struct, frozen=True):
    """How far clocks are apart, and how differently they run."""

    offset_s: float = 0.0
    drift: float = 0.0  # up to this share faster or slower


class MovingWorld(msgspec.Struct, frozen=True):
    """Topics, nodes, members and publishers; what happens to them; and what surrounds them."""

    seed: int
    topics: tuple[str, ...]  # those that exist from the start; others are made when somebody names them
    nodes: tuple[str, ...]
    owners: tuple[str, ...]  # the node of each topic, to begin with
    publishers: tuple[str, ...]
    members: tuple[MemberSpec, ...]
    script: tuple[Happening, ...]
    threshold: int = 2
    causal: bool = False
    ranking: bool = False  # whether somebody watches popularity and asks for better ranks
    managers: ManagerSettings = ManagerSettings(ring_events=64, heartbeat_s=0.1, heartbeat_s_max=0.4)
    node: NodeSettings = NodeSettings()
    links: LinkSettings = LinkSettings()
    join_s: float = 0.3
    report_s: float = 0.4
    resend_s: float = 0.5
    beat_s: float = 0.15  # between two signs of life of a node
    suspect_s: float = 0.6  # after so long without one it is taken for dead
    packets: Conditions = Conditions()
    notifications: Conditions = Conditions()
    storage: StorageConditions = StorageConditions()
    watch: WatchConditions = WatchConditions()
    clocks: ClockConditions = ClockConditions()
    heals_at: float = 3.0
    replies_max: int = 6
    late: tuple[str, ...] = ()  # nodes that are not there from the start
    retained: bool = False  # whether the history is kept
    peers: bool = False  # whether members ask each other before something is declared lost
    weather: tuple[Weather, ...] = ()  # how networks change before the world heals
    ground: Ground | None = None  # what networks are laid on; None: everybody is as far from everybody

    @property
    def named(self) -> tuple[str, ...]:
        """Every topic that exists or that somebody names."""
        said = [t for step in self.script for t in (*getattr(step, "topics", ()), *getattr(step, "add", ()))]
        return tuple(dict.fromkeys((*self.topics, *(t for t in said if not is_pattern(t)))))

    @property
    def order(self) -> str:
        """What is promised."""
        return "total_causal" if self.threshold == 1 and self.causal else "total"

    def traits(self) -> list[str]:
        """What can be told from the data alone; what really happened, the simulation tells."""
        settings = [m.settings for m in self.members]
        facts = {
            "moving": True,
            "moving line": self.node.plan == "line",
            "moving forest": self.node.plan == "forest",
            "work is spread": self.node.sequencer == "atoms",
            "threshold 1": self.threshold == 1,
            "causal publishers": self.causal,
            "loss": bool(self.packets.loss or self.notifications.loss),
            "duplication": bool(self.packets.duplication or self.notifications.duplication),
            "re-ordering": bool(self.packets.spread_s or self.notifications.spread_s),
            "storage faults": bool(self.storage.lost_before or self.storage.lost_after or self.storage.slow),
            "late or doubled appends": bool(self.storage.late or self.storage.twice),
            "clock skew": bool(self.clocks.drift or self.clocks.offset_s),
            "peers": self.peers,
            "small rings": self.managers.ring_events < 8,
            "bounded buffers": any(s.buffer or s.max_hold is not None for s in settings),
            "replies": any(m.replies for m in self.members),
            "nothing at the start": not self.topics,
            "retained": self.retained,
            "begins in the past": any(m.start is not None for m in self.members),
            "durable members": any(m.durable for m in self.members),
            **{f"on_gap={gap}": any(s.on_gap == gap for s in settings) for gap in _GAPS},
        }
        return [name for name, is_so in facts.items() if is_so]


_GAPS = ("wait", "tag", "skip", "fail")
