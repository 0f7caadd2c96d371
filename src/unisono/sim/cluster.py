"""The processes of a world: who is where, who can be reached at which address, and who subscribes to what.

Every engine has an address of its own and stands behind its own `Links`. Engines with the same process share
its fate and its clock; what they tell each other does not travel over the network.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from unisono.engines.links import Links
from unisono.engines.plan import Plan, Registration, conflict_graph, elimination_forest, rank_line
from unisono.engines.topic_managers.addresses import manager_address
from unisono.engines.topic_managers.colocated import ColocatedManagers
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.peers import Peers
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.frames import Publication
from unisono.sim.world import SubscriberSpec, World, process_of

if TYPE_CHECKING:
    from unisono.sim.routes import Routes

NODE = "node"


class Host:
    """One engine at one address, on one process."""

    __slots__ = ("address", "links", "process", "wakes_at")

    def __init__(self, address: str, process: str, links: Links) -> None:
        self.address = address
        self.process = process
        self.links = links
        self.wakes_at: float | None = None  # the earliest timer the simulation has scheduled for it


class Cluster:
    """All hosts of a world, by address."""

    def __init__(self, world: World, plan: Plan | None = None) -> None:
        """`plan`: that of the world, where somebody has it already."""
        self.world = world
        self.hosts: dict[str, Host] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.publishers: dict[str, Publisher] = {}
        self.listeners: dict[str, list[str]] = {topic: [] for topic in world.topics}
        self.colocated = ColocatedManagers(world.managers, world.threshold)
        self.plan = plan or plan_of(world)
        self._published: dict[str, int] = {}
        if world.shape == "chain":
            self._start_chain()
        else:
            self._host(NODE, NODE, Links(self.colocated, world.links))

    def join(self, spec: SubscriberSpec) -> dict[str, int]:
        """Start a subscriber; return the number of each topic after which it is owed events."""
        if self.world.shape == "colocated":
            floors = self.colocated.register(frozenset(spec.topics))
            engine = Subscriber(spec.name, floors, spec.settings, emitter=lambda _: NODE)
        else:
            floors = dict.fromkeys(spec.topics, 0)
            engine = Subscriber(spec.name, floors, spec.settings, emitter=self._emitter, group=self._group)
        self.subscribers[spec.name] = engine
        outer = Peers(spec.name, engine) if self.world.peers else engine
        self._host(spec.name, spec.name, Links(outer, self.world.links))
        for topic in spec.topics:
            self.listeners[topic].append(spec.name)
        return {topic: floors[topic] for topic in spec.topics}

    def publication(self, publisher: str, topic: str, now: float, body: bytes) -> Publication:
        """The publisher's next event."""
        n = self._published[publisher] = self._published.get(publisher, 0) + 1
        return Publication(publisher, 0, n, topic, body, published_at=now)

    def publisher_host(self, publisher: str, process: str) -> Host:
        """Where a publisher's events go in: its own engine, or the node that sequences everything."""
        if self.world.shape == "colocated":
            return self.hosts[NODE]
        if publisher not in self.hosts:
            engine = self.publishers[publisher] = Publisher(causal=self.world.causal)
            self._host(publisher, process, Links(engine, self.world.links))
        return self.hosts[publisher]

    def audience(self, topics: tuple[str, ...]) -> list[str]:
        """Who subscribes to any of these topics, each once, in the order of joining."""
        if len(topics) == 1:
            return self.listeners[topics[0]]
        return list(dict.fromkeys(name for topic in topics for name in self.listeners[topic]))

    def unacknowledged(self) -> list[Publication]:
        """What publishers have not heard the end of."""
        return [
            publication
            for publisher in self.publishers.values()
            for publication in (*publisher.outgoing, *publisher.waiting)
        ]

    def _start_chain(self) -> None:
        world = self.world
        for topic, node in zip(world.topics, nodes_of(world), strict=True):
            manager = TopicManager(topic, self.plan, world.managers)
            self._host(manager_address(topic), node, Links(manager, world.links))

    def _host(self, address: str, process: str, links: Links) -> None:
        self.hosts[address] = Host(address, process, links)

    def _emitter(self, topic: str) -> str:
        return manager_address(self.plan.emitter(topic))

    def _group(self, topic: str) -> frozenset[str]:
        if self.world.managers.stamps == "full":
            return self.plan.group[topic]
        return frozenset((topic, *self.plan.above(topic)))


def plan_of(world: World) -> Plan:
    """The plan of a world in which everybody subscribes before anything is published; its first topic is on top."""
    held = Counter(frozenset(subscriber.topics) for subscriber in world.subscribers)
    alike = [Registration(topics, subscribers) for topics, subscribers in held.items()]
    conflicts = conflict_graph(alike, world.topics, world.threshold)
    return rank_line(conflicts, rank=world.topics) if world.plan == "line" else elimination_forest(conflicts)


def routes_of(world: World) -> Routes | None:
    """The ways between the processes of a world, if it is laid on any ground."""
    if world.ground is None:
        return None
    from unisono.sim.routes import make_routes  # needs numpy

    subscribers = {spec.name: spec.topics for spec in world.subscribers}
    publishers = dict.fromkeys(process_of(burst.publisher) for burst in world.bursts)
    nodes = nodes_of(world)
    topics = Counter(nodes)
    return make_routes(
        world.ground,
        world.seed,
        subscribers,
        [name for name in publishers if name not in subscribers],
        # Where a node has one topic, it is the root of that topic's tree.
        {node: topic if topics[node] == 1 else node for topic, node in zip(world.topics, nodes, strict=True)},
    )


def nodes_of(world: World) -> tuple[str, ...]:
    """The process of each topic's manager."""
    if world.shape == "colocated":
        return (NODE,) * len(world.topics)
    return world.placement or tuple(f"node-{topic}" for topic in world.topics)
