"""How a node goes from one epoch to the next: deciding, finishing, adopting.

A node serves one epoch at a time and starts every one of them afresh from the record that begins it. Whoever may
have given out numbers that nobody knows of (a restarted node, one whose messages were lost) never serves that
epoch, and decides on the next one first.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.effects import Decide, Effect, Look, Read, Send, Truncate
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.finisher import Finisher
from unisono.engines.takeover.planner import Planner
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.spreading import published
from unisono.engines.takeover.writer import LaneWriter, is_sealed
from unisono.engines.topic_managers.bundling import Bundling
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.routing import by_topic, epoch_of, stored_events
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.bundles import StampedBundle
from unisono.model.frames import Message, Replan, Routed, Stamped
from unisono.model.lanes import BundleRecord, EpochRecord, EventRecord, JoinRecord, LaneRecord, SealRecord

WRITTEN = (EventRecord, BundleRecord, JoinRecord)  # what a node's managers store
NOTICES_MAX = 256  # epochs a subscriber may be behind

Lanes: TypeAlias = dict[str, tuple[tuple[LaneRecord, ...], int]]
"""What was read: the last records of each lane, and the sequence of the last one."""


class Adopting(Bundling):
    """The epochs of one life of one node."""

    def __init__(
        self, name: str, settings: NodeSettings, managers: ManagerSettings, *, restarted: bool
    ) -> None:
        super().__init__(name, settings, managers)
        self.spoiled: int | None = -1 if not restarted else None  # up to here no epoch is served
        self.planner = Planner(name, settings)
        self.finisher: Finisher | None = None
        self.finish_at: float | None = None
        self.adopting: Lanes | None = None
        self.look_at: float | None = None
        self.served: frozenset[str] = frozenset()  # nodes of the epoch we serve
        self.suspects: frozenset[str] = frozenset()  # since the last control record, by who has left
        self.was_counted = False  # whoever was a node once and is not declared dead has left

    @property
    def waits(self) -> bool:
        """Whether requests have to wait: an epoch is prepared, decided on, or has begun and is not ours yet."""
        if self.frozen_until is not None or self.adopting is not None:
            return True
        return self.control is not None and self.control.state == "sealing"

    # Lanes.

    def _appended(self, lane: str, record: LaneRecord, sequence: int | None, now: float) -> list[Effect]:
        if isinstance(record, WRITTEN):
            if self.writer is None or lane != self.writer.lane:
                return []
            confirmed, effects = self.writer.answered(record, sequence, now)
            return self._stored(confirmed, now) + effects
        if self.finisher is not None and sequence is not None:
            return self.finisher.appended(lane, record, sequence)
        return []

    def _read_back(self, answer: ReadBack, now: float) -> list[Effect]:
        """Part of a lane, whoever of us has asked for it."""
        effects: list[Effect] = []
        if self.writer is not None and answer.lane == self.writer.lane and self.adopting is None:
            confirmed, more = self.writer.read_back(answer, now)
            effects += self._stored(confirmed, now) + more
            if self.writer.state == "stopped":
                self._retire(now)
                effects.append(Look())
        if self.finisher is not None:
            effects += self.finisher.read_back(answer)
        if self.adopting is not None and self._is_fresh(answer):
            self.adopting[answer.lane] = (answer.records, answer.tail)
            effects += self._adopt_if_read(now)
        return effects + self.chronicler.read_back(answer, now)

    def _is_fresh(self, answer: ReadBack) -> bool:
        """Whether a lane was read after our epoch began in it; an answer to an older question tells too little."""
        control, lane = self.control, answer.lane
        assert control is not None
        if not answer.covers(control.reads_after(lane)):
            return False
        if not control.sealed or lane not in {*control.sealed, *control.lanes}:
            return True
        return any(isinstance(r, EpochRecord) and r.epoch >= control.epoch for r in answer.records)

    # Epochs.

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        if self.control is not None and control.version <= self.control.version:
            return []
        self.control = control
        self.peers = self.served.union(control.nodes)
        self.looked_until = now
        self.suspects = frozenset()
        if self.spoiled is None:
            self.spoiled = control.epoch if control.state == "active" else control.epoch - 1
        self.finisher = self.finish_at = self.adopting = None
        self.look_at = now + self.settings.look_s
        if control.state == "sealing":
            if control.decider == self.name:
                return self._finish(now)
            self.finish_at = now + self.settings.finish_s
            return []
        self.planner.activated()
        if self.name not in control.live:
            self._retire(now)
            self._take_waiting()  # whoever owns the topics now is asked again
            self.epoch = control.epoch
            self.look_at = (
                now + self.settings.look_s / 8
            )  # the leader may not know of this epoch yet: ask again soon
            return self._come_back()
        self.was_counted = True
        if self._is_spoiled():
            return self._begin_again(now)
        self.adopting = {}
        return self._read_lanes()

    def _is_spoiled(self) -> bool:
        """Whether an earlier life of ours may have given out numbers in this epoch."""
        control = self.control
        if control is None or self.spoiled is None:
            return False
        return control.epoch <= max(self.spoiled, self.lossy) and self.name in control.lanes

    def _begin_again(self, now: float) -> list[Effect]:
        """Nobody knows which numbers our earlier life has given out: serve the next epoch, never this one."""
        control = self.control
        if control is None or control.state != "active" or not self._is_spoiled():
            return []
        return [Decide(self.planner.force(control, now))]

    def _finish(self, now: float) -> list[Effect]:
        """Carry the decided epoch through, whoever decided it."""
        assert self.control is not None
        if self.finisher is None:
            threshold = self.control.threshold(self.manager_settings.threshold)
            self.finisher = Finisher(self.control, threshold, self.settings)
        self.finish_at = now + self.settings.retry_s
        return self.finisher.pending()

    def _suspected(self, node: str, now: float) -> list[Effect]:
        control = self.control
        if control is None or control.state != "active" or node not in control.live or node == self.name:
            return []
        if not self.has_left:
            return [Decide(self.planner.force(control, now, dead=(node,)))]
        self.suspects |= {node}
        if not self.suspects.issuperset(control.live):
            return []  # whoever has left stays away while anybody else is there
        return [Decide(self.planner.force(control, now, dead=control.live))]

    @property
    def has_left(self) -> bool:
        """Whether we were a node, gave our topics away, and are none any more."""
        return self.was_counted and self.control is not None and self.name not in self.control.nodes

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
        """Declared dead and alive, or new: ask to be counted, without any topics to begin with."""
        control = self.control
        if control is None or control.state != "active" or self.name in control.live or self.has_left:
            return []
        return [Send(control.leader, Replan(control.epoch, alive=self.name))]

    def _read_lanes(self) -> list[Effect]:
        """Ask for what has not been read of the lanes, as far back as it may be needed."""
        control, read = self.control, self.adopting or {}
        assert control is not None
        return [Read(lane, control.reads_after(lane)) for lane in control.read_lanes if lane not in read]

    def _adopt_if_read(self, now: float) -> list[Effect]:
        control, read = self.control, self.adopting
        if control is None or read is None or not read.keys() >= set(control.read_lanes):
            return []
        self.adopting = None
        return self._adopt(control, read, now)

    def _adopt(self, control: Control, read: Lanes, now: float) -> list[Effect]:
        """Start afresh from the record that begins the epoch, also where we were there before."""
        self._retire(now)
        self.epoch = control.epoch
        self.served = frozenset(control.nodes)
        self.peers = self.served
        start = self._learn(control, read)
        if not self._has_begun(control, start):
            return self._look(now)  # it is over, and its beginning is not kept any more
        if control.sequencer == "atoms":
            self.planner.events = published(self.notices)
        due = self.planner.begun(control, start.registrations if start is not None else (), now)
        cuts = self._truncate(control) + due
        if control.leader == self.name:
            self.planner.forget = tuple(lane for lane in control.archive if self._is_old(lane, control, read))
        own = read.get(self.name)
        if own is None or is_sealed(own[0], control.epoch):
            return cuts  # we own nothing, or it is already over
        self.writer = LaneWriter(self.name, control.epoch, own[1])
        numbers = start.notice.numbers if start is not None else {}
        parts = by_topic(start) if start is not None else {}
        events = stored_events((records for records, _ in read.values()), self.epoch + 1)
        for topic, owner in control.owner.items():
            if owner == self.name:
                self.managers[topic] = self._manager(topic, control, numbers, parts.get(topic))
                self._fill_ring(topic, events.get(topic, []), now)
        return cuts + self._go_on(now)

    def _has_begun(self, control: Control, start: EpochRecord | None) -> bool:
        """Whether it is known how the epoch begins; the first one begins with nothing."""
        return start is not None or not control.sealed

    def _go_on(self, now: float) -> list[Effect]:
        """Take what has waited for this epoch."""
        early, asking, waiting = self.early, self.asking, self.waiting
        self.early, self.asking, self.waiting, self.kept_bytes = [], {}, [], 0
        effects: list[Effect] = []
        for source, routed in (*early, *asking.items()):
            effects += self._received(source, routed, now)
        for waited in waiting:
            effects += self._resume(waited, now)
        return effects

    def _truncate(self, control: Control) -> list[Effect]:
        """Let go of what nobody needs any more: in our lane, and, who leads, in those that nobody writes."""
        leads = control.leader == self.name
        effects: list[Effect] = []
        for lane in control.read_lanes:
            if lane == self.name or (leads and lane not in {*control.lanes, *control.sealed}):
                cut = self._cut(lane, control)
                if cut > 0:
                    effects.append(Truncate(lane, cut))
        return effects

    def _cut(self, lane: str, control: Control) -> int:
        """Up to which sequence a lane may go."""
        return control.spare(lane)

    def _is_old(self, lane: str, control: Control, read: Lanes) -> bool:
        """Whether a lane has not been written for so long that nobody need read it to go on."""
        if lane in {*control.lanes, *control.sealed}:
            return False
        newest = max((r.epoch for r in read[lane][0] if isinstance(r, SealRecord | EpochRecord)), default=-1)
        return newest + self.settings.archive_epochs < control.epoch

    def _manager(
        self, topic: str, control: Control, numbers: dict[str, int], start: EpochRecord | None
    ) -> TopicManager:
        """The manager of a topic at the beginning of an epoch; `start` is the part that concerns it."""
        threshold = control.threshold(self.manager_settings.threshold)
        settings = msgspec.structs.replace(self.manager_settings, threshold=threshold)
        manager = TopicManager(topic, control.plan, settings, numbers, is_closed=topic in control.closed)
        if start is not None:
            manager.register_all(start.registrations)
            for bundle in start.bundles:
                manager.remember_all(bundle)
            for sequenced in start.seen:
                manager.remember(sequenced)
            for keyed in start.keys.get(topic, ()):
                manager.keys.recall(keyed)
        return manager

    def _learn(self, control: Control, read: Lanes) -> EpochRecord | None:
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

    def _fill_ring(self, topic: str, events: list[Stamped | StampedBundle], now: float) -> None:
        """Keep for repair what the lanes still hold of a topic."""
        newest = max((n.numbers.get(topic, 0) for n in self.notices.values()), default=0)
        self.emitter.restore(topic, events, newest, self.epoch, now)
