"""A world: everything a simulation needs to know before it starts, drawn from one seed.

A world is data. Who draws it by hand (a test, the shrinker) gets the same simulation as who draws it from a
seed.
"""

from __future__ import annotations

from random import Random
from typing import Literal, TypeAlias

import msgspec

from unisono.engines.links import LinkSettings
from unisono.engines.topic_managers.settings import ManagerSettings, OnGap, SubscriberSettings
from unisono.sim.ground import Ground
from unisono.sim.network import Conditions, Weather

PlanKind: TypeAlias = Literal["line", "forest"]
Shape: TypeAlias = Literal["chain", "colocated"]

WORKLOAD_S = 0.4  # publishing ends here
PAUSE_S_MAX = 0.4  # the longest any engine pauses before it repeats itself
_LINKS = LinkSettings(retry_s=0.06, retry_s_max=PAUSE_S_MAX)


class SubscriberSpec(msgspec.Struct, frozen=True):
    """One subscriber: what it holds, what it asked for at a gap, and when it joins."""

    name: str
    topics: tuple[str, ...]
    settings: SubscriberSettings
    joins_at: float = 0.0  # only a colocated world takes subscriptions while events flow
    replies: float = 0.0  # with this probability a delivered event makes it publish one


class Burst(msgspec.Struct, frozen=True):
    """One publisher publishes on these topics, at once."""

    at: float
    publisher: str
    topics: tuple[str, ...]
    size_bytes: int = 0  # of each event, without its stamp


class World(msgspec.Struct, frozen=True):
    """Topics, who holds them, how they are sequenced, what is published, and what the network does."""

    seed: int
    topics: tuple[str, ...]
    subscribers: tuple[SubscriberSpec, ...]
    bursts: tuple[Burst, ...]
    shape: Shape = "chain"
    plan: PlanKind = "line"
    threshold: int = 2
    causal: bool = False
    placement: tuple[str, ...] = ()  # the node of each topic's manager; () gives each its own
    managers: ManagerSettings = ManagerSettings()
    links: LinkSettings = _LINKS
    packets: Conditions = Conditions()
    notifications: Conditions = Conditions()
    heals_at: float = WORKLOAD_S
    replies_max: int = 6
    weather: tuple[Weather, ...] = ()  # how networks change before the world heals
    peers: bool = False  # whether subscribers ask each other before something is declared lost
    ground: Ground | None = None  # what networks are laid on; None: everybody is as far from everybody

    @property
    def order(self) -> str:
        """What is promised: sharing less than two subscribers orders nothing, sharing one orders all."""
        if self.threshold > 2:
            return "fifo"
        return "total_causal" if self.threshold == 1 and self.causal else "total"

    @property
    def settle_s(self) -> float:
        """A silence of this length, with nothing lost, means that nothing more will happen."""
        holds = [s.settings.max_hold or 0.0 for s in self.subscribers]
        slowest = 2 * max(self.packets.latency_s_max, self.notifications.latency_s_max)
        return slowest + max(PAUSE_S_MAX, self.managers.heartbeat_s_max, *holds) + 0.1

    def is_owed_everything(self, subscriber: SubscriberSpec) -> bool:
        """Whether each event reaches it or is accounted for: it repairs, or nothing is lost."""
        return subscriber.settings.repair or not self.notifications.loss

    def traits(self) -> list[str]:
        """What is special about this world, for the statistics."""
        both, settings = (self.packets, self.notifications), [s.settings for s in self.subscribers]
        facts = {
            "loss": any(c.loss for c in both),
            "duplication": any(c.duplication for c in both),
            "re-ordering": any(c.overtaking and c.spread_s for c in both),
            "colocated": self.shape == "colocated",
            "line": self.shape == "chain" and self.plan == "line",
            "forest": self.shape == "chain" and self.plan == "forest",
            "shared nodes": len(set(self.placement)) < len(self.placement),
            "return mode": self.managers.mode == "return",
            "upward stamps": self.managers.stamps == "upward",
            "threshold 1": self.threshold == 1,
            "causal publishers": self.causal,
            "repair": any(s.repair for s in settings),
            "peers": self.peers,
            "small rings": 0 < self.managers.ring_events < 8,
            "bounded buffers": any(s.buffer or s.max_hold is not None for s in settings),
            "small hold-back": any(s.hold_max < 100 for s in settings),
            "late joiners": any(s.joins_at > 0 for s in self.subscribers),
            "replies": any(s.replies > 0 for s in self.subscribers),
            **{f"on_gap={gap}": any(s.on_gap == gap for s in settings) for gap in _GAPS},
        }
        return [name for name, is_so in facts.items() if is_so]


def voice_of(subscriber: str) -> str:
    """The name under which a subscriber publishes."""
    return subscriber + ".voice"


def process_of(publisher: str) -> str:
    """The process a publisher runs in: a subscriber's own, if it is a subscriber's voice."""
    return publisher.partition(".")[0]


PEERS_SHARE = 0.3  # of the worlds in which it can matter
_GAPS: tuple[OnGap, ...] = ("wait", "tag", "skip", "fail")
_DRAWN_GAPS: tuple[OnGap, ...] = ("wait", "wait", "wait", "tag", "tag", "skip", "fail")
_DRAWN_UPWARD_GAPS: tuple[OnGap, ...] = ("tag", "skip")  # the others cannot go with upward stamps


def draw_world(seed: int) -> World:
    """The world of this seed."""
    return _ask_peers(_draw_alone(seed))


def _ask_peers(world: World) -> World:
    """The same world where something may be lost for good, perhaps with subscribers that ask each other; its dice are
    its own."""
    random = Random(f"{world.seed} peers")
    is_asked = any(subscriber.settings.repair for subscriber in world.subscribers)
    if not world.notifications.loss or not is_asked or random.random() > PEERS_SHARE:
        return world
    ring = min(world.managers.ring_events, random.choice((2, 3)))
    managers = msgspec.structs.replace(world.managers, ring_events=ring)
    return msgspec.structs.replace(world, managers=managers, peers=True)


def _draw_alone(seed: int) -> World:
    random = Random(seed)
    colocated = random.random() < 0.25
    upward = not colocated and random.random() < 0.2
    notifications = _draw_conditions(random, spread_s=0.03)
    lossy = notifications.loss > 0
    repairs = lossy or random.random() < 0.25
    topics = tuple(f"T{i + 1}" for i in range(random.choice((1, 2, 2, 3, 3, 3, 4, 5))))
    managers = ManagerSettings(
        stamps="upward" if upward else "full",
        mode="return" if not colocated and random.random() < 0.25 else "forward",
        ring_events=random.choice((2, 4, 16, 64)) if repairs else 0,
        heartbeat_s=0.08,
        heartbeat_s_max=PAUSE_S_MAX,
        seen_max=random.choice((2, 65536)),
    )
    threshold = random.choice((1, 1, 2, 2, 2, 2, 2, 3))
    nodes = random.randint(1, len(topics))
    shared = not colocated and random.random() < 0.3
    return World(
        seed=seed,
        topics=topics,
        subscribers=_draw_subscribers(random, topics, colocated, upward, lossy, repairs),
        bursts=_draw_bursts(random, topics, most=4 if colocated else 2),
        shape="colocated" if colocated else "chain",
        plan=random.choice(("line", "forest")),
        threshold=threshold,
        causal=threshold == 1 and random.random() < 0.7,
        placement=tuple(f"node-{random.randint(1, nodes)}" for _ in topics) if shared else (),
        managers=managers,
        links=msgspec.structs.replace(_LINKS, window=random.choice((2, 1024))),
        packets=_draw_conditions(random, spread_s=0.02),
        notifications=notifications,
        heals_at=WORKLOAD_S + 0.2 * random.random(),
    )


def _draw_conditions(random: Random, spread_s: float) -> Conditions:
    return Conditions(
        latency_s=random.choice((0.0, 0.001, 0.005)),
        spread_s=random.choice((0.0, spread_s * random.random())),
        loss=random.choice((0.0, 0.3 * random.random())),
        duplication=random.choice((0.0, 0.3 * random.random())),
        overtaking=random.random() < 0.7,
    )


def _draw_subscribers(
    random: Random, topics: tuple[str, ...], colocated: bool, upward: bool, lossy: bool, repairs: bool
) -> tuple[SubscriberSpec, ...]:
    subscribers = []
    for i in range(random.randint(2, 4)):
        held = sorted(random.sample(topics, random.randint(min(2, len(topics)), len(topics))))
        late = colocated and random.random() < 0.3
        subscribers.append(
            SubscriberSpec(
                name=f"s{i + 1}",
                topics=tuple(held),
                settings=_draw_policy(random, upward, lossy, repairs),
                joins_at=WORKLOAD_S * random.random() if late else 0.0,
                replies=0.3 if random.random() < 0.15 else 0.0,
            )
        )
    return tuple(subscribers)


def _draw_policy(random: Random, upward: bool, lossy: bool, repairs: bool) -> SubscriberSettings:
    on_gap = random.choice(_DRAWN_UPWARD_GAPS if upward else _DRAWN_GAPS)
    is_exact = on_gap in ("wait", "fail")
    buffer = random.choice((0, 0, 1, 2, 4, 8)) if not is_exact else 0
    max_hold = None if on_gap == "wait" else random.choice((None, 0.02, 0.1))
    # Who waits for what a lossy service lost, and may not ask for it, waits for ever: nobody is promised that.
    repair = repairs and (is_exact or random.random() < 0.7)
    return SubscriberSettings(
        on_gap=on_gap,
        buffer=buffer,
        max_hold=max_hold,
        stamps="upward" if upward else "full",
        repair=repair,
        nack_retry_s_max=PAUSE_S_MAX,
        nack_numbers_max=random.choice((2, 256)),
        hold_max=4 if repair and random.random() < 0.15 else 65536,
        late_window=8 if random.random() < 0.15 else 4096,
    )


def _draw_bursts(random: Random, topics: tuple[str, ...], most: int) -> tuple[Burst, ...]:
    publishers = [f"p{i + 1}" for i in range(random.randint(1, 3))]
    bursts = [
        Burst(
            at=round(WORKLOAD_S * random.random(), 4),
            publisher=random.choice(publishers),
            topics=tuple(random.choice(topics) for _ in range(random.randint(1, most))),
        )
        for _ in range(random.randint(3, 20))
    ]
    return tuple(sorted(bursts, key=lambda burst: burst.at))
