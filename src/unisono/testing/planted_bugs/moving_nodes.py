"""Weakened nodes, managers, writers and finishers: each breaks one rule of the real one, and only that."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType

import msgspec

from unisono.engines.effects import Append, Effect, Send
from unisono.engines.inputs import ReadBack
from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.finisher import Finisher
from unisono.engines.takeover.recovery import Recovery, recover
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.writer import LaneWriter, Written
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.seen import Seen
from unisono.model.frames import EpochNotice, Fill, Join, Joined, Registration, Routed, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.lanes import EpochRecord, EventRecord, JoinRecord, LaneRecord
from unisono.testing.planted_bugs.engines import DirectPlan
from unisono.testing.planted_bugs.moving_members import DirectControl

Read = dict[str, tuple[tuple[LaneRecord, ...], int]]

# Managers.


class NumbersJoins(TopicManager):
    """A join takes a number of every topic it holds (000 and 001)."""

    def _join(self, join: Join) -> list[Effect]:
        if self.topic in join.registration.topics:
            self.number += 1
        return super()._join(join)


class ShrinksGroups(TopicManager):
    """Believes the last message about what a subscriber holds, and orders only what is held now."""

    holders: frozenset[tuple[str, tuple[str, ...]]] = frozenset()

    def register(self, registration: Registration) -> None:
        """A message that is older than what it replaces counts as well."""
        others = {h for h in self.holders if h[0] != registration.subscriber}
        if self.topic in registration.topics:
            others.add((registration.subscriber, registration.topics))
        self.holders = frozenset(others)
        together = [x for _, topics in others for x in topics if x != self.topic]
        self.group = frozenset()
        group = {x for x in together if together.count(x) >= self.settings.threshold}
        self.lower = {x: n for x, n in self.lower.items() if x in group}
        self._grow(frozenset({self.topic, *group}), {})

    def _join(self, join: Join) -> list[Effect]:
        if join.new:
            return super()._join(join)
        self.register(join.registration)
        joined = Joined(join.registration.version, (), join.epoch, {})
        return [Send(join.registration.subscriber, joined)]

    def state(self) -> Hashable:
        """The holders too."""
        return (super().state(), self.holders)


class BelievesOldLeaves(TopicManager):
    """Takes a leave that a newer join has overtaken for the last word; leaves that come in time change nothing."""

    def _join(self, join: Join) -> list[Effect]:
        if join.new:
            return super()._join(join)
        left, held = join.registration, self.registry.state()
        if any(name == left.subscriber and version > left.version for name, version, _ in held):
            together = [x for name, _, topics in held if name != left.subscriber for x in topics]
            kept = {x for x in together if together.count(x) >= self.settings.threshold}
            self.group = frozenset()
            self.lower = {x: n for x, n in self.lower.items() if x in kept}
            self._grow(frozenset({self.topic, *kept}), {})
        return [Send(left.subscriber, Joined(left.version, (), join.epoch, {}))]


class Rehangs(TopicManager):
    """Goes where the last join went: its events take another way while older ones are on the old one."""

    def _join(self, join: Join) -> list[Effect]:
        if join.rest and join.rest != self.climb[1 : len(join.rest) + 1]:
            self.climb = (self.topic, *join.rest)
            parent = dict(self.plan.parent) | {self.topic: join.rest[0]}
            self.plan = Plan(self.plan.rank, parent, self.plan.group, self.plan.epoch)
        return super()._join(join)

    def state(self) -> Hashable:
        """The way too."""
        return (super().state(), self.climb)


class TakesOldStamps(TopicManager):
    """Goes on with the stamps and joins of an epoch that is over."""

    def _fill(self, fill: Fill, now: float) -> list[Effect]:
        return super()._fill(msgspec.structs.replace(fill, epoch=self.plan.epoch), now)

    def _join(self, join: Join) -> list[Effect]:
        return super()._join(msgspec.structs.replace(join, epoch=self.plan.epoch))


class AnswersKeysEarly(TopicManager):
    """Whoever repeats a key is told its number at once."""

    def _repeat(self, id: EventId, key: str, seen: Seen) -> list[Effect]:
        if key in self.keys.places:
            return super()._repeat(id, key, seen)
        answer = Sequenced(self.topic, id, self.plan.epoch, {self.topic: self.number}, repeated=True)
        seen.finish(answer)
        return [Send(id.publisher, answer)]


def with_manager(weak: type[TopicManager]) -> type[ManagerNode]:
    """A node whose managers are weaker."""

    class WeakNode(ManagerNode):
        def _is_on_path(self, topic: str, join: Join) -> bool:
            return True

        def _manager(
            self, topic: str, control: Control, numbers: dict[str, int], start: EpochRecord | None
        ) -> TopicManager:
            manager = weak(topic, control.plan, self.manager_settings, numbers)
            if start is not None:
                for registration in start.registrations:
                    if topic in registration.topics:
                        manager.register(registration)
                for bundle in start.bundles:
                    manager.remember_all(bundle)
                for sequenced in start.seen:
                    if sequenced.topic == topic:
                        manager.remember(sequenced)
                for keyed in start.keys.get(topic, ()):
                    manager.keys.recall(keyed)
            return manager

    return WeakNode


# Nodes.


class AcknowledgesEarly(ManagerNode):
    """Tells the publisher when the stamp is complete, not when it is stored."""

    def _store_event(self, event: Stamped, then: list[Effect], now: float) -> list[Effect]:
        early = [e for e in then if isinstance(e, Send) and isinstance(e.message, Sequenced)]
        return early + super()._store_event(event, [e for e in then if e not in early], now)


class AnswersJoinsEarly(ManagerNode):
    """Tells the subscriber that it has joined before that is stored."""

    def _store_join(self, join: Join, joined: Joined, then: list[Effect], now: float) -> list[Effect]:
        return then + super()._store_join(join, joined, [], now)


class _Remembers(ManagerNode):
    """Keeps the managers of the epoch before for a look back."""

    kept: Mapping[str, TopicManager] = MappingProxyType({})

    def _retire(self, now: float) -> None:
        if self.managers:
            self.kept = dict(self.managers)
        super()._retire(now)

    def _manager(
        self, topic: str, control: Control, numbers: dict[str, int], start: EpochRecord | None
    ) -> TopicManager:
        manager = super()._manager(topic, control, numbers, start)
        if topic in self.kept:
            self.look_back(manager, self.kept[topic])
        return manager

    def look_back(self, manager: TopicManager, before: TopicManager) -> None:
        """What is not forgotten."""
        raise NotImplementedError


class KeepsSeen(_Remembers):
    """A survivor remembers requests that were never stored, and never serves them."""

    def look_back(self, manager: TopicManager, before: TopicManager) -> None:
        """Every request."""
        manager.seen |= {key: seen.copy() for key, seen in before.seen.items()}


class KeepsCounters(_Remembers):
    """A survivor goes on counting where it was, past numbers that were never stored."""

    def look_back(self, manager: TopicManager, before: TopicManager) -> None:
        """Every number."""
        manager.number = max(manager.number, before.number)


class KeepsKeys(_Remembers):
    """A survivor remembers keys whose events were never stored, and waits for them."""

    def look_back(self, manager: TopicManager, before: TopicManager) -> None:
        """Every key under way."""
        manager.keys.under_way = dict(before.keys.under_way)


class TakesOldMessages(with_manager(TakesOldStamps)):  # type: ignore[misc]
    """Serves messages of an epoch that is over."""

    def _routed(self, routed: Routed, now: float) -> list[Effect]:
        message = routed.message
        if isinstance(message, Fill | Join) and message.epoch < self.epoch:
            message = msgspec.structs.replace(message, epoch=self.epoch)
        effects: list[Effect] = super()._routed(Routed(routed.topic, message), now)
        return effects


class BelievesOldReads(ManagerNode):
    """Starts an epoch from what a lane held before the epoch began in it."""

    def _is_fresh(self, answer: ReadBack) -> bool:
        return True

    def _has_begun(self, control: Control, start: EpochRecord | None) -> bool:
        return True


# Writers.


class ConfirmsWhatIsStored(LaneWriter):
    """Takes every accepted append for safe, also behind one that was refused."""

    def answered(
        self, record: Written, sequence: int | None, now: float
    ) -> tuple[list[Written], list[Effect]]:
        """A seal that took the place of the refused one goes unnoticed."""
        stored = sequence is not None and record.epoch == self.epoch and record.index in self.unconfirmed
        if not stored or self.state == "stopped":
            return super().answered(record, sequence, now)
        del self.unconfirmed[record.index]
        self.on_the_way = max(0, self.on_the_way - 1)
        self.position = sequence or 0
        self.waits_since = now if self.unconfirmed else None
        return [record], self._read_if_settled()


class NeverGoesBack(LaneWriter):
    """Appends around what was lost."""

    def _send(self, record: Written, ahead: int) -> Effect:
        return Append(self.lane, record, None)

    def answered(
        self, record: Written, sequence: int | None, now: float
    ) -> tuple[list[Written], list[Effect]]:
        """Whatever is stored is safe, whether or not the one before it is."""
        self.unconfirmed.pop(record.index, None)
        return [record], []

    def give_up_waiting(self, now: float) -> list[Effect]:
        """It never looks."""
        self.waits_since = None
        return []


def with_writer(weak: type[LaneWriter]) -> type[ManagerNode]:
    """A node whose lane is written by a weaker writer."""

    class WeakNode(ManagerNode):
        def _adopt(self, control: Control, read: Read, now: float) -> list[Effect]:
            effects = super()._adopt(control, read, now)
            if self.writer is not None:
                twin = object.__new__(weak)
                twin.__dict__.update(self.writer.__dict__)
                self.writer = twin
            return effects

    return WeakNode


# Finishers.


class SealsTheDeadOnly(Finisher):
    """Leaves the lanes of the living open while it computes where they are."""

    def __init__(self, control: Control, threshold: int, settings: NodeSettings = NodeSettings()) -> None:
        super().__init__(control, threshold, settings)
        self.sealed = {lane for lane in control.sealed if lane not in control.dead}

    def read_back(self, answer: ReadBack) -> list[Effect]:
        """An open lane is as good as a sealed one."""
        if not self.sealed.issuperset(self.control.sealed) or answer.lane in self.read:
            return []
        if answer.lane in self.control.sealed:
            self.read[answer.lane] = answer.records
        return self.pending() if len(self.read) == len(self.control.sealed) else []


class SealsNothing(SealsTheDeadOnly):
    """Recovers each topic from its last stored event, and seals nothing."""

    def __init__(self, control: Control, threshold: int, settings: NodeSettings = NodeSettings()) -> None:
        super().__init__(control, threshold, settings)
        self.sealed = set(control.sealed)

    def _recover(self) -> Recovery:
        return OwnNumbers._recover(self)  # type: ignore[arg-type]


class OwnNumbers(Finisher):
    """Takes the last stored number of each topic for how far it went, whatever stamps name."""

    def _recover(self) -> Recovery:
        intent = self.control.intent
        assert intent is not None
        lanes = {lane: tuple(map(_own_number_only, records)) for lane, records in self.read.items()}
        return recover(lanes, self.control.epoch, intent.rank, intent.reports)


class NoVoids(Finisher):
    """Tells nobody which numbers died."""

    def _recover(self) -> Recovery:
        recovery = super()._recover()
        notice = EpochNotice(recovery.notice.epoch, recovery.notice.numbers)
        return recovery._replace(notice=notice)


class ForgetsKeys(Finisher):
    """Carries no keys over."""

    def _recover(self) -> Recovery:
        return super()._recover()._replace(keys={})


def _own_number_only(record: LaneRecord) -> LaneRecord:
    if isinstance(record, EventRecord):
        event = record.event
        bare = Stamped(event.publication, event.epoch, {event.topic: event.number})
        return EventRecord(record.epoch, record.index, bare)
    if isinstance(record, JoinRecord):
        return JoinRecord(record.epoch, record.index, record.registration, {})
    return record


def with_finisher(weak: type[Finisher], node: type[ManagerNode] = ManagerNode) -> type[ManagerNode]:
    """A node that finishes epochs in a weaker way."""

    class WeakNode(node):  # type: ignore[misc, valid-type]
        def _finish(self, now: float) -> list[Effect]:
            if getattr(self, "finisher", None) is None:
                self.finisher = weak(self.control, self.manager_settings.threshold, self.settings)
            effects: list[Effect] = super()._finish(now)
            return effects

    return WeakNode


# Plans.


def direct_plan(control: Control) -> Control:
    """Events hop straight from one member of their group to the next."""
    plan = control.plan
    return replace(
        control, plan=DirectPlan(rank=plan.rank, parent=plan.parent, group=plan.group, epoch=plan.epoch)
    )


def any_join_path(control: Control) -> Control:
    """Joins hop straight from one of their topics to the next."""
    return DirectControl(**{f.name: getattr(control, f.name) for f in fields(control)})


def direct_joins(control: Control) -> Control:
    """Events and joins hop straight."""
    return any_join_path(direct_plan(control))
