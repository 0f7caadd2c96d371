"""A run's world, drawn from its seed: processes, topics, load, and what is done to whom, when and for how long."""

from __future__ import annotations

import random

import msgspec

OUTAGES = ("node_kill", "server_kill", "cluster_kill")
"""Kills after which the service has to be resumed soon."""

ELECTIONS = ("cluster_leader_kill",)
"""Kills after which NATS elects a leader first, which takes it from 4 to 9 seconds, whoever waits."""

KINDS = (
    "node_kill",
    "node_pause",
    "server_kill",
    "server_pause",
    "publisher_kill",
    "publisher_pause",
    "subscriber_kill",
    "subscriber_pause",
    "link_silent",
    "link_one_way",
    "link_reset",
)
SPECIAL = ("disk_full", "clock_jump", "cluster_kill", "cluster_leader_kill")
"""Kinds that need a world of their own, and go together with the simple ones only."""

SIMPLE = tuple(kind for kind in KINDS if not kind.startswith(("server", "link")))
TRANSPORTS = {"nats": (*KINDS, *SPECIAL), "redis": (*KINDS, "clock_jump")}

NODES_MAY = ("hottest", "leader", "any")


class Fault(msgspec.Struct, frozen=True):
    """One thing that is done."""

    at_s: float  # after everybody is ready
    kind: str
    target: str  # a process, or which node: hottest, leader, any
    for_s: float  # until it is healed: started again, woken, joined up
    how: str = ""

    def __str__(self) -> str:
        how = f" ({self.how})" if self.how else ""
        return f"{self.at_s:.1f} s: {self.kind} of {self.target}{how} for {self.for_s:.1f} s"


class World(msgspec.Struct, frozen=True):
    """Who is there, and what happens to them."""

    seed: int
    transport: str
    nodes: int
    publishers: dict[str, dict[str, float]]  # name -> topic -> events per second
    subscribers: dict[str, tuple[str, ...]]
    topics: tuple[str, ...]  # the hottest first
    faults: tuple[Fault, ...]
    after_s: float  # load goes on for so long when everything is healed
    durable: tuple[str, ...] = ()  # subscribers that keep their places

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is done in it."""
        return tuple(dict.fromkeys(fault.kind for fault in self.faults))


def draw(seed: int, transport: str = "nats", kind: str | None = None, left: tuple[str, ...] = ()) -> World:
    """The world of a seed; the first fault's kind follows from the seed, so that few seeds cover all kinds.

    `left` are the kinds that are possible here, if not all are.
    """
    kinds = left or TRANSPORTS[transport]
    dice = random.Random(f"{transport} {seed}")
    topics = tuple(f"t{i}" for i in range(1, dice.randint(5, 8) + 1))
    nodes = dice.randint(2, 3)
    publishers = {
        f"p{i}": {topic: _rate(rank) for rank, topic in enumerate(topics) if rank < 2 or dice.random() < 0.7}
        for i in range(1, dice.randint(2, 3) + 1)
    }
    publishers["p1"] = {topic: _rate(rank) for rank, topic in enumerate(topics)}  # no topic without load
    subscribers = {
        f"s{i}": tuple(sorted({topics[0], *dice.sample(topics, dice.randint(2, len(topics) - 1))}))
        for i in range(1, dice.randint(3, 4) + 1)
    }
    first = kind or kinds[seed % len(kinds)]
    people = {"publisher": tuple(publishers), "subscriber": tuple(subscribers)}
    at_s = dice.uniform(0.5, 1.5)
    faults = [_fault(dice, first, at_s, nodes, people)]
    for _ in range(dice.randint(0, 3)):
        # Now and then before the one before is over.
        at_s = faults[-1].at_s + dice.uniform(0.2, 1.2) * faults[-1].for_s + dice.uniform(0, 1.5)
        more = dice.choice(KINDS if first in KINDS else SIMPLE)
        faults.append(_fault(dice, more, at_s, nodes, people))
    after_s = dice.uniform(2.0, 3.5)
    durable = tuple(name for name in subscribers if dice.random() < 0.4)
    return World(seed, transport, nodes, publishers, subscribers, topics, tuple(faults), after_s, durable)


def _rate(rank: int) -> float:
    return max(4.0, 24.0 / (rank + 1))


def _fault(
    dice: random.Random, kind: str, at_s: float, nodes: int, people: dict[str, tuple[str, ...]]
) -> Fault:
    role, _, action = kind.partition("_")
    how = ""
    if role == "clock":
        role = dice.choice(("node", "publisher", "subscriber"))
        how = dice.choice(("forward", "back")) + dice.choice(("", " restarted"))
    if role == "disk":
        how = dice.choice(("disk", "limit"))
    if role == "link":
        role = dice.choice(("node", "publisher", "subscriber"))
        how = dice.choice(("in", "out")) if action == "one_way" else dice.choice(("stays", "breaks"))
    if role == "node":
        target = (
            dice.choice((*NODES_MAY, "hottest"))
            if action in ("kill", "pause")
            else f"n{dice.randint(1, nodes)}"
        )
    elif role in people:
        target = dice.choice(people[role])
    else:
        target = "server"
    return Fault(round(at_s, 2), kind, target, round(dice.uniform(*_lengths(role, action)), 2), how)


def _lengths(role: str, action: str) -> tuple[float, float]:
    match role, action:
        case "server", "kill":
            return 0.1, 1.0
        case "disk", _:
            return 1.0, 4.0
        case "node", "pause":
            return 2.5, 5.0  # longer than nodes wait before they suspect
        case _, "kill":
            return 0.1, 3.0
        case "server", "pause":
            return 0.3, 4.0
        case _:
            return 0.5, 5.0
