"""A tiny world that moves: nodes with lanes, members that join and leave, epochs, one crash or a false suspicion.

Observers hold what they hold from the first event to the last. They influence nobody, so they are explored
apart: whatever happened, they may have been told of it in any order (`moving_ends`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import msgspec

from unisono.engines.takeover.control import Control, Intent, PlanKind, first_control, next_plan
from unisono.engines.takeover.patterns import matching
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.moving import MovingSubscriber
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.recalling import Start
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.model.frames import EpochNotice, Registration
from unisono.model.lanes import EpochRecord
from unisono.sim.explore.scenario import Planned

Change: TypeAlias = tuple[Literal["add", "remove"], tuple[str, ...]]
"""What a member's application asks for next."""

# Promises that only a moving world makes; the first three may be broken, the others may never come true.
KEPT = "acknowledged_kept"
KEYS = "keys_kept"
BOUNDS = "bounds_kept"
JOINS = "joins_complete"
ANSWERS = "answers_come"
PATTERNS = "patterns_complete"
MOVING_SAFETY = ("no_creation", "no_duplication", "total_notification_order", KEPT, KEYS, BOUNDS)
MOVING_LIVENESS = ("nothing_lost", "no_endless_wait", JOINS, ANSWERS, PATTERNS)


class Harm(msgspec.Struct, frozen=True):
    """How often a moving world may do harm, or change its plan; every place and moment is tried."""

    crashes: int = 0  # nodes that die, with what they sent kept or lost
    zombies: int = 0  # nodes that are suspected and live on
    lost_appends: int = 0
    lost_answers: int = 0  # appends that are stored, and nobody says so
    late_appends: int = 0  # appends that are accepted, and stored later, wherever the lane ends then
    double_appends: int = 0  # appends that are stored once more, later
    late_cuts: bool = False  # truncations take their time
    stale_reads: int = 0  # lanes read now, and the answer comes much later
    ticks: int = 0  # timers that fire before the world comes to rest
    ticking: tuple[str, ...] = ()  # whose timers; empty: anybody's
    finishers: int = 0  # nodes that finish an epoch while another does
    reports: int = 0  # members that tell what they hold
    expiries: int = 0  # events that a member has held too long
    ranks: tuple[tuple[str, ...], ...] = ()  # ranks that somebody asks for, once each
    drains: tuple[str, ...] = ()  # nodes that an operator asks to leave, once each
    closes: tuple[str, ...] = ()  # topics that an operator deletes, once each
    mortal: tuple[str, ...] = ()  # nodes that may crash or be suspected; empty: any


NO_HARM = Harm()
NODES = NodeSettings()
MANAGERS = ManagerSettings(ring_events=16, heartbeat_s=0.5)
EXACT = SubscriberSettings(repair=True)


@dataclass(frozen=True)
class MovingScenario:
    """Who holds what at the start, who changes it how, what is published; makers can be replaced by weaker ones."""

    topics: tuple[str, ...]  # the top rank first
    owner: Mapping[str, str]  # topic -> node
    events: tuple[Planned, ...]
    observers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    scripts: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    patterns: Mapping[str, frozenset[str]] = field(default_factory=dict)  # what anybody holds by pattern
    at_once: bool = False  # whoever publishes several events publishes all of them at once
    starts: Mapping[str, Start] = field(default_factory=dict)  # members that begin in the past
    retained: bool = False  # whether the history is kept
    spare: tuple[str, ...] = ()  # nodes that own nothing at the start
    kind: PlanKind = "line"
    threshold: int = 2
    harm: Harm = NO_HARM
    nodes_are: NodeSettings = NODES
    managers: ManagerSettings = MANAGERS
    subscribers: SubscriberSettings = EXACT
    settings: Mapping[str, SubscriberSettings] = field(default_factory=dict)  # of members that differ
    promises: tuple[str, ...] = MOVING_SAFETY + MOVING_LIVENESS
    order: str = "total"  # what subscribers ask for
    invariants: bool = True
    lane_is_read: bool = False  # somebody takes the order of the only lane for the order
    make_node: Callable[[str, NodeSettings, ManagerSettings], ManagerNode] = ManagerNode
    make_member: Callable[..., Member] = Member
    make_subscriber: Callable[[str, SubscriberSettings], MovingSubscriber] = MovingSubscriber
    make_publisher: Callable[[], Publisher] = Publisher
    make_control: Callable[[Control], Control] = lambda control: control

    def but(self, **changes: object) -> MovingScenario:
        """The same world with some things replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them, owners or not."""
        return tuple(sorted({*self.owner.values(), *self.spare}))

    @property
    def held(self) -> dict[str, frozenset[str]]:
        """What everybody holds at the start."""
        return {**self.observers, **self.members}

    def registrations(self) -> tuple[Registration, ...]:
        """What the nodes know at the start."""
        held = {name: topics.intersection(self.topics) for name, topics in sorted(self.held.items())}
        return tuple(Registration(name, 1, tuple(sorted(topics))) for name, topics in held.items() if topics)

    def control(self) -> Control:
        """The first control record."""
        intent = Intent(self.kind, self.topics)
        plan = next_plan(intent, self.registrations(), 1 if self.retained else self.threshold, 0)
        holders = {name: Registration(name, 1, tuple(sorted(p))) for name, p in sorted(self.patterns.items())}
        sequencer = self.nodes_are.sequencer or "topics"
        first = first_control(plan, self.owner, self.nodes, retained=self.retained, sequencer=sequencer)
        return self.make_control(replace(first, patterns=holders))

    def beginning(self) -> EpochRecord:
        """What every lane starts with, as if an epoch had just begun."""
        return EpochRecord(0, EpochNotice(0, dict.fromkeys(self.topics, 0)), self.registrations(), ())

    def node(self, name: str) -> ManagerNode:
        """A node that knows nothing yet."""
        managers = msgspec.structs.replace(self.managers, threshold=self.threshold)
        # Observers cannot say that they are alive: nobody is ever taken for gone here.
        settings = msgspec.structs.replace(self.nodes_are, plan=self.kind, lease_s=1e9)
        return self.make_node(name, settings, managers)

    def subscriber(self, name: str) -> MovingSubscriber:
        """A subscriber that has held its topics from the start."""
        engine = self.make_subscriber(name, self.settings.get(name, self.subscribers))
        for topic in sorted(self.held[name]):
            engine.admit(topic, 0)
        return engine

    def member(self, name: str, control: Control) -> Member:
        """A member that has held its topics from the start."""
        start = {"start": self.starts[name]} if name in self.starts else {}
        engine = self.make_member(name, self.settings.get(name, self.subscribers), **start)
        engine.inner = self.subscriber(name)
        engine.control, engine.version = control, 1
        engine.topics = engine.held = self.members[name]
        engine.active = control.epoch
        engine.report_at = engine.report_s if self.harm.reports else None
        engine.patterns = dict.fromkeys(self.patterns.get(name, ()), 1)
        engine.inner.patterns = dict.fromkeys(self.patterns.get(name, ()), control.epoch)
        return engine


def lacking(member: Member, control: Control) -> set[str]:
    """Topics and patterns that a member wants and is not owed yet."""
    inner = member.inner
    wanted = {topic for topic in member.topics if topic in control.owner or not inner.covers(topic)}
    told = {"the past"} if member.recalling is not None and member.patterns else set()
    return (
        {*wanted, *matching(inner.patterns, control.plan.rank)}.difference(inner.clock) | inner.hoped | told
    )
