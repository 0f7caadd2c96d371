"""What change costs: how long a join takes, how long an epoch pauses a node, and whether anything piles up.

Times are counted in message delays: every packet, every notification and every way to the storage or back takes
exactly one. Nothing is lost and nobody crashes, except where the week of churn says so.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from unisono.engines.inputs import Input
from unisono.engines.links import Arrived
from unisono.engines.takeover.control import PlanKind
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.model.lanes import EpochRecord
from unisono.sim.moving.processes import HONEST, Host
from unisono.sim.moving.simulation import Simulation
from unisono.sim.moving.world import (
    Burst,
    Crash,
    Happening,
    MemberSpec,
    MovingWorld,
    Rerank,
    StorageConditions,
    Want,
    WatchConditions,
)
from unisono.sim.network import Conditions

DELAY_S = 0.01  # one message delay
SIZES = ((1, 1), (4, 1), (4, 2), (4, 4), (8, 4), (16, 4))  # topics, nodes
HOUR_S = 3600.0
_WAIT = SubscriberSettings(repair=True)


class Cost(msgspec.Struct, frozen=True):
    """Joins and epochs in a component of one size; times in message delays."""

    plan: PlanKind
    topics: int
    nodes: int
    joins: int
    join_p50: float
    join_p99: float
    epochs: int
    pause_p50: float
    pause_p99: float


class Week(msgspec.Struct, frozen=True):
    """A week of subscribers that come and go, most of them without a word."""

    hours: int
    shrinks: bool  # whether epochs are planned when registrations are no longer true
    lives: int  # subscriptions that were ever begun
    live_max: int
    registrations_max: int
    registrations_end: int
    epochs: int


class ChurnResult(msgspec.Struct, frozen=True):
    """Both measures."""

    costs: tuple[Cost, ...]
    weeks: tuple[Week, ...]

    @property
    def is_bounded(self) -> bool:
        """Whether registrations stay in proportion to those who are there."""
        return all(week.registrations_max <= 2 * week.live_max for week in self.weeks if week.shrinks)


class Measured(Simulation):
    """A simulation that notes when joins begin and end, and when nodes stop serving and go on."""

    def __init__(self, world: MovingWorld) -> None:
        super().__init__(world, HONEST)
        self.joins: list[float] = []
        self.pauses: list[float] = []
        self.epochs = 0
        self._joining: dict[str, float] = {}
        self._frozen: dict[str, float] = {}

    def run_until(self, end: float) -> None:
        """Let everything happen up to a time."""
        while (next_time := self.kernel.next_time()) is not None and next_time <= end:
            self._happen(self.kernel.advance())
        assert not self.faults, self.faults[0]

    def _step(self, host: Host, input: Input | Arrived) -> None:
        engine = host.links.engine
        before = engine.epoch if isinstance(engine, ManagerNode) else 0
        super()._step(host, input)
        if isinstance(engine, ManagerNode):
            self._note_epoch(engine, before)
        elif isinstance(engine, Member):
            self._note_join(engine)

    def _note_join(self, member: Member) -> None:
        now = self.kernel.now
        if member.new:
            self._joining.setdefault(member.name, now)
        elif (since := self._joining.pop(member.name, None)) is not None:
            self.joins.append((now - since) / DELAY_S)

    def _note_epoch(self, node: ManagerNode, before: int) -> None:
        now = self.kernel.now
        if node.epoch > before >= 0:
            self.epochs += 1
            self.pauses.append((now - self._frozen.pop(node.name, now)) / DELAY_S)
        elif node.frozen_until is not None or node.writer is None:
            self._frozen.setdefault(node.name, now)
        else:
            self._frozen.pop(node.name, None)  # it went on without a new epoch


def measure(hours: int = 7 * 24, progress: Callable[[int, int], None] | None = None) -> ChurnResult:
    """Joins and epochs by size of component; then a week of churn, with and without epochs that shrink."""
    plans: tuple[PlanKind, ...] = ("line", "forest")
    sizes = [(plan, topics, nodes) for plan in plans for topics, nodes in SIZES]
    costs, weeks = [], []
    for done, (plan, topics, nodes) in enumerate(sizes):
        costs.append(measure_costs(plan, topics, nodes))
        if progress is not None:
            progress(done + 1, len(sizes) + 2)
    for done, shrinks in enumerate((True, False)):
        weeks.append(measure_week(hours, shrinks=shrinks))
        if progress is not None:
            progress(len(sizes) + done + 1, len(sizes) + 2)
    return ChurnResult(tuple(costs), tuple(weeks))


def measure_costs(plan: PlanKind, topics: int, nodes: int, seconds: int = 60) -> Cost:
    """One component: somebody joins twice a second, events flow, and the rank changes every five seconds."""
    random = Random(f"{plan} {topics} {nodes}")
    names = tuple(f"T{i + 1}" for i in range(topics))
    members = [f"s{i + 1}" for i in range(2 * seconds)]
    script: list[Happening] = []
    for i, member in enumerate(members):
        held = tuple(random.sample(names, random.randint(1, min(4, topics))))
        script.append(Want(0.5 * i + 0.3 * random.random(), member, held))
    script += [Burst(i / 20, "p1", (random.choice(names),)) for i in range(20 * seconds)]
    script += [Rerank(5.0 * i + 2.5, tuple(random.sample(names, topics))) for i in range(seconds // 5)]
    world = _world(plan, names, nodes, members, script, NodeSettings(plan=plan, lease_s=1e9))
    simulation = Measured(msgspec.structs.replace(world, heals_at=float(seconds)))
    simulation.run_until(seconds)
    joins, pauses = simulation.joins, simulation.pauses
    return Cost(
        plan,
        topics,
        nodes,
        len(joins),
        _quantile(joins, 0.5),
        _quantile(joins, 0.99),
        simulation.storage.control.epoch,
        _quantile(pauses, 0.5),
        _quantile(pauses, 0.99),
    )


def measure_week(hours: int, *, shrinks: bool, members: int = 16) -> Week:
    """Subscribers crash about every two hours, come back as others, and change their minds meanwhile."""
    random = Random("a week")
    names = tuple(f"T{i + 1}" for i in range(6))
    slots = [f"s{i + 1}" for i in range(members)]
    end = hours * HOUR_S
    script: list[Happening] = []
    for slot in slots:
        at = 60 * random.random()
        script.append(Want(at, slot, tuple(random.sample(names, 3))))
        while (at := at + 2 * HOUR_S * (0.5 + random.random())) < end - HOUR_S:
            change = at - HOUR_S * random.random() / 2
            script.append(Want(change, slot, add=(random.choice(names),), remove=(random.choice(names),)))
            script.append(Crash(at, slot, True, back_at=at + 600 * random.random()))
    script += [Burst(600.0 * i + 30, "p1", (random.choice(names),)) for i in range(6 * hours)]
    # A week is long: everybody is more patient than usual.
    node = NodeSettings(look_s=60.0, lease_s=1800.0, stale_share=0.25 if shrinks else 1e9)
    world = _world("line", names, 2, slots, script, node)
    world = msgspec.structs.replace(
        world,
        managers=ManagerSettings(ring_events=64, heartbeat_s=1.0, heartbeat_s_max=HOUR_S),
        report_s=600.0,
        beat_s=300.0,
        suspect_s=1e9,
        heals_at=end,
    )
    simulation = Measured(world)
    live = registrations = most = 0
    for hour in range(1, hours + 1):
        simulation.run_until(hour * HOUR_S)
        live = max(live, sum(bool(m.topics) for _, m in simulation.cluster.members()))
        registrations = _registrations(simulation)
        most = max(most, registrations)
    lives = sum(simulation.cluster.processes[slot].life for slot in slots)
    epoch = simulation.storage.control.epoch
    return Week(hours, shrinks, lives, live, most, registrations, epoch)


def _registrations(simulation: Simulation) -> int:
    """How many subscribers a node that has read every lane takes for registered."""
    known: set[str] = set()
    for records in simulation.storage.lanes.values():
        current: set[str] = set()
        for record in records:
            if isinstance(record, EpochRecord):
                current = {held.subscriber for held in record.registrations}
            elif (held := getattr(record, "registration", None)) is not None:
                current.add(held.subscriber)
        known |= current
    return len(known)


def _world(
    plan: PlanKind,
    topics: tuple[str, ...],
    nodes: int,
    members: list[str],
    script: list[Happening],
    node: NodeSettings,
) -> MovingWorld:
    homes = tuple(f"N{i + 1}" for i in range(nodes))
    way = Conditions(latency_s=DELAY_S)
    return MovingWorld(
        seed=0,
        topics=topics,
        nodes=homes,
        owners=tuple(homes[i % nodes] for i in range(len(topics))),
        publishers=("p1",),
        members=tuple(MemberSpec(name, _WAIT) for name in members),
        script=tuple(sorted(script, key=lambda happening: happening.at)),
        node=msgspec.structs.replace(node, plan=plan),
        packets=way,
        notifications=way,
        storage=StorageConditions(latency_s=DELAY_S),
        watch=WatchConditions(latency_s=DELAY_S),
    )


def _quantile(values: list[float], share: float) -> float:
    if not values:
        return 0.0
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 1)
