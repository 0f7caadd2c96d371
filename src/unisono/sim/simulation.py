"""Runs a world: hands inputs to engines, carries out their effects, and records everything.

First the network does harm; then it heals, and the world runs until nothing happens any more. What must never
happen is judged over all of it: nothing undoes a broken order, so one look at the end sees what a look at
every step would have seen. What must happen at last is judged at the end too, and only where it is promised.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from unisono.engines import effects as fx
from unisono.engines.inputs import TICK, Input, Notified, Publish
from unisono.engines.links import Arrived, LinkEffect, Transmit
from unisono.engines.plan import Plan
from unisono.history import Record
from unisono.model.frames import Heartbeat, Notification, Packet, Run, Stamped
from unisono.sim.cluster import Cluster, Host, routes_of
from unisono.sim.kernel import Kernel
from unisono.sim.network import Network, Weather
from unisono.sim.notation import show_effect, show_input
from unisono.sim.recorder import Recorder
from unisono.sim.sizes import notification_bytes, packet_bytes
from unisono.sim.world import Burst, SubscriberSpec, World, process_of, voice_of

if TYPE_CHECKING:
    from unisono.sim.routes import Routes

HORIZON_S = 30.0  # after healing; a world that is busy for longer is stuck
STEPS_MAX = 200_000
TELL_STEPS = 4_096  # how often whoever watches is told the time


class Arrival(NamedTuple):
    """A packet reaches its address."""

    source: str
    to: str
    packet: Packet


class Notice(NamedTuple):
    """A notification reaches a subscriber."""

    to: str
    notification: Notification


class Wake(NamedTuple):
    """A timer runs out."""

    address: str
    at: float


class Join(NamedTuple):
    """A subscriber joins."""

    spec: SubscriberSpec


class Heal(NamedTuple):
    """The network stops losing things."""


Occurrence: TypeAlias = Arrival | Notice | Wake | Join | Burst | Weather | Heal


class Ending(msgspec.Struct, frozen=True):
    """How a simulation ended: its history, what went wrong outside of it, and its trace."""

    records: list[Record]
    is_quiet: bool  # whether it came to rest before the horizon
    faults: tuple[str, ...]  # broken invariants and things no engine should have refused
    unacknowledged: int
    steps: int
    lines: list[str]  # one for each step, if they were asked for

    @property
    def digest(self) -> str:
        """What two runs of one seed must have in common."""
        return sha256("\n".join(self.lines).encode()).hexdigest()


class Simulation:
    """One run of one world."""

    def __init__(
        self,
        world: World,
        *,
        traces: bool = False,
        steps_max: int = STEPS_MAX,
        routes: Routes | None = None,
        plan: Plan | None = None,
        horizon_s: float = HORIZON_S,
        recorder: Recorder | None = None,
        checks: bool = True,
    ) -> None:
        """`routes`: ways other than those of the world's ground; `plan`: the world's, if it is known already;

        `checks`: whether engines' invariants are looked at.
        """
        self.world = world
        self.steps_max = steps_max
        self.horizon_s = horizon_s
        self.checks = checks
        self.kernel: Kernel[Occurrence] = Kernel()
        self.cluster = Cluster(world, plan)
        self.recorder = recorder or Recorder(world.order)
        # Each kind of chance has a source of its own, so that changing one leaves the others as they were.
        self.packets = Network(world.packets, Random(f"{world.seed} packets"))
        self.notifications = Network(world.notifications, Random(f"{world.seed} notifications"))
        self.routes = routes or routes_of(world)
        self.replies = Random(f"{world.seed} replies")
        self.replies_left = world.replies_max
        self.specs = {spec.name: spec for spec in world.subscribers}
        self.active_at = 0.0  # when something other than a heartbeat was last done
        self.faults: list[str] = []
        self.settle_s = world.settle_s
        self.steps = 0
        self.traces = traces
        self.lines: list[str] = []
        for spec in world.subscribers:
            self.kernel.schedule(spec.joins_at, Join(spec))
        for burst in world.bursts:
            self.kernel.schedule(burst.at, burst)
        for weather in world.weather:
            self.kernel.schedule(weather.at, weather)
        self.kernel.schedule(world.heals_at, Heal())

    def run(self, tell: Callable[[float], object] | None = None) -> Ending:
        """Run until nothing happens any more, or the horizon is reached; now and then tell what time it is."""
        is_quiet = False
        while not self.faults and self.steps < self.steps_max:
            next_time = self.kernel.next_time()
            if next_time is None or next_time > self._rests_at():
                is_quiet = True
                break
            if next_time > self.world.heals_at + self.horizon_s:
                break
            self._happen(self.kernel.advance())
            if tell is not None and not self.steps % TELL_STEPS:
                tell(self.kernel.now)
        self._record_held()
        return Ending(
            self.recorder.records,
            is_quiet,
            tuple(self.faults),
            len(self.cluster.unacknowledged()),
            self.steps,
            self.lines,
        )

    def _rests_at(self) -> float:
        return max(self.active_at, self.world.heals_at) + self.settle_s

    # Occurrences.

    def _happen(self, occurrence: Occurrence) -> None:
        match occurrence:
            case Arrival(source, to, packet):
                self._step(self.cluster.hosts[to], Arrived(source, packet))
            case Notice(to, notification):
                self._step(self.cluster.hosts[to], Notified(notification))
            case Wake(address, at):
                self._wake(self.cluster.hosts[address], at)
            case Burst():
                self._publish(occurrence)
            case Join(spec):
                self._join(spec)
            case Weather(_, packets, notifications, perturbation):
                self.packets.change(packets)
                self.notifications.change(notifications)
                if self.routes is not None:
                    self.routes.perturb(perturbation)
                self._trace("world", "changes its networks", [])
            case Heal():
                self.packets.heal()
                self.notifications.heal()
                if self.routes is not None:
                    self.routes.heal()
                self.recorder.healed(self.kernel.now)
                self._trace("world", "heals", [])

    def _wake(self, host: Host, at: float) -> None:
        if host.wakes_at != at:
            return  # an earlier timer has taken its place
        host.wakes_at = None
        due = host.links.next_timer()
        if due is not None and due <= at:
            self._step(host, TICK)
        else:
            self._set_timer(host)

    def _publish(self, burst: Burst) -> None:
        now, process, body = self.kernel.now, process_of(burst.publisher), bytes(burst.size_bytes)
        host = self.cluster.publisher_host(burst.publisher, process)
        publications = [self.cluster.publication(burst.publisher, topic, now, body) for topic in burst.topics]
        for publication in publications:
            self.recorder.published(process, publication, now)
        self._step(host, Publish(publications))

    def _join(self, spec: SubscriberSpec) -> None:
        now = self.kernel.now
        floors = self.cluster.join(spec)
        for topic, floor in floors.items():
            self.recorder.subscribed(spec.name, topic, floor, now, spec.settings.on_gap)
        if self.traces:
            self._trace(spec.name, f"joins {' '.join(f'{t}#{n}' for t, n in floors.items())}", [])

    def _step(self, host: Host, input: Input | Arrived) -> None:
        self.steps += 1
        effects = host.links.handle(input, self.kernel.now)
        if self.checks:
            self._check(host)
        if self.traces:
            self._trace(host.address, show_input(input), effects)
        for effect in effects:
            self._carry_out(host, effect)
        self._set_timer(host)

    def _check(self, host: Host) -> None:
        try:
            host.links.check()
        except AssertionError as error:
            self.faults.append(f"{host.address} breaks an invariant: {error}")

    def _set_timer(self, host: Host) -> None:
        due = host.links.next_timer()
        if due is not None and (host.wakes_at is None or due < host.wakes_at):
            host.wakes_at = max(due, self.kernel.now)
            self.kernel.schedule(host.wakes_at, Wake(host.address, host.wakes_at))

    def _trace(self, address: str, happened: str, effects: list[LinkEffect]) -> None:
        if self.traces:
            done = "".join(f" | {show_effect(effect)}" for effect in effects)
            self.lines.append(f"{self.kernel.now:.6f} {address} {happened}{done}")

    # Effects.

    def _carry_out(self, host: Host, effect: LinkEffect) -> None:
        now = self.kernel.now
        if not (isinstance(effect, fx.Announce) and isinstance(effect.notification, Heartbeat)):
            self.active_at = now
        match effect:
            case Transmit(to, packet):
                self._transmit(host, to, packet)
            case fx.Announce():
                self._announce(host, effect)
            case fx.Deliver(events, in_order):
                for event in events:
                    self._deliver(host, event, in_order)
            case fx.DeliverRun(run, places):
                for place in range(len(run)) if places is None else places:
                    self._deliver(host, run.stamped(place), True)
            case fx.Drop(event, reason):
                self.recorder.dropped(host.process, event, now, reason)
            case fx.Lose(topic, numbers):
                for number in numbers:
                    self.recorder.lost(host.process, topic, number, now)
            case fx.Reject(error):
                self._reject(host, str(error))
            case fx.Fail(error):
                self._fail(host, str(error))

    def _transmit(self, host: Host, to: str, packet: Packet) -> None:
        now = self.kernel.now
        arrival = Arrival(host.address, to, packet)
        if self.cluster.hosts[to].process == host.process:
            self.kernel.schedule(now, arrival)  # within a process nothing is lost
            return
        if self.routes is not None:
            size = packet_bytes(packet) if self.routes.is_narrow else 0
            now += self.routes.packet_s(host.process, self.cluster.hosts[to].process, size)
        for time in self.packets.arrivals(host.address, to, now):
            self.kernel.schedule(time, arrival)

    def _announce(self, host: Host, announce: fx.Announce) -> None:
        now, notification = self.kernel.now, announce.notification
        if isinstance(notification, Stamped):
            self.recorder.sequenced(host.process, notification, now)
        elif isinstance(notification, Run):
            for place in range(len(notification)):
                self.recorder.sequenced(host.process, notification.stamped(place), now)
        audience = self.cluster.audience(announce.topics)
        if self.routes is None:
            starts = [now] * len(audience)
        else:
            size = notification_bytes(notification) if self.routes.is_narrow else 0
            starts = [now + s for s in self.routes.notices_s(host.process, announce.topics, audience, size)]
        for name, start in zip(audience, starts, strict=True):
            for time in self.notifications.arrivals("", name, start):
                self.kernel.schedule(time, Notice(name, notification))

    def _deliver(self, host: Host, event: Stamped, in_order: bool) -> None:
        self.recorder.delivered(host.process, event, self.kernel.now, in_order)
        spec = self.specs[host.address]
        if spec.replies and self.replies_left and self.replies.random() < spec.replies:
            self.replies_left -= 1
            topic = self.replies.choice(self.world.topics)
            self.kernel.schedule(self.kernel.now, Burst(self.kernel.now, voice_of(spec.name), (topic,)))

    def _reject(self, host: Host, why: str) -> None:
        spec = self.specs.get(host.address)
        # A hold-back of a few events refuses what is further ahead, and asks for it again later.
        if spec is None or spec.settings.hold_max > 100:
            self.faults.append(f"{host.address} rejects: {why}")

    def _fail(self, host: Host, why: str) -> None:
        spec = self.specs.get(host.address)
        if spec is None or spec.settings.on_gap != "fail":
            self.faults.append(f"{host.address} fails: {why}")
            return
        for topic in spec.topics:
            self.recorder.unsubscribed(host.process, topic, self.kernel.now, why)

    def _record_held(self) -> None:
        for name, subscriber in self.cluster.subscribers.items():
            if not subscriber.failed:
                for held in subscriber.held:
                    missing = f"waits for {subscriber.blocker(held.event)}"
                    self.recorder.held(name, held.event, self.kernel.now, missing)
