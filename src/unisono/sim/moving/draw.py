"""Moving worlds, drawn from a seed."""

from __future__ import annotations

from random import Random

import msgspec

from unisono.engines.links import LinkSettings
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.settings import ManagerSettings, OnGap, SubscriberSettings
from unisono.sim.moving.draw_deletions import delete
from unisono.sim.moving.draw_open import open_up
from unisono.sim.moving.draw_past import remember
from unisono.sim.moving.draw_retries import retry
from unisono.sim.moving.draw_views import look
from unisono.sim.moving.world import (
    SERVICE,
    STORE,
    Burst,
    ClockConditions,
    Crash,
    Happening,
    MemberSpec,
    MovingWorld,
    Partition,
    Pause,
    Rerank,
    StorageConditions,
    Suspicion,
    Want,
    WatchConditions,
)
from unisono.sim.network import Conditions

WORKLOAD_S = 2.0  # publishing and churn end here
PEERS_SHARE = 0.3  # of the worlds in which members that ask each other can matter
AWAY_S_MAX = 0.8  # the longest pause or partition; short leases run out meanwhile, long ones do not
_GAPS: tuple[OnGap, ...] = ("wait", "wait", "wait", "tag", "tag", "skip", "fail")
_NODE = NodeSettings(
    append_s=0.25, prepare_s=0.15, frozen_s=0.5, finish_s=0.4, retry_s=0.25, look_s=0.4, lease_s=4.0
)


def draw_moving(seed: int) -> MovingWorld:
    """The moving world of this seed."""
    return _ask_peers(delete(_replicate(look(remember(retry(open_up(_draw_closed(seed))))))))


def _ask_peers(world: MovingWorld) -> MovingWorld:
    """The same world where something may be lost for good, perhaps with members that ask each other; its dice are its
    own."""
    random = Random(f"{world.seed} peers")
    if not world.notifications.loss or world.retained or random.random() > PEERS_SHARE:
        return world
    managers = msgspec.structs.replace(world.managers, ring_events=random.choice((2, 3)))
    return msgspec.structs.replace(world, managers=managers, peers=True)


def _replicate(world: MovingWorld) -> MovingWorld:
    """The same world, perhaps on a storage whose leader changes now and then; its dice are its own."""
    random = Random(f"{world.seed} replicas")
    if random.random() < 0.75:
        return world
    late, twice = 0.15 * random.random(), 0.15 * random.random()
    return msgspec.structs.replace(
        world, storage=msgspec.structs.replace(world.storage, late=late, twice=twice)
    )


def _draw_closed(seed: int) -> MovingWorld:
    """A world whose topics and nodes are all there from the start."""
    random = Random(f"{seed} moving")
    topics = tuple(f"T{i + 1}" for i in range(random.choice((1, 2, 2, 3, 3, 3, 4, 4, 5))))
    nodes = tuple(f"N{i + 1}" for i in range(random.randint(2, 4)))
    owning = nodes[: random.randint(1, len(nodes))]
    threshold = random.choice((1, 2, 2))
    notifications = _draw_conditions(random, spread_s=0.04)
    members = _draw_members(random)
    publishers = [f"p{i + 1}" for i in range(random.randint(1, 3))]
    rank = random.sample(topics, len(topics))
    return MovingWorld(
        seed=seed,
        topics=tuple(rank),
        nodes=nodes,
        owners=tuple(random.choice(owning) for _ in topics),
        publishers=tuple(publishers),
        members=members,
        script=_Script(random, topics, nodes, publishers, [m.name for m in members], threshold).draw(),
        threshold=threshold,
        causal=threshold == 1 and random.random() < 0.7,
        ranking=random.random() < 0.5,
        managers=ManagerSettings(
            ring_events=random.choice((4, 64, 64, 64)),
            heartbeat_s=0.1,
            heartbeat_s_max=0.4,
            threshold=threshold,
        ),
        node=msgspec.structs.replace(
            _NODE, plan=random.choice(("line", "forest")), lease_s=random.choice((0.6, 4.0, 4.0))
        ),
        report_s=0.2,
        links=LinkSettings(retry_s=0.08, retry_s_max=0.4, window=random.choice((2, 1024, 1024))),
        packets=_draw_conditions(random, spread_s=0.03),
        notifications=notifications,
        storage=_draw_storage(random),
        watch=WatchConditions(
            spread_s=random.choice((0.0, 0.02, 0.3)) * random.random(), skip=random.choice((0.0, 0.5))
        ),
        clocks=ClockConditions(offset_s=20.0, drift=0.1) if random.random() < 0.5 else ClockConditions(),
        heals_at=WORKLOAD_S + AWAY_S_MAX + 0.4 * random.random(),
    )


def _draw_conditions(random: Random, spread_s: float) -> Conditions:
    return Conditions(
        latency_s=random.choice((0.001, 0.005)),
        spread_s=random.choice((0.0, spread_s * random.random())),
        loss=random.choice((0.0, 0.2 * random.random())),
        duplication=random.choice((0.0, 0.2 * random.random())),
        overtaking=random.random() < 0.7,
    )


def _draw_storage(random: Random) -> StorageConditions:
    bad = random.random() < 0.5
    return StorageConditions(
        latency_s=random.choice((0.001, 0.004)),
        spread_s=random.choice((0.0, 0.01)),
        lost_before=0.1 * random.random() if bad else 0.0,
        lost_after=0.1 * random.random() if bad else 0.0,
        slow=random.choice((0.0, 0.05)),
    )


def _draw_members(random: Random) -> tuple[MemberSpec, ...]:
    return tuple(
        MemberSpec(f"s{i + 1}", _draw_policy(random), 0.2 if random.random() < 0.15 else 0.0)
        for i in range(random.randint(2, 5))
    )


def _draw_policy(random: Random) -> SubscriberSettings:
    on_gap = random.choice(_GAPS)
    is_exact = on_gap in ("wait", "fail")
    return SubscriberSettings(
        on_gap=on_gap,
        buffer=0 if is_exact else random.choice((0, 0, 1, 2, 4)),
        max_hold=None if on_gap == "wait" else random.choice((None, 0.05, 0.3)),
        repair=is_exact or random.random() < 0.8,
        nack_retry_s_max=0.4,
        nack_numbers_max=random.choice((2, 256)),
    )


class _Script:
    """Draws what happens in a world."""

    def __init__(
        self,
        random: Random,
        topics: tuple[str, ...],
        nodes: tuple[str, ...],
        publishers: list[str],
        members: list[str],
        threshold: int,
    ) -> None:
        self.random = random
        # Causal publishers, which need threshold 1, send one topic at a time: bundles are for the others.
        self.bursts = (1, 1, 2, 2) if threshold == 1 else (1, 1, 2, 2, 4, 8)
        self.topics, self.nodes = topics, nodes
        self.publishers, self.members = publishers, members
        self.happenings: list[Happening] = []

    def draw(self) -> tuple[Happening, ...]:
        """Everything, in order of time."""
        random = self.random
        self._publish()
        self._churn()
        if random.random() < 0.6:
            self._crash()
        if random.random() < 0.35:
            self._pause()
        if random.random() < 0.4:
            self._cut()
        if random.random() < 0.25:
            by, node = random.sample(self.nodes, 2)
            self.happenings.append(Suspicion(self._at(), by, node))
        if random.random() < 0.4:
            rank = tuple(random.sample(self.topics, len(self.topics)))
            self.happenings.append(Rerank(self._at(), rank))
        return tuple(sorted(self.happenings, key=lambda happening: happening.at))

    def _at(self) -> float:
        return round(WORKLOAD_S * self.random.random(), 4)

    def _away(self, at: float) -> float:
        return round(at + AWAY_S_MAX * self.random.random(), 4)

    def _publish(self) -> None:
        random = self.random
        # Some topics are busier than others, so that the rank is worth changing.
        weights = [random.choice((1, 1, 6)) for _ in self.topics]
        for _ in range(random.randint(4, 24)):
            topics = random.choices(self.topics, weights, k=random.choice(self.bursts))
            self.happenings.append(Burst(self._at(), random.choice(self.publishers), tuple(topics)))

    def _churn(self) -> None:
        random = self.random
        for member in self.members:
            first = random.sample(self.topics, random.randint(1, len(self.topics)))
            start = 0.0 if random.random() < 0.6 else self._at()
            self.happenings.append(Want(start, member, tuple(first)))
            for _ in range(random.choice((0, 0, 1, 2, 3))):
                some = tuple(random.sample(self.topics, random.randint(1, min(2, len(self.topics)))))
                at = round(start + (WORKLOAD_S - start) * random.random(), 4)
                if random.random() < 0.6:
                    self.happenings.append(Want(at, member, add=some))
                    if random.random() < 0.3:  # changed its mind while joining
                        self.happenings.append(Want(at + 0.02 * random.random(), member, remove=some[:1]))
                else:
                    self.happenings.append(Want(at, member, remove=some))

    def _crash(self) -> None:
        random = self.random
        gone: set[str] = set()
        for _ in range(random.choice((1, 1, 2, 3))):
            others = random.choice((self.publishers, self.members))
            process = random.choice(self.nodes if random.random() < 0.7 else others)
            at = self._at()
            back_at: float | None = self._away(at)
            # One node at least is there in the end.
            if random.random() < 0.5 and len(gone | {process}) < len(self.nodes):
                back_at = None
                gone |= {process}
            self.happenings.append(Crash(at, process, random.random() < 0.5, back_at))

    def _pause(self) -> None:
        everybody = (*self.nodes, *self.nodes, *self.members, *self.publishers)
        for _ in range(self.random.choice((1, 1, 2))):
            at = self._at()
            self.happenings.append(Pause(at, self.random.choice(everybody), self._away(at)))

    def _cut(self) -> None:
        everything = (*self.nodes, *self.members, *self.publishers, STORE, SERVICE)
        for _ in range(self.random.choice((1, 1, 2))):
            at = self._at()
            side = self.random.sample(everything, self.random.randint(1, len(everything) // 2))
            self.happenings.append(Partition(at, self._away(at), tuple(sorted(side))))
