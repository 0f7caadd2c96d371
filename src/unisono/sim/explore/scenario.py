"""A tiny world to be explored: who subscribes to what, what is published, what may go wrong, what is promised."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import msgspec

from unisono.engines.contract import Engine
from unisono.engines.plan import Conflicts, Plan, conflict_graph, elimination_forest, rank_line
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.frames import Publication

SAFETY = ("no_creation", "no_duplication", "total_notification_order", "tags")
LIVENESS = ("no_endless_wait", "nothing_lost")


@dataclass(frozen=True, slots=True)
class Planned:
    """An event to be published: at once, or by a subscriber once it has delivered another one."""

    name: str
    topic: str
    publisher: str = ""  # one of its own, called like the event, unless named
    after: tuple[str, str] | None = None  # the subscriber that publishes it, and the event it waits for
    key: str | None = None  # by which it is the same as others of its topic


class Faults(msgspec.Struct, frozen=True):
    """How often the world may do harm; every place and moment is tried."""

    losses: int = 0  # notifications that never arrive
    doubles: int = 0  # notifications that arrive twice
    repeats: int = 0  # requests that a publisher sends again
    ticks: int = 0  # timers that fire before the world comes to rest
    crashes: frozenset[str] = frozenset()  # publishers that may die at any moment
    overtaking: bool = False  # links do not keep FIFO


NO_FAULTS = Faults()
MANAGERS = ManagerSettings()
SUBSCRIBERS = SubscriberSettings()

PlanBuilder: TypeAlias = Callable[[Conflicts, tuple[str, ...]], Plan]


def line(conflicts: Conflicts, rank: tuple[str, ...]) -> Plan:
    """The rank line, in the order the topics are given."""
    return rank_line(conflicts, rank=rank)


def forest(conflicts: Conflicts, rank: tuple[str, ...]) -> Plan:
    """The elimination forest by minimum degree."""
    return elimination_forest(conflicts)


class Scenario(Protocol):
    """What the explorer asks of a tiny world."""

    @property
    def subscriptions(self) -> Mapping[str, frozenset[str]]:
        """Who holds which topics."""
        ...

    @property
    def events(self) -> tuple[Planned, ...]:
        """What is published."""
        ...

    @property
    def faults(self) -> Faults:
        """What may go wrong."""
        ...

    @property
    def promises(self) -> tuple[str, ...]:
        """What the ends are judged by."""
        ...

    @property
    def order(self) -> str:
        """What every subscriber was promised."""
        ...

    @property
    def on_gap(self) -> str:
        """What every subscriber asked for at a gap."""
        ...

    @property
    def invariants(self) -> bool:
        """Whether engines check themselves after every step."""
        ...

    @property
    def feedback(self) -> bool:
        """Whether subscribers influence publishers or sequencers, so that they cannot be explored apart."""
        ...

    def sequencers(self) -> dict[str, Engine]:
        """The sequencing engines by address."""
        ...

    def publisher(self) -> Engine:
        """A publisher."""
        ...

    def subscriber(self, name: str) -> Engine:
        """The engine of a subscriber."""
        ...

    def stamps_key(self) -> Hashable:
        """Equal for scenarios whose events can get the same stamps."""
        ...

    def subscriber_key(self, name: str) -> Hashable:
        """Equal for subscribers that treat the same arrivals alike."""
        ...

    def reads(self, name: str) -> frozenset[str] | None:
        """The entries of a stamp that can make a difference to this subscriber; None for all of them."""
        ...


@dataclass(frozen=True)
class TopicManagerScenario:
    """A scenario of topic managers; the makers of engines can be replaced one by one by weaker ones."""

    topics: tuple[str, ...]  # the top rank first
    subscriptions: Mapping[str, frozenset[str]]
    events: tuple[Planned, ...]
    threshold: int = 2
    plan: PlanBuilder = line
    managers: ManagerSettings = MANAGERS
    subscribers: SubscriberSettings = SUBSCRIBERS
    causal: bool = False
    faults: Faults = NO_FAULTS
    promises: tuple[str, ...] = SAFETY + LIVENESS
    invariants: bool = True
    make_manager: Callable[[str, Plan, ManagerSettings], Engine] = TopicManager
    make_publisher: Callable[[bool], Engine] = lambda causal: Publisher(causal=causal)
    make_subscriber: Callable[[str, Mapping[str, int], SubscriberSettings], Engine] = Subscriber

    @property
    def order(self) -> str:
        """Acyclic and causal order are promises of total_causal."""
        strong = {"acyclic_order", "causal_order"} & set(self.promises)
        return "total_causal" if strong else "total"

    @property
    def on_gap(self) -> str:
        """As in the subscribers' settings."""
        return self.subscribers.on_gap

    @property
    def feedback(self) -> bool:
        """Publishing after a delivery, and asking for what is missing."""
        return (
            "causal_order" in self.promises
            or self.subscribers.repair
            or any(event.after for event in self.events)
        )

    def built_plan(self) -> Plan:
        """The plan of these subscriptions."""
        conflicts = conflict_graph(self.subscriptions.values(), self.topics, self.threshold)
        return self.plan(conflicts, self.topics)

    def sequencers(self) -> dict[str, Engine]:
        """A manager for every topic."""
        plan = self.built_plan()
        return {manager_address(t): self.make_manager(t, plan, self.managers) for t in self.topics}

    def publisher(self) -> Engine:
        """A publisher."""
        return self.make_publisher(self.causal)

    def subscriber(self, name: str) -> Engine:
        """A subscriber that is owed everything."""
        floors = dict.fromkeys(sorted(self.subscriptions[name]), 0)
        engine = self.make_subscriber(name, floors, self.subscribers)
        if isinstance(engine, Subscriber) and self.subscribers.repair:
            plan = self.built_plan()
            engine.emitter = lambda topic: manager_address(plan.emitter(topic))
        return engine

    def stamps_key(self) -> Hashable:
        """Managers know the subscriptions by their plan only."""
        return (
            self.built_plan(),
            self.managers,
            self.make_manager,
            self.make_publisher,
            self.causal,
            self.events,
            msgspec.structs.replace(self.faults, losses=0, doubles=0),  # those befall subscribers only
            self.invariants,
        )

    def subscriber_key(self, name: str) -> Hashable:
        """Its topics and its settings."""
        return (self.subscriptions[name], self.subscribers, self.make_subscriber, self.invariants)

    def reads(self, name: str) -> frozenset[str] | None:
        """A subscriber reads the entries of its own topics only; a weakened one might read others."""
        return self.subscriptions[name] if self.make_subscriber is Subscriber else None

    def but(self, **changes: object) -> TopicManagerScenario:
        """The same world with some things replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]


def publications(events: tuple[Planned, ...]) -> dict[str, Publication]:
    """The publication of each event by its name; a publisher numbers its own from 1."""
    counts: dict[str, int] = {}
    found: dict[str, Publication] = {}
    for event in events:
        publisher = event.publisher or event.name
        counts[publisher] = counts.get(publisher, 0) + 1
        found[event.name] = Publication(publisher, 0, counts[publisher], event.topic, key=event.key)
    return found
