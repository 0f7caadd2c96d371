"""Runs a moving world: lets happen what its script says and what follows from it, until it has come to rest.

First harm is done: processes crash, restart and pause, partitions come and go, storage forgets. Then the world
heals. It has come to rest when everything published by who is alive is acknowledged, every join has ended, every
node serves the newest epoch, and nobody misses anything.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from unisono.engines.inputs import TICK, Change, Controlled, Input, Notified, Received, Suspected
from unisono.engines.links import Arrived
from unisono.engines.takeover.views import view_of
from unisono.model.frames import ANY_EPOCH, Replan
from unisono.sim.moving.ending import Ending
from unisono.sim.moving.occurrences import (
    Answered,
    Arrival,
    Asked,
    Beat,
    Check,
    Heal,
    Notice,
    Occurrence,
    Reply,
    Resume,
    Return,
    Sender,
    StoredLate,
    Wake,
    Watch,
)
from unisono.sim.moving.past import unreadable
from unisono.sim.moving.processes import HONEST, Detector, Host, Makers, Process
from unisono.sim.moving.rest import missed, restless
from unisono.sim.moving.stage import Stage
from unisono.sim.moving.world import (
    STORE,
    Arrive,
    Burst,
    Crash,
    Delete,
    Drain,
    DropView,
    Happening,
    MakeView,
    Move,
    MovingWorld,
    Partition,
    Pause,
    Rerank,
    Suspicion,
    Want,
)
from unisono.sim.network import Weather

HORIZON_S = 25.0  # after healing; a world that has not come to rest by then is stuck
CHECK_S = 0.3
REST_S = 1.2  # longer than any heartbeat: who misses something would have noticed
PATIENCE_S = 0.05
AGAIN_S = 0.4  # how soon an operator asks again
TRIES = 5  # and how often, for what may be refused
STEPS_MAX = 200_000
TELL_STEPS = 4_096  # how often whoever watches is told the time


class Simulation(Stage):
    """One run of one moving world."""

    def __init__(
        self,
        world: MovingWorld,
        makers: Makers = HONEST,
        *,
        traces: bool = False,
        steps_max: int = STEPS_MAX,
        horizon_s: float = HORIZON_S,
        checks: bool = True,
    ) -> None:
        """`checks`: whether engines' invariants are looked at."""
        super().__init__(world, makers, traces=traces)
        self.steps_max = steps_max
        self.horizon_s = horizon_s
        self.checks = checks
        self.detector = Detector(world.nodes, world.suspect_s)
        self.healed = False
        self.rests_since: float | None = None
        self.restless: tuple[str, ...] = ("not healed",)
        self._begin()

    def _begin(self) -> None:
        world = self.world
        for name in (*world.nodes, *world.publishers):
            if name not in world.late:
                self._start(name)
        for i, node in enumerate(world.nodes):
            self.kernel.schedule(world.beat_s * (i + 1) / len(world.nodes), Beat(node))
        for happening in world.script:
            self.kernel.schedule(happening.at, happening)
        for weather in world.weather:
            self.kernel.schedule(weather.at, weather)
        self.kernel.schedule(world.heals_at, Heal())

    def run(self, tell: Callable[[float], object] | None = None) -> Ending:
        """Run until the world has come to rest, or the horizon is reached; now and then tell what time it is."""
        end = self.world.heals_at + self.horizon_s
        while not self.faults and self.restless and self.steps < self.steps_max:
            next_time = self.kernel.next_time()
            if next_time is None or next_time > end:
                break
            self._happen(self.kernel.advance())
            if tell is not None and not self.steps % TELL_STEPS:
                tell(self.kernel.now)
        self._record_held()
        for event in self.storage.events():
            self.recorder.sequenced("lanes", event, self.kernel.now)
        self.faults += unreadable(self.storage)
        self.facts["swaps"] = self.ranker.swaps
        return Ending(
            self.recorder.records,
            self.restless,
            tuple(self.faults),
            self.acknowledged,
            self.keys,
            frozenset(self.refused),
            tuple(missed(self.recorder.records, self.storage.events(), self.promised, self.admitted)),
            self.storage.events(),
            self.viewed,
            self.facts,
            self.steps,
            self.lines,
        )

    # Occurrences.

    def _happen(self, occurrence: Occurrence) -> None:
        match occurrence:
            case Arrival(sender, source, to, packet):
                self._reach(self.cluster.hosts.get(to), occurrence, sender, Arrived(source, packet))
            case Notice(sender, to, notification):
                self._reach(self.cluster.hosts.get(to), occurrence, sender, Notified(notification))
            case Asked(sender, request):
                self._ask(sender, request)
            case StoredLate(sender, append, answers):
                answer = self.storage.store(append)
                if answers:
                    self._answer(sender, answer)
            case Answered(sender, answer):
                process = self.cluster.processes[sender.process]
                if process.life == sender.life:
                    self._reach(self.cluster.hosts.get(process.name), occurrence, None, answer)
            case Reply(sender, topic):
                self._reply(sender, topic)
            case Wake(address, at):
                self._wake(address, at)
            case Watch(name):
                self._watch(occurrence, self.cluster.processes[name])
            case Beat(node):
                self._beat(node)
            case Return(name):
                self._trace("world", f"{name} is back")
                self._start(name)
            case Resume(name):
                self._resume(self.cluster.processes[name])
            case Weather(_, packets, notifications, perturbation):
                self.packets.change(packets)
                self.notifications.change(notifications)
                if self.routes is not None:
                    self.routes.perturb(perturbation)
                self._trace("world", "changes its networks")
            case Heal():
                self._heal()
            case Check():
                self._check()
            case _:
                self._scripted(occurrence)

    def _reach(
        self, host: Host | None, occurrence: Occurrence, sender: Sender | None, input: Input | Arrived
    ) -> None:
        """Something comes to a host, unless its sender's last words are lost or nobody is there."""
        if host is None or sender in self.doomed:
            return
        if host.process.is_paused:
            host.process.stash.append(occurrence)
        else:
            self._step(host, input)

    def _wake(self, address: str, at: float) -> None:
        host = self.cluster.hosts.get(address)
        if host is None or host.wakes_at != at or host.process.is_paused:
            return
        host.wakes_at = None
        due = host.due()
        if due is None or due > at:
            self._set_timer(host)
            return
        # Rounding between clocks must not wake anybody a moment before its time.
        host.latest = max(host.latest, host.links.next_timer() or 0.0)
        self._step(host, TICK)

    def _watch(self, watch: Watch, process: Process) -> None:
        if not process.is_up:
            return
        if process.is_paused:
            process.stash.append(watch)
            return
        skipped = not self.healed and self.random.random() < self.world.watch.skip
        if skipped or self.cluster.is_cut(process.name, STORE, self.kernel.now):
            self.kernel.schedule(self.kernel.now + 0.1 + 0.3 * self.random.random(), watch)
            return
        process.told = self.storage.control.version
        for host in list(process.hosts.values()):
            self._step(host, Controlled(self.storage.control))

    def _beat(self, name: str) -> None:
        now = self.kernel.now
        self.kernel.schedule(now + self.world.beat_s * (0.9 + 0.2 * self.random.random()), Beat(name))
        process = self.cluster.processes[name]
        if not process.is_up or process.is_paused:
            return
        reached = [
            other.name
            for other, _ in self.cluster.nodes()
            if not other.is_paused and not self.cluster.is_cut(name, other.name, now)
        ]
        self.detector.beat(name, reached, now)
        for suspect in self.detector.suspects(name, now):
            self._step(self.cluster.hosts[name], Suspected(suspect))
        if self.world.ranking and not self.healed and name == self.storage.control.leader:
            rank = self.ranker.wish(now)
            if rank is not None:
                replan = Replan(self.storage.control.epoch, (), rank)
                self._ask_a_node(replan, self.cluster.hosts[name])

    def _heal(self) -> None:
        self.healed = self.route.healed = True
        self.packets.heal()
        self.notifications.heal()
        if self.routes is not None:
            self.routes.heal()
        self.recorder.healed(self.kernel.now)
        self._trace("world", "heals")
        self.kernel.schedule(self.kernel.now, Check())

    def _check(self) -> None:
        now = self.kernel.now
        reasons = tuple(restless(self.cluster, self.storage))
        if reasons:
            self.rests_since, self.restless = None, reasons
        else:
            self.rests_since = now if self.rests_since is None else self.rests_since
            self.restless = () if now - self.rests_since >= REST_S else ("it has just come to rest",)
        self.kernel.schedule(now + CHECK_S, Check())

    # What the script says.

    def _scripted(self, happening: Happening) -> None:
        self._trace("world", str(happening))
        match happening:
            case Burst(_, publisher, topics, key, size):
                process = self.cluster.processes[publisher]
                if process.is_paused:
                    process.stash.append(happening)
                elif process.is_up and not process.told:  # nobody publishes before the bus is there
                    self.kernel.schedule(self.kernel.now + PATIENCE_S, happening)
                elif process.is_up:
                    self._publish(self.cluster.hosts[publisher], topics, key, size)
            case Want():
                self._want(happening)
            case Crash(_, name, keeps_output, back_at):
                self._crash(self.cluster.processes[name], keeps_output, back_at)
            case Pause(_, name, until):
                process = self.cluster.processes[name]
                if process.is_up and not process.is_paused:
                    process.is_paused = True
                    self.facts["pauses"] += 1
                    self.kernel.schedule(until, Resume(name))
            case Partition():
                self.facts["partitions"] += 1
                self.cluster.partitions.append(happening)
            case Suspicion(_, by, node):
                host = self.cluster.hosts.get(by)
                if host is not None and not host.process.is_paused:
                    self.facts["suspicions"] += 1
                    self._step(host, Suspected(node))
            case Rerank(_, rank):
                self._ask_a_node(Replan(self.storage.control.epoch, (), rank))
            case Move(_, topic, node):
                self._ask_a_node(Replan(ANY_EPOCH, moves={topic: node}))
            case Arrive(_, node):
                if not self.cluster.processes[node].life:
                    self._start(node)
            case Drain(_, node):
                self._drain(happening)
            case MakeView(_, name, names, tries) if name not in self.storage.control.views:
                self._ask_a_node(Replan(ANY_EPOCH, view=view_of(name, names)))
                self._ask_again(happening, tries)
            case DropView(_, name, tries) if name in self.storage.control.views:
                self._ask_a_node(Replan(ANY_EPOCH, drop_view=name))
                self._ask_again(happening, tries)
            case Delete(_, topic, tries) if topic not in self.storage.control.closed:
                self._ask_a_node(Replan(ANY_EPOCH, close=(topic,)))
                self._ask_again(happening, tries)

    def _ask_again(self, happening: MakeView | DropView | Delete, tries: int) -> None:
        if tries < TRIES:
            again = msgspec.structs.replace(happening, tries=tries + 1)
            self.kernel.schedule(self.kernel.now + AGAIN_S, again)

    def _ask_a_node(self, replan: Replan, node: Host | None = None) -> None:
        """Whoever watches popularity, and whoever operates nodes, asks through one of them."""
        asked = node or self.cluster.pick_node(self.random)
        if asked is not None:
            self._step(asked, Received(asked.address, replan))

    def _drain(self, drain: Drain) -> None:
        control, process = self.storage.control, self.cluster.processes[drain.node]
        is_last = control.live == (drain.node,)
        if process.is_up and drain.node in control.nodes and not is_last:
            self._ask_a_node(Replan(ANY_EPOCH, leaving=drain.node))
            self.kernel.schedule(self.kernel.now + AGAIN_S, drain)

    def _reply(self, sender: Sender, topic: str) -> None:
        process = self.cluster.processes[sender.process]
        if not process.is_up or process.life != sender.life:
            return
        voice = self.cluster.voice(process)
        self._step(voice, Controlled(self.storage.control))
        self._publish(voice, (topic,))

    def _want(self, want: Want) -> None:
        process, wanted = self.cluster.processes[want.member], self.cluster.wanted[want.member]
        if process.is_paused:
            process.stash.append(want)
            return
        wanted.difference_update(want.remove)
        wanted.update(want.add)
        if not process.life:
            self._start(want.member)
        elif process.is_up:
            self.facts["changes"] += 1
            self._step(self.cluster.hosts[process.label], Change(want.add, want.remove))

    def _crash(self, process: Process, keeps_output: bool, back_at: float | None) -> None:
        if not process.is_up:
            return
        self.facts["crashes"] += 1
        if not keeps_output:
            self.doomed.add(Sender(process.name, process.life))
        self._stop(process, "crashed")
        if back_at is not None:
            self.kernel.schedule(back_at, Return(process.name))

    def _start(self, name: str) -> None:
        host = self.cluster.start(name)
        self.route.forget(name)
        if name in self.world.nodes:
            self.detector.forget(name)
        self.kernel.schedule(self.kernel.now, Watch(name))
        if name in self.cluster.specs:
            self._step(host, Change(tuple(sorted(self.cluster.wanted[name]))))

    def _resume(self, process: Process) -> None:
        if not process.is_up or not process.is_paused:
            return
        self._trace("world", f"{process.name} goes on")
        process.is_paused = False
        stash, process.stash = process.stash, []
        for host in process.hosts.values():
            host.wakes_at = None
            self._set_timer(host)
        for occurrence in stash:
            self._happen(occurrence)
