"""The stage of a moving world: engines are called here, and their effects carried out."""

from __future__ import annotations

from collections import Counter
from random import Random

from unisono.engines import effects as fx
from unisono.engines.inputs import Input, Publish
from unisono.engines.links import Arrived, LinkEffect, Transmit
from unisono.engines.takeover.control import Control
from unisono.model.errors import GapError, LeaseError, QuotaError, UnisonoError
from unisono.model.frames import Entries, Notification, Packet, Sequenced, Stamped
from unisono.model.lanes import BundleRecord
from unisono.sim.kernel import Kernel
from unisono.sim.moving.cluster import Cluster, routes_of
from unisono.sim.moving.occurrences import (
    Answered,
    Arrival,
    Asked,
    Notice,
    Occurrence,
    Reply,
    Sender,
    StoredLate,
    Wake,
    Watch,
)
from unisono.sim.moving.past import unreadable
from unisono.sim.moving.processes import Host, Makers, Process
from unisono.sim.moving.ranker import Ranker
from unisono.sim.moving.storage import Answer, Request, Storage, StorageRoute
from unisono.sim.moving.views import viewed
from unisono.sim.moving.world import SERVICE, STORE, MovingWorld
from unisono.sim.network import Network
from unisono.sim.notation import show_control, show_effect, show_input
from unisono.sim.recorder import Recorder
from unisono.sim.sizes import notification_bytes, packet_bytes


class Stage:
    """The engines of a world and everything around them; what happens on it, others decide."""

    def __init__(self, world: MovingWorld, makers: Makers, *, traces: bool) -> None:
        self.world = world
        self.kernel: Kernel[Occurrence] = Kernel()
        self.cluster = Cluster(world, makers)
        self.storage = Storage(self.cluster.first_control())
        self.rank = self.storage.control.plan.rank
        self.owner, self.nodes = self.storage.control.owner, set(self.storage.control.nodes)
        self.ranker = Ranker(self.storage.control.plan)
        self.recorder = Recorder(world.order)
        # Each kind of chance has a source of its own, so that changing one leaves the others as they were.
        self.packets = Network(world.packets, Random(f"{world.seed} packets"))
        self.notifications = Network(world.notifications, Random(f"{world.seed} notifications"))
        self.routes = routes_of(world)
        self.route = StorageRoute(world.storage, Random(f"{world.seed} storage"))
        self.replies = Random(f"{world.seed} replies")
        self.random = Random(f"{world.seed} rest")
        self.doomed: set[Sender] = set()  # lives whose last words are lost
        self.admitted: dict[str, dict[str, int]] = {}  # member life -> topic -> floor
        self.promised: dict[
            tuple[str, str], float
        ] = {}  # (member life, pattern) -> since when nothing is missed
        self.viewed: dict[int, list[frozenset[str]]] = {}  # epoch -> the topics of each view
        self.refused: set[str] = set()  # events that will never have a place
        self.acknowledged: dict[str, Sequenced] = {}
        self.keys: dict[str, str] = {}  # event -> the key it was published with
        self.replies_left = world.replies_max
        self.faults: list[str] = []
        self.facts: Counter[str] = Counter()
        self.steps = 0
        self.checks = True  # whether invariants are looked at after every step
        self.traces = traces
        self.lines: list[str] = []

    # Engines.

    def _step(self, host: Host, input: Input | Arrived) -> None:
        self.steps += 1
        effects = host.links.handle(input, host.now(self.kernel.now))
        if self.checks:
            self._check_invariants(host)
        if self.traces:
            self._trace(host.address, show_input(input), effects)
        for effect in effects:
            self._carry_out(host, effect)
        self._set_timer(host)

    def _check_invariants(self, host: Host) -> None:
        try:
            host.links.check()
        except AssertionError as error:
            self.faults.append(f"{host.address} breaks an invariant: {error}")

    def _set_timer(self, host: Host) -> None:
        due = host.due()
        if due is not None and (host.wakes_at is None or due < host.wakes_at):
            host.wakes_at = max(due, self.kernel.now)
            self.kernel.schedule(host.wakes_at, Wake(host.address, host.wakes_at))

    def _trace(self, address: str, happened: str, effects: list[LinkEffect] | None = None) -> None:
        if self.traces:
            done = "".join(f" | {show_effect(effect)}" for effect in effects or ())
            self.lines.append(f"{self.kernel.now:.6f} {address} {happened}{done}")

    # Effects.

    def _carry_out(self, host: Host, effect: LinkEffect) -> None:
        now, process = self.kernel.now, host.process
        match effect:
            case Transmit(to, packet):
                self._transmit(host, to, packet)
            case fx.Announce(topics, notification):
                self._announce(process, topics, notification)
            case fx.Append() | fx.Read() | fx.Truncate() | fx.Decide() | fx.Look():
                self._request(process, effect)
            case fx.Listen(topics):
                for topic in topics:
                    self.cluster.listeners.setdefault(topic, {})[host.address] = None
            case fx.Ignore(topics):
                self._ignore(host, topics)
            case fx.Admit(floors):
                self._admit(host, floors)
            case fx.Confirm(patterns):
                self._confirm(host, patterns)
            case fx.Refuse(id, error):
                self.facts["refused events"] += 1
                self.refused.add(str(id))
            case fx.Deliver(events, in_order):
                for event in events:
                    self._deliver(host, event, in_order)
            case fx.DeliverRun():
                self.facts["delivered runs"] += 1
                for event in effect.events:
                    self._deliver(host, event, True)
            case fx.AcknowledgeRun():
                for sequenced in effect.answers:
                    self.acknowledged.setdefault(str(sequenced.id), sequenced)
            case fx.Acknowledge(sequenced):
                self.acknowledged[str(sequenced.id)] = sequenced
                self.facts["repeated keys"] += sequenced.repeated
            case fx.Drop(event, reason):
                self.recorder.dropped(process.label, event, now, reason)
            case fx.Lose(topic, numbers):
                for number in numbers:
                    self.recorder.lost(process.label, topic, number, now)
            case fx.Reject(error):
                self.faults.append(f"{host.address} rejects: {error}")
            case fx.Fail(error):
                self._fail(host, error)

    def _transmit(self, host: Host, to: str, packet: Packet) -> None:
        now, process = self.kernel.now, host.process
        target = self.cluster.hosts.get(to)
        arrival = Arrival(_life(process), host.address, to, packet)
        if target is None:
            return
        if target.process is process:
            self.kernel.schedule(now, arrival)  # within a process nothing is lost
        elif not self.cluster.is_cut(process.name, target.process.name, now):
            if self.routes is not None:
                size = packet_bytes(packet) if self.routes.is_narrow else 0
                now += self.routes.packet_s(process.name, target.process.name, size)
            for time in self.packets.arrivals(host.address, to, now):
                self.kernel.schedule(time, arrival)

    def _announce(self, process: Process, topics: tuple[str, ...], notification: Notification) -> None:
        now = self.kernel.now
        if self.cluster.is_cut(process.name, SERVICE, now):
            return
        audience = self.cluster.audience(topics)
        members = [self.cluster.hosts[address].process.name for address in audience]
        starts = [now] * len(audience)
        if self.routes is not None:
            size = notification_bytes(notification) if self.routes.is_narrow else 0
            starts = [now + s for s in self.routes.notices_s(process.name, topics, members, size)]
        for address, member, start in zip(audience, members, starts, strict=True):
            if not self.cluster.is_cut(member, SERVICE, now):
                for time in self.notifications.arrivals("", address, start):
                    self.kernel.schedule(time, Notice(_life(process), address, notification))

    def _deliver(self, host: Host, event: Stamped, in_order: bool) -> None:
        self.facts["deliveries"] += 1
        self.cluster.place(host.process.name).move(event)
        self.recorder.delivered(host.process.label, event, self.kernel.now, in_order)
        spec = self.cluster.specs[host.process.name]
        if spec.replies and self.replies_left and self.replies.random() < spec.replies:
            self.replies_left -= 1
            topic = self.replies.choice(self.world.named)
            self.kernel.schedule(self.kernel.now, Reply(_life(host.process), topic))

    def _admit(self, host: Host, floors: Entries) -> None:
        settings = self.cluster.specs[host.process.name].settings
        for topic, floor in sorted(floors.items()):
            self.admitted.setdefault(host.address, {})[topic] = floor
            self.cluster.place(host.process.name).clock[topic] = floor
            self.recorder.subscribed(host.address, topic, floor, self.kernel.now, settings.on_gap)

    def _confirm(self, host: Host, patterns: tuple[str, ...]) -> None:
        for pattern in patterns:
            self.facts["confirmed patterns"] += 1
            self.promised[host.address, pattern] = self.kernel.now

    def _ignore(self, host: Host, topics: tuple[str, ...]) -> None:
        for topic in topics:
            self.cluster.listeners.get(topic, {}).pop(host.address, None)
            self.promised.pop((host.address, topic), None)
            if self.admitted.get(host.address, {}).pop(topic, None) is not None:
                self.recorder.unsubscribed(host.address, topic, self.kernel.now, "left")

    def _fail(self, host: Host, error: UnisonoError) -> None:
        spec = self.cluster.specs.get(host.process.name)
        if isinstance(error, LeaseError):
            self.facts["leases run out"] += 1
        elif isinstance(error, QuotaError):
            self.facts["quotas met"] += 1
        elif isinstance(error, GapError) and spec is not None and (spec.start or spec.durable):
            self.facts["named gaps"] += 1
        elif spec is None or spec.settings.on_gap != "fail":
            self.faults.append(f"{host.address} fails: {error}")
            return
        self.facts["failed subscriptions"] += 1
        self._stop(host.process, str(error))

    def _publish(self, host: Host, topics: tuple[str, ...], key: str | None = None, size: int = 0) -> None:
        now, body = self.kernel.now, bytes(size)
        publications = [self.cluster.publication(host, topic, now, key, body) for topic in topics]
        for publication in publications:
            if key is not None:
                self.keys[str(publication.id)] = key
            self.recorder.published(host.process.label, publication, now)
            self.ranker.observe(publication.topic, now)
        self._step(host, Publish(publications))

    def _stop(self, process: Process, why: str) -> None:
        self.promised = {key: at for key, at in self.promised.items() if key[0] != process.label}
        for topic in self.admitted.pop(process.label, {}):
            self.recorder.unsubscribed(process.label, topic, self.kernel.now, why)
        self.cluster.stop(process)

    # Storage.

    def _request(self, process: Process, request: Request) -> None:
        now = self.kernel.now
        at = self.route.there(process.name, now)
        if at is not None and not self.cluster.is_cut(process.name, STORE, now):
            self.kernel.schedule(at, Asked(_life(process), request))

    def _ask(self, sender: Sender, request: Request) -> None:
        """A request is served, and perhaps the answer comes back."""
        if sender in self.doomed or self._is_late(sender, request):
            return
        before = self.storage.control
        if isinstance(request, fx.Append) and isinstance(request.record, BundleRecord):
            self.facts["stored bundles"] += 1
        answer = self.storage.carry_out(request)
        if answer is None:
            self.facts["truncations"] += 1
            return
        if self.storage.control is not before:
            self._changed(before)
        self._answer(sender, answer)

    def _answer(self, sender: Sender, answer: Answer) -> None:
        at = self.route.back(self.kernel.now)
        if at is not None and not self.cluster.is_cut(sender.process, STORE, self.kernel.now):
            self.kernel.schedule(at, Answered(sender, answer))

    def _is_late(self, sender: Sender, request: Request) -> bool:
        """Whether an append that is accepted is stored later; one that is stored now may be stored once more."""
        if not isinstance(request, fx.Append) or not self.storage.accepts(request):
            return False
        now, conditions = self.kernel.now, self.world.storage
        at = self.route.later(now, conditions.late)
        if at is not None:
            self.facts["late appends"] += 1
            self.kernel.schedule(at, StoredLate(sender, request, answers=True))
            return True
        again = self.route.later(now, conditions.twice)
        if again is not None:
            self.facts["doubled appends"] += 1
            self.kernel.schedule(again, StoredLate(sender, request, answers=False))
        return False

    def _changed(self, before: Control) -> None:
        """There is a new control record: tell everybody, sooner or later."""
        control, watch = self.storage.control, self.world.watch
        if self.traces:
            self._trace("store", f"now holds {show_control(control)}")
        if control.state == "sealing":
            self.facts["epochs"] += 1
            self.facts["deleted topics"] += len(set(control.closed) - set(before.closed))
            self.facts["takeovers"] += not set(control.dead) <= set(before.dead)
        else:
            old = [topic for topic in control.plan.rank if topic in self.rank]
            self.facts["re-ranks"] += old != [*self.rank]
            self.facts["new topics"] += len(control.plan.rank) - len(old)
            self.facts["moved topics"] += sum(self.owner.get(t, n) != n for t, n in control.owner.items())
            self.facts["late nodes"] += len(set(control.nodes) - self.nodes)
            self.facts["drained nodes"] += len(self.nodes - set(control.nodes))
            self.facts["views"] += len(control.views)
            split = [len({control.owner[t] for t in tree}) > 1 for tree in control.plan.components()]
            self.facts["components on several nodes"] += sum(split)
            self.viewed[control.epoch] = viewed(control)
            self.rank, self.owner, self.nodes = control.plan.rank, control.owner, set(control.nodes)
            self.ranker.adopt(control.plan, self.kernel.now)
            self.facts["volumes let go"] += _first_epoch(before) != _first_epoch(control)
        self.faults += unreadable(self.storage)
        for process in self.cluster.processes.values():
            if process.is_up:
                delay = watch.latency_s + watch.spread_s * self.random.random()
                self.kernel.schedule(self.kernel.now + delay, Watch(process.name))

    def _record_held(self) -> None:
        for process, member in self.cluster.members():
            for held in member.inner.held:
                waits = f"waits for {member.inner.blocker(held.event)!r}"
                self.recorder.held(process.label, held.event, self.kernel.now, waits)


def _life(process: Process) -> Sender:
    return Sender(process.name, process.life)


def _first_epoch(control: Control) -> int:
    """The first epoch that is kept for those who ask for the past."""
    return control.volumes[0].epoch if control.volumes else 0
