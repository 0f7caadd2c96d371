"""How a node goes from one epoch to the next: deciding, finishing, adopting.

A node serves one epoch at a time and starts every one of them afresh from the record that begins it. Whoever may
have given out numbers that nobody knows of (a restarted node, one whose messages were lost) never serves that
epoch, and decides on the next one first.
"""

from __future__ import annotations

from unisono.engines.effects import Decide, Effect, Look, Read, Send
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.finisher import Finisher
from unisono.engines.takeover.planner import Planner
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.writer import LaneWriter, is_sealed
from unisono.engines.topic_managers.hosting import Hosting
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.routing import epoch_of, stored_events
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.frames import Message, Replan, Routed
from unisono.model.lanes import EpochRecord, EventRecord, JoinRecord, LaneRecord

NOTICES_MAX = 256  # epochs a subscriber may be behind


class Adopting(Hosting):
    """The epochs of one life of one node."""

    def __init__(
        self, name: str, settings: NodeSettings, managers: ManagerSettings, *, restarted: bool
    ) -> None:
        super().__init__(name, settings, managers)
        self.spoiled: int | None = -1 if not restarted else None  # up to here no epoch is served
        self.planner = Planner(name, settings)
        self.finisher: Finisher | None = None
        self.finish_at: float | None = None
        self.adopting: dict[str, tuple[tuple[LaneRecord, ...], int]] | None = None
        self.look_at: float | None = None

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
