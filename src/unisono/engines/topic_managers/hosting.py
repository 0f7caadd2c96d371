"""What a node does for the managers that live on it: hand them messages, and store what comes of it.

Managers on one node call each other; managers on others are reached through their node. What the last manager
of a path emits is stored in this node's lane first, and published, acknowledged and freed only then.
"""

from __future__ import annotations

from collections.abc import Callable

from unisono.engines.effects import Announce, Effect, Look, Send
from unisono.engines.inputs import Received
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.writer import LaneWriter, Written
from unisono.engines.topic_managers.addresses import topic_of
from unisono.engines.topic_managers.emitter import Emitter
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.routing import ToManager, epoch_of, is_request, without_ring
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.frames import Create, Done, EpochNotice, Fill, Join, Joined, Nack, Routed, Stamped
from unisono.model.lanes import EventRecord, JoinRecord


class Hosting:
    """The managers of one node in one epoch, and the lane they write."""

    def __init__(self, name: str, settings: NodeSettings, managers: ManagerSettings) -> None:
        self.name = name
        self.settings = settings
        # The managers keep nothing for repair: what counts is what the node has stored.
        self.manager_settings = without_ring(managers)
        self.control: Control | None = None
        self.epoch = -1  # the epoch this node serves; -1: none yet
        self.managers: dict[str, TopicManager] = {}
        self.writer: LaneWriter | None = None
        self.emitter = Emitter(managers, 0)
        self.notices: dict[int, EpochNotice] = {}
        self.planner_of: str | None = None  # who asked us to prepare
        self.frozen_until: float | None = None
        self.waiting: list[Routed] = []  # requests that came while frozen
        self.early: list[Routed] = []  # what belongs to an epoch that has not begun here
        self._then: dict[int, list[Effect]] = {}  # what follows when a record is stored, by index

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

    def _repair(self, nack: Nack) -> list[Effect]:
        if nack.topic not in self.managers:
            return []
        epochs = tuple(self.notices[epoch] for epoch in sorted(self.notices) if epoch > nack.epoch)
        return [Send(nack.subscriber, self.emitter.repair(nack, epochs))]

    def _retire(self, now: float) -> None:
        """Serve no epoch: forget everything that is not stored."""
        self.managers = {}
        self.writer = None
        self._then = {}
        self.emitter.forget(self.epoch)
        self.frozen_until = self.planner_of = None
