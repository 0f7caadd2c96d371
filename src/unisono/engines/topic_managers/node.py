"""A node: topic managers that live together, their lane, and the epochs they go through.

A node serves one epoch at a time: what belongs to an earlier one is dropped, what belongs to a later one waits.
What it does within an epoch is in `hosting`, how it goes from one to the next in `adopting`; here is what others
see of it.
"""

from __future__ import annotations

from collections.abc import Hashable

from unisono.engines.effects import Effect, Look, Reject, Send, Tend
from unisono.engines.inputs import (
    Appended,
    Controlled,
    Input,
    Lost,
    ReadBack,
    Received,
    Suspected,
    Tended,
    Tick,
)
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.adopting import Adopting
from unisono.engines.topic_managers.routing import is_sound
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.bundles import Bundle
from unisono.model.errors import FrameError
from unisono.model.frames import Create, Message, Prepare, Prepared, Recall, Refused, Replan, Report, Routed
from unisono.model.places import Claim, Clear, Save, Survey


class ManagerNode(Adopting):
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
        super().__init__(name, settings, managers, restarted=restarted)
        self.long_until = 0.0  # no epoch is asked for before this because the lane is long

    def tell_time(self, wall_s: float) -> None:
        """Say what to add to the time of inputs to get the time of day; it is only written down."""
        self.planner.wall_s = wall_s

    # The contract.

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if type(input) is Received and type(routed := input.message) is Routed:
            if type(routed.message) is Create:
                numbered = self._take_next(input.source, routed.topic, routed.message, now)
                if numbered is not None:
                    return numbered  # mostly it is so, and nothing else is to be done
            effects = self._received(input.source, routed, now)
        elif type(input) is Appended:
            effects = self._appended(input.lane, input.record, input.sequence, now)
        else:
            effects = self._handle(input, now)
        if self.planner_of is not None:
            effects = effects + self._prepared_if_done()
        if long := self._ask_if_long(now):
            effects = effects + long
        return effects

    def _handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Received(source, message):
                return self._message(source, message, now)
            case Controlled(control):
                self.chronicler.learn(control)
                return self._controlled(control, now)
            case ReadBack():
                return self._read_back(input, now)
            case Suspected(node):
                return self._suspected(node, now)
            case Lost(_, messages):
                return self._lost(messages, now)
            case Tended(source, answer):
                return [Send(source, answer)]
            case Tick():
                return self._tick(now)
        return [Reject(FrameError(f"node '{self.name}' cannot use {type(input).__name__}"))]

    def _message(self, source: str, message: Message, now: float) -> list[Effect]:
        """A message from anybody; what only nodes may say is believed from nodes only."""
        control = self.control
        match message:
            case Routed():
                return self._received(source, message, now)
            case Bundle():
                return self._bundle(source, message, now)
            case Replan() | Prepare() | Prepared() | Report() if control is None:
                return []  # meant for an earlier life; whoever still wants it will ask again
            case Report():
                return self._report(source, message, now)
            case Recall(subscriber) if subscriber == source:
                return self.chronicler.recall(message, now)
            case Replan() if control is not None:
                return self.planner.request(message, control, now, source, trusted=self.is_peer(source))
            case Prepare(epoch, planner) if planner == source and self.is_peer(source):
                return self._prepare(epoch, planner, now)
            case Prepared(epoch, node) if control is not None and node == source and self.is_peer(source):
                return self.planner.prepared(node, epoch, control, now)
            case Refused():
                return []  # an operator has asked through us for what cannot be
            case Claim(_, session) | Save(session) if session == source:
                return [Tend(source, message)]
            case Survey() | Clear():
                return [Tend(source, message)]
            case Prepare() | Prepared():
                return []  # of a node that has left, or of somebody who never was one
        return [Reject(FrameError(f"node '{self.name}' cannot use {type(message).__name__} of '{source}'"))]

    def next_timer(self) -> float | None:
        """When something is to be repeated, given up, or told again."""
        soonest = self.emitter.next_timer()
        if self.writer is not None and self.writer.waits_since is not None:
            silent = self.writer.waits_since + self.settings.append_s * self.writer.patience
            soonest = silent if soonest is None else min(soonest, silent)
        for time in (self.planner.decide_at, self.finish_at, self.look_at, self.frozen_until):
            if time is not None and (soonest is None or time < soonest):
                soonest = time
        return soonest

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
                effects += self._read_lanes()
        if self.frozen_until is not None and self.frozen_until <= now:
            effects += self._thaw(now)
        if self.writer is not None and self.writer.waits_since is not None:
            silent = self.writer.waits_since + self.settings.append_s * self.writer.patience <= now
            effects += self.writer.give_up_waiting(now) if silent else []
        return effects

    # Planned epochs.

    def _prepare(self, epoch: int, planner: str, now: float) -> list[Effect]:
        if self.writer is None or epoch != self.epoch + 1:
            return []
        self.planner_of, self.frozen_until = planner, now + self.settings.frozen_s
        return []

    def _prepared_if_done(self) -> list[Effect]:
        if self.planner_of is None or self.writer is None or self.writer.unconfirmed:
            return []
        if any(manager.is_busy for manager in self.managers.values()):
            return []
        planner, self.planner_of = self.planner_of, None
        return [Send(planner, Prepared(self.epoch + 1, self.name))]

    def _thaw(self, now: float) -> list[Effect]:
        """The epoch did not come: go on."""
        self.frozen_until = self.planner_of = None
        effects: list[Effect] = []
        for waited in self._take_waiting():
            effects += self._resume(waited, now)
        return effects

    def _report(self, source: str, report: Report, now: float) -> list[Effect]:
        held, limit = report.registration, 2 * self.settings.subscriber_topics_max
        if held.subscriber != source and not self.is_peer(source):
            return []  # passed on by a node that has left, or by somebody who never was one
        if not is_sound(held) or len(held.topics) + len(report.patterns) > limit:
            return [Send(held.subscriber, Refused("nobody can hold what it reports"))]
        if self.control is not None and self.control.leader != self.name:
            return [Send(self.control.leader, report)] if held.subscriber == source else []
        self.planner.report(report, self.control, now)
        return []

    def _ask_if_long(self, now: float) -> list[Effect]:
        """A long lane is long to read: begin another epoch."""
        control, writer = self.control, self.writer
        if control is None or writer is None or control.epoch != self.epoch:
            return []
        settings = self.settings
        is_long = (
            writer.made >= settings.lane_records_max
            or writer.events >= settings.lane_events_max
            or 0 < settings.lane_bytes_max <= writer.bytes
        )
        if not is_long or now < self.long_until:
            return []
        self.long_until = now + self.settings.look_s
        return [Send(control.leader, Replan(control.epoch))]

    # For the explorer and the simulator.

    def check(self) -> None:
        """The managers' invariants; nothing is kept for a writer that is gone."""
        for manager in self.managers.values():
            manager.check()
        assert self.writer is not None or not self.managers
        assert len(self.waiting) <= self.settings.queue_max
        assert len(self.early) <= self.settings.queue_max
        assert len(self.asking) <= self.settings.queue_max

    def copy(self) -> ManagerNode:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.managers = {topic: manager.copy() for topic, manager in self.managers.items()}
        twin.writer = None if self.writer is None else self.writer.copy()
        twin.emitter, twin.planner = self.emitter.copy(), self.planner.copy()
        twin.chronicler = self.chronicler.copy()
        twin.finisher = None if self.finisher is None else self.finisher.copy()
        twin.adopting = None if self.adopting is None else dict(self.adopting)
        twin.notices, twin._then = dict(self.notices), dict(self._then)
        twin._neighbours, twin._at_once = dict(self._neighbours), dict(self._at_once)
        twin.waiting, twin.early, twin.asking = list(self.waiting), list(self.early), dict(self.asking)
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
            tuple(str(routed) for routed in (*self.early, *self.asking.items())),
            (self.looked_until, self.long_until, self.was_counted, self.lossy, self.spoiled),
            tuple(sorted(self.notices)),
            self.chronicler.state(),
        )
