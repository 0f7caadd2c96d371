"""Who takes part in a moving world, which life each process is in, and who can reach whom."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from unisono.engines.takeover.control import Control, Intent, first_control, next_plan
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.peers import Peers
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.recalling import Start
from unisono.model.frames import Entries, Publication, Stamped
from unisono.model.ids import is_pattern, matches
from unisono.sim.moving.processes import Host, Makers, Process, draw_clock
from unisono.sim.moving.world import MovingWorld, Partition, Want

if TYPE_CHECKING:
    from unisono.sim.routes import Routes

WALL_S = 1000.0  # the time of day when a world begins


class Place:
    """How far a member has come in all its lives: as if it wrote that down with every event."""

    def __init__(self) -> None:
        self.clock: Entries = {}
        self.epoch = -1

    def move(self, event: Stamped) -> None:
        """An event was delivered."""
        self.clock[event.topic] = event.number
        self.epoch = event.epoch


class Cluster:
    """The processes of a world, and the hosts of those that are up, by address."""

    def __init__(self, world: MovingWorld, makers: Makers) -> None:
        self.world = world
        self.makers = makers
        self.specs = {spec.name: spec for spec in world.members}
        names = (*world.nodes, *world.publishers, *self.specs)
        self.processes = {name: Process(name, draw_clock(world.clocks, world.seed, name)) for name in names}
        self.hosts: dict[str, Host] = {}
        self.listeners: dict[str, dict[str, None]] = {}  # topic or pattern -> who listens
        self.wanted: dict[str, set[str]] = {name: set() for name in self.specs}  # by applications
        self.partitions: list[Partition] = []
        self.places: dict[str, Place] = {}
        self._published: dict[tuple[str, int], int] = {}

    def first_control(self) -> Control:
        """The record a world starts with: nobody is registered, so nothing conflicts."""
        world = self.world
        plan = next_plan(Intent(world.node.plan, world.topics), (), world.threshold, 0)
        nodes = [name for name in world.nodes if name not in world.late]
        owners = dict(zip(world.topics, world.owners, strict=True))
        sequencer = world.node.sequencer or "topics"
        return first_control(plan, owners, nodes, retained=world.retained, at=WALL_S, sequencer=sequencer)

    def start(self, name: str) -> Host:
        """Begin the next life of a process."""
        process = self.processes[name]
        process.life += 1
        process.is_up, process.is_paused = True, False
        process.hosts, process.stash, process.told = {}, [], 0
        world = self.world
        if name in world.nodes:
            node = self.makers.node(name, world.node, world.managers, restarted=process.life > 1)
            node.tell_time(WALL_S)
            return self._host(name, process, node)
        if name in self.specs:
            settings = self.specs[name].settings
            member = self.makers.member(
                process.label,
                settings,
                join_s=world.join_s,
                report_s=world.report_s,
                start=self._start(process),
            )
            return self._host(process.label, process, Peers(process.label, member) if world.peers else member)
        return self._host(name, process, self._publisher())

    def _start(self, process: Process) -> Start | None:
        """Where a member begins this life."""
        spec, place = self.specs[process.name], self.places.get(process.name)
        if spec.durable and place is not None and process.life > 1:
            return Start(clock=dict(place.clock), epoch=place.epoch)
        return spec.start

    def place(self, name: str) -> Place:
        """How far a member has come."""
        return self.places.setdefault(name, Place())

    def voice(self, process: Process) -> Host:
        """Where a member publishes."""
        address = f"{process.label}.voice"
        return self.hosts.get(address) or self._host(address, process, self._publisher())

    def stop(self, process: Process) -> None:
        """A process dies."""
        process.is_up = process.is_paused = False
        process.stash = []
        for address in process.hosts:
            del self.hosts[address]
            for listeners in self.listeners.values():
                listeners.pop(address, None)

    def publication(
        self, host: Host, topic: str, now: float, key: str | None = None, body: bytes = b""
    ) -> Publication:
        """The next event of a publisher's life."""
        life = (host.address, host.process.life)
        n = self._published[life] = self._published.get(life, 0) + 1
        return Publication(host.address, host.process.life, n, topic, body, published_at=now, key=key)

    def audience(self, topics: tuple[str, ...]) -> list[str]:
        """Who listens to any of these topics, each once."""
        found = {name: None for topic in topics for name in self.listeners.get(topic, ())}
        for pattern, listeners in self.listeners.items():
            if is_pattern(pattern) and any(matches(pattern, topic) for topic in topics):
                found |= listeners
        return list(found)

    def is_cut(self, one: str, other: str, now: float) -> bool:
        """Whether a partition separates two processes, or a process and a place."""
        return any(p.at <= now < p.until and (one in p.side) != (other in p.side) for p in self.partitions)

    def nodes(self) -> list[tuple[Process, ManagerNode]]:
        """The nodes that are up."""
        return [
            (host.process, host.links.engine)
            for host in self.hosts.values()
            if isinstance(host.links.engine, ManagerNode)
        ]

    def members(self) -> list[tuple[Process, Member]]:
        """The members that are up."""
        engines = [(host.process, host.links.engine) for host in self.hosts.values()]
        alone = [(process, e.inner if isinstance(e, Peers) else e) for process, e in engines]
        return [(process, engine) for process, engine in alone if isinstance(engine, Member)]

    def publisher_engines(self) -> list[Publisher]:
        """The publishers that are up, and the voices of members."""
        return [host.links.engine for host in self.hosts.values() if isinstance(host.links.engine, Publisher)]

    def pick_node(self, random: Random) -> Host | None:
        """Any node that is up."""
        up = [self.hosts[process.name] for process, _ in self.nodes() if not process.is_paused]
        return random.choice(up) if up else None

    def _publisher(self) -> Publisher:
        return self.makers.publisher(causal=self.world.causal, resend_s=self.world.resend_s)

    def _host(self, address: str, process: Process, engine: ManagerNode | Member | Peers | Publisher) -> Host:
        links = self.makers.links(engine, self.world.links, life=process.life)
        host = self.hosts[address] = process.hosts[address] = Host(address, process, links)
        return host


def routes_of(world: MovingWorld) -> Routes | None:
    """The ways between the processes of a world, if it is laid on any ground; trees have who ever asks for a topic."""
    if world.ground is None:
        return None
    from unisono.sim.routes import make_routes  # needs numpy

    wanted: dict[str, dict[str, None]] = {spec.name: {} for spec in world.members}
    for step in world.script:
        if isinstance(step, Want):
            wanted[step.member] |= dict.fromkeys(step.add)
    held = {name: list(topics) for name, topics in wanted.items()}
    return make_routes(world.ground, world.seed, held, world.publishers, {node: node for node in world.nodes})
