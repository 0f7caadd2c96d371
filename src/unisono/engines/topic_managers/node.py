"""A node: topic managers that live together, their lane, and the epochs they go through.

Managers on one node call each other; managers on others are reached through their node. What the last manager
of a path emits is stored in this node's lane first, and published, acknowledged and freed only then. A node
serves one epoch at a time: what belongs to an earlier one is dropped, what belongs to a later one waits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from unisono.engines.effects import Announce, Decide, Effect, Look, Read, Reject, Send
from unisono.engines.inputs import (
    Appended,
    Controlled,
    Input,
    Lost,
    ReadBack,
    Received,
    Suspected,
    Tick,
)
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.finisher import Finisher
from unisono.engines.takeover.planner import Planner
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.writer import LaneWriter, Written, is_sealed
from unisono.engines.topic_managers.addresses import topic_of
from unisono.engines.topic_managers.emitter import Emitter
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.routing import (
    ToManager,
    epoch_of,
    is_request,
    stored_events,
    without_ring,
)
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.errors import FrameError
from unisono.model.frames import (
    Create,
    Done,
    EpochNotice,
    Fill,
    Join,
    Joined,
    Message,
    Nack,
    Prepare,
    Prepared,
    Replan,
    Report,
    Routed,
    Stamped,
)
from unisono.model.lanes import EpochRecord, EventRecord, JoinRecord, LaneRecord

NOTICES_MAX = 256  # epochs a subscriber may be behind


class ManagerNode:
    """One life of one node; a node that restarts is a new one and resumes no epoch."""

    def __init__(
        self,
        name: str,
        settings: NodeSettings = NodeSettings(),
        managers: ManagerSettings = ManagerSettings(ring_events=1024),
        *,
        restarted: bool = False,
    ) -> None:
        """`restarted`: an earlier life may have served the epoch we find; then the first control record
        handed in must have been read since."""
        self.name = name
        self.spoiled: int | None = -1 if not restarted else None  # up to here no epoch is served
        self.settings = settings
        # The managers keep nothing for repair: what counts is what the node has stored.
        self.manager_settings = without_ring(managers)
        self.control: Control | None = None
        self.epoch = -1  # the epoch this node serves; -1: none yet
        self.managers: dict[str, TopicManager] = {}
        self.writer: LaneWriter | None = None
        self.emitter = Emitter(managers, 0)
        self.notices: dict[int, EpochNotice] = {}
        self.planner = Planner(name, settings)
        self.finisher: Finisher | None = None
        self.finish_at: float | None = None
        self.adopting: dict[str, tuple[tuple[LaneRecord, ...], int]] | None = None
        self.look_at: float | None = None
        self.planner_of: str | None = None  # who asked us to prepare
        self.frozen_until: float | None = None
        self.waiting: list[Routed] = []  # requests that came while frozen
        self.early: list[Routed] = []  # what belongs to an epoch that has not begun here
        self._then: dict[int, list[Effect]] = {}  # what follows when a record is stored, by index

    # The contract.

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        effects = self._handle(input, now)
        return effects + self._prepared_if_done()

    def _handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Received(_, Routed() as routed):
                return self._routed(routed, now)
            case Received(_, Prepare(epoch, planner)):
                return self._prepare(epoch, planner, now)
            case Received(_, Prepared() | Replan()) if self.control is None:
                return []  # meant for an earlier life; whoever still wants it will ask again
            case Received(_, Prepared(epoch, node)) if self.control is not None:
                return self.planner.prepared(node, epoch, self.control, now)
            case Received(_, Replan() as replan) if self.control is not None:
                return self.planner.request(replan, self.control, now)
            case Received(_, Report() as report):
                return self._report(report, now)
            case Controlled(control):
                return self._controlled(control, now)
            case Appended(lane, record, sequence):
                return self._appended(lane, record, sequence, now)
            case ReadBack(lane, records, tail):
                return self._read_back(lane, records, tail, now)
            case Suspected(node):
                return self._suspected(node, now)
            case Lost(_, messages):
                return self._lost(messages, now)
            case Tick():
                return self._tick(now)
        return [Reject(FrameError(f"node '{self.name}' cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """When something is to be repeated, given up, or told again."""
        times = [
            self.emitter.next_timer(),
            self.planner.decide_at,
            self.finish_at,
            self.look_at,
            self.frozen_until,
        ]
        if self.writer is not None and self.writer.waits_since is not None:
            times.append(self.writer.waits_since + self.settings.append_s * self.writer.patience)
        return min((time for time in times if time is not None), default=None)

    def _tick(self, now: float) -> list[Effect]:
        effects = self.emitter.heartbeats(now)
        if self.control is not None:
            effects += self.planner.tick(self.control, now)
        if self.finish_at is not None and self.finish_at <= now:
            effects += self._finish(now)
        if self.look_at is not None and self.look_at <= now:
            self.look_at = now + self.settings.look_s
            effects += [Look(), *self._come_back(), *self._begin_again(now)]
            if self.adopting is not None and self.control is not None:
                effects += [Read(lane) for lane in self._lanes() if lane not in self.adopting]
        if self.frozen_until is not None and self.frozen_until <= now:
            effects += self._thaw(now)
        if self.writer is not None and self.writer.waits_since is not None:
            silent = self.writer.waits_since + self.settings.append_s * self.writer.patience <= now
            effects += self.writer.give_up_waiting(now) if silent else []
        return effects

    # Messages for managers.

    def _routed(self, routed: Routed, now: float) -> list[Effect]:
        message = routed.message
        if isinstance(message, Nack):
            return self._repair(message)
        epoch = epoch_of(message)
        if epoch is not None and epoch < self.epoch:
            return []
        if epoch is not None and epoch > self.epoch:
            return self._keep(self.early, routed, [Look()])
        if self.frozen_until is not None and is_request(message):
            return self._keep(self.waiting, routed, [])
        return self._local(routed.topic, message, now)

    def _keep(self, where: list[Routed], routed: Routed, effects: list[Effect]) -> list[Effect]:
        if len(where) < self.settings.queue_max:  # whoever asks will ask again
            where.append(routed)
        return effects

    def _local(self, topic: str, message: ToManager, now: float) -> list[Effect]:
        """Hand a message to a manager that lives here, and go on with what it answers."""
        manager = self.managers.get(topic)
        if manager is None or self.writer is None or self.writer.state == "stopped":
            return []  # whoever sent it will look for the owner and send it again
        effects = manager.handle(Received(self.name, message), now)
        if isinstance(message, Done):
            self.emitter.keep(message.event, now)
        match message, effects:
            case Join(), [Send(_, Joined() as joined)]:
                return self._store_join(message, joined, effects, now)
        return self._carry_on(effects, now)

    def _carry_on(self, effects: list[Effect], now: float) -> list[Effect]:
        """Reach other managers; store an event before anything else is done about it."""
        out: list[Effect] = []
        for i, effect in enumerate(effects):
            if isinstance(effect, Announce) and isinstance(effect.notification, Stamped):
                return out + self._store_event(effect.notification, effects[i:], now)
            out += self._reach(effect, now)
        return out

    def _reach(self, effect: Effect, now: float) -> list[Effect]:
        topic = topic_of(effect.to) if isinstance(effect, Send) else None
        if not isinstance(effect, Send) or topic is None:
            return [effect]
        message = effect.message
        assert isinstance(message, Create | Fill | Done | Join | Nack)
        assert self.control is not None
        owner = self.control.owner[topic]
        if owner == self.name:
            return self._local(topic, message, now)
        return [Send(owner, Routed(topic, message))]

    def _store_event(self, event: Stamped, then: list[Effect], now: float) -> list[Effect]:
        return self._store(lambda index: EventRecord(self.epoch, index, event), then, now)

    def _store_join(self, join: Join, joined: Joined, then: list[Effect], now: float) -> list[Effect]:
        assert self.writer is not None
        for record in self.writer.unconfirmed.values():
            if isinstance(record, JoinRecord) and record.registration == join.registration:
                return []  # sent again while it is being stored: the first will be answered
        return self._store(
            lambda index: JoinRecord(self.epoch, index, join.registration, joined.reached), then, now
        )

    def _store(self, make: Callable[[int], Written], then: list[Effect], now: float) -> list[Effect]:
        assert self.writer is not None
        effects = self.writer.append(make, now)
        self._then[self.writer.made] = then
        return effects

    def _stored(self, records: list[Written], now: float) -> list[Effect]:
        """Records are safe: now their events are published, acknowledged and freed."""
        effects: list[Effect] = []
        for record in records:
            for effect in self._then.pop(record.index, ()):
                effects += self._reach(effect, now)
        return effects

    # Lanes.

    def _appended(self, lane: str, record: LaneRecord, sequence: int | None, now: float) -> list[Effect]:
        if isinstance(record, EventRecord | JoinRecord):
            if self.writer is None or lane != self.writer.lane:
                return []
            confirmed, effects = self.writer.answered(record, sequence, now)
            return self._stored(confirmed, now) + effects
        if self.finisher is not None and sequence is not None:
            return self.finisher.appended(lane, record)
        return []

    def _read_back(self, lane: str, records: tuple[LaneRecord, ...], tail: int, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self.writer is not None and lane == self.writer.lane and self.adopting is None:
            effects += self.writer.read_back(records, tail, now)
            if self.writer.state == "stopped":
                self._retire(now)
                effects.append(Look())
        if self.finisher is not None:
            effects += self.finisher.read_back(lane, records)
        if self.adopting is not None and self._is_fresh(lane, records):
            self.adopting[lane] = (records, tail)
            effects += self._adopt_if_read(now)
        return effects

    def _is_fresh(self, lane: str, records: tuple[LaneRecord, ...]) -> bool:
        """Whether a lane was read after our epoch began in it; an answer to an older question tells too little."""
        control = self.control
        assert control is not None
        if not control.sealed or lane not in {*control.sealed, *control.lanes}:
            return True
        return any(isinstance(record, EpochRecord) and record.epoch >= control.epoch for record in records)

    # Epochs.

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        if self.control is not None and control.version <= self.control.version:
            return []
        self.control = control
        if self.spoiled is None:
            self.spoiled = control.epoch if control.state == "active" else control.epoch - 1
        self.finisher = self.finish_at = self.adopting = None
        self.look_at = now + self.settings.look_s
        if control.state == "sealing":
            if control.decider == self.name:
                return self._finish(now)
            self.finish_at = now + self.settings.finish_s
            return []
        if self.name in control.dead:
            self._retire(now)
            self.epoch = control.epoch
            return self._come_back()
        if self._is_spoiled():
            return self._begin_again(now)
        self.adopting = {}
        return [Read(lane) for lane in self._lanes()]

    def _is_spoiled(self) -> bool:
        """Whether an earlier life of ours may have given out numbers in this epoch."""
        control = self.control
        if control is None or self.spoiled is None:
            return False
        return control.epoch <= self.spoiled and self.name in control.lanes

    def _begin_again(self, now: float) -> list[Effect]:
        """Nobody knows which numbers our earlier life has given out: serve the next epoch, never this one."""
        control = self.control
        if control is None or control.state != "active" or not self._is_spoiled():
            return []
        intent = self.planner.intent(control, now)
        return [Decide(control.sealing(self.name, intent, alive=(self.name,)))]

    def _finish(self, now: float) -> list[Effect]:
        """Carry the decided epoch through, whoever decided it."""
        assert self.control is not None
        if self.finisher is None:
            self.finisher = Finisher(self.control, self.manager_settings.threshold)
        self.finish_at = now + self.settings.retry_s
        return self.finisher.pending()

    def _suspected(self, node: str, now: float) -> list[Effect]:
        control = self.control
        if control is None or control.state != "active" or node not in control.live or node == self.name:
            return []
        intent = self.planner.intent(control, now)
        # Whoever decides is alive, whatever was declared before.
        return [Decide(control.sealing(self.name, intent, dead=(node,), alive=(self.name,)))]

    def _lost(self, messages: tuple[Message, ...], now: float) -> list[Effect]:
        """What another node was to be told is gone: if it was about this epoch, only the next can go on."""
        control = self.control
        if control is None or control.state != "active" or control.epoch != self.epoch:
            return []
        if not any(isinstance(m, Routed) and epoch_of(m.message) == self.epoch for m in messages):
            return []
        self._retire(now)  # nothing may take the place of what is lost
        self.spoiled = self.epoch
        return self._begin_again(now)

    def _come_back(self) -> list[Effect]:
        """Declared dead, and alive: ask to be counted again, without any topics to begin with."""
        control = self.control
        if control is None or control.state != "active" or self.name not in control.dead:
            return []
        return [Send(control.leader, Replan(control.epoch, alive=self.name))]

    def _lanes(self) -> list[str]:
        assert self.control is not None
        return sorted({*self.control.lanes, *self.control.archive})

    def _adopt_if_read(self, now: float) -> list[Effect]:
        control, read = self.control, self.adopting
        if control is None or read is None or not read.keys() >= set(self._lanes()):
            return []
        self.adopting = None
        return self._adopt(control, read, now)

    def _adopt(
        self, control: Control, read: dict[str, tuple[tuple[LaneRecord, ...], int]], now: float
    ) -> list[Effect]:
        """Start afresh from the record that begins the epoch, also where we were there before."""
        self._retire(now)
        self.epoch = control.epoch
        start = self._learn(control, read)
        self.planner.begun(control, start.registrations if start is not None else (), now)
        own = read.get(self.name)
        if own is None or is_sealed(own[0], control.epoch):
            return []  # we own nothing, or it is already over
        self.writer = LaneWriter(self.name, control.epoch, own[1])
        numbers = start.notice.numbers if start is not None else {}
        for topic, owner in control.owner.items():
            if owner == self.name:
                self.managers[topic] = self._manager(topic, control, numbers, start)
                self._fill_ring(topic, read, now)
        waiting, early = self.waiting, self.early
        self.waiting, self.early = [], []
        effects: list[Effect] = []
        for routed in [*early, *waiting]:
            effects += self._routed(routed, now)
        return effects

    def _manager(
        self, topic: str, control: Control, numbers: dict[str, int], start: EpochRecord | None
    ) -> TopicManager:
        manager = TopicManager(topic, control.plan, self.manager_settings, numbers)
        if start is not None:
            for registration in start.registrations:
                if topic in registration.topics:
                    manager.register(registration)
            for sequenced in start.seen:
                if sequenced.topic == topic:
                    manager.remember(sequenced)
        return manager

    def _learn(
        self, control: Control, read: dict[str, tuple[tuple[LaneRecord, ...], int]]
    ) -> EpochRecord | None:
        """The record that begins this epoch; what earlier ones said is kept for late subscribers."""
        start = None
        for records, _ in read.values():
            for record in records:
                if isinstance(record, EpochRecord) and record.epoch <= control.epoch:
                    self.notices[record.epoch] = record.notice
                    start = record if record.epoch == control.epoch else start
        for epoch in sorted(self.notices)[:-NOTICES_MAX]:
            del self.notices[epoch]
        return start

    def _fill_ring(self, topic: str, read: dict[str, tuple[tuple[LaneRecord, ...], int]], now: float) -> None:
        """Keep for repair what the lanes still hold of a topic."""
        events = stored_events(topic, (records for records, _ in read.values()), self.epoch + 1)
        newest = max((n.numbers.get(topic, 0) for n in self.notices.values()), default=0)
        self.emitter.restore(topic, events, newest, self.epoch, now)

    def _retire(self, now: float) -> None:
        """Serve no epoch: forget everything that is not stored."""
        self.managers = {}
        self.writer = None
        self._then = {}
        self.emitter.forget(self.epoch)
        self.frozen_until = self.planner_of = None

    # Planned epochs.

    def _prepare(self, epoch: int, planner: str, now: float) -> list[Effect]:
        if self.writer is None or epoch != self.epoch + 1:
            return []
        self.planner_of, self.frozen_until = planner, now + self.settings.frozen_s
        return []

    def _prepared_if_done(self) -> list[Effect]:
        if self.planner_of is None or self.writer is None or self.writer.unconfirmed:
            return []
        if any(manager.under_way for manager in self.managers.values()):
            return []
        planner, self.planner_of = self.planner_of, None
        return [Send(planner, Prepared(self.epoch + 1, self.name))]

    def _thaw(self, now: float) -> list[Effect]:
        """The epoch did not come: go on."""
        self.frozen_until = self.planner_of = None
        waiting, self.waiting = self.waiting, []
        effects: list[Effect] = []
        for routed in waiting:
            effects += self._routed(routed, now)
        return effects

    def _report(self, report: Report, now: float) -> list[Effect]:
        if self.control is not None and self.control.leader != self.name:
            return [Send(self.control.leader, report)]
        self.planner.report(report.registration, now)
        return []

    def _repair(self, nack: Nack) -> list[Effect]:
        if nack.topic not in self.managers:
            return []
        epochs = tuple(self.notices[epoch] for epoch in sorted(self.notices) if epoch > nack.epoch)
        return [Send(nack.subscriber, self.emitter.repair(nack, epochs))]

    # For the explorer and the simulator.

    def check(self) -> None:
        """The managers' invariants; nothing is kept for a writer that is gone."""
        for manager in self.managers.values():
            manager.check()
        assert self.writer is not None or not self.managers
        assert len(self.waiting) <= self.settings.queue_max
        assert len(self.early) <= self.settings.queue_max

    def copy(self) -> ManagerNode:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.managers = {topic: manager.copy() for topic, manager in self.managers.items()}
        twin.writer = None if self.writer is None else self.writer.copy()
        twin.emitter, twin.planner = self.emitter.copy(), self.planner.copy()
        twin.finisher = None if self.finisher is None else self.finisher.copy()
        twin.adopting = None if self.adopting is None else dict(self.adopting)
        twin.notices, twin._then = dict(self.notices), dict(self._then)
        twin.waiting, twin.early = list(self.waiting), list(self.early)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two nodes would behave alike from now on."""
        return (
            self.epoch,
            None if self.control is None else self.control.version,
            tuple((topic, manager.state()) for topic, manager in sorted(self.managers.items())),
            None if self.writer is None else self.writer.state_of(),
            None if self.finisher is None else self.finisher.state(),
            None if self.adopting is None else tuple(sorted((k, v[1]) for k, v in self.adopting.items())),
            self.planner.state(),
            self.emitter.state(),
            (self.finish_at, self.look_at, self.planner_of, self.frozen_until),
            tuple(str(routed) for routed in self.waiting),
            tuple(str(routed) for routed in self.early),
            tuple(sorted(self.notices)),
        )
