"""What a node does for the managers that live on it: hand them messages, and store what comes of it.

Managers on one node call each other; managers on others are reached through their node. What the last manager
of a path emits is stored in this node's lane first, and published, acknowledged and freed only then.
"""

from __future__ import annotations

import msgspec

from unisono.engines.chronicle import Chronicler
from unisono.engines.effects import Announce, Effect, Look, Reject, Send
from unisono.engines.inputs import Received
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.writer import LaneWriter, Written
from unisono.engines.topic_managers.addresses import topic_of
from unisono.engines.topic_managers.emitter import Emitter
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.routing import (
    ToManager,
    bytes_of,
    epoch_of,
    is_request,
    is_sound,
    size_of,
    without_ring,
)
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.bundles import Bundle
from unisono.model.errors import FrameError
from unisono.model.frames import (
    Create,
    Done,
    EpochNotice,
    Fill,
    Join,
    Joined,
    Nack,
    Publication,
    Refused,
    Registration,
    Routed,
    Stamped,
)
from unisono.model.lanes import EventRecord, JoinRecord

REPAIRS_MAX = 1024  # numbers answered at once; who misses more asks again


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
        self.chronicler = Chronicler()
        self.notices: dict[int, EpochNotice] = {}
        self.planner_of: str | None = None  # who asked us to prepare
        self.frozen_until: float | None = None
        self.waiting: list[Routed | Bundle] = []  # requests that came while frozen
        self.early: list[tuple[str, Routed]] = []  # from nodes, for an epoch that has not begun here
        self.asking: dict[str, Routed] = {}  # the newest join of each subscriber for such an epoch
        self.kept_bytes = 0  # roughly, of what waits and what is asked for
        self.lossy = -1  # an epoch of which we could not keep everything
        self.looked_until = 0.0
        self.peers: frozenset[str] = frozenset()  # nodes of the epoch we serve, and of the one that comes
        self._then: dict[int, list[Effect]] = {}  # what follows when a record is stored, by index

    # Messages for managers.

    def is_peer(self, source: str) -> bool:
        """Whether this is a node: what is under way is believed from nodes only."""
        return source == self.name or source in self.peers

    def _received(self, source: str, routed: Routed, now: float) -> list[Effect]:
        """A message for a manager, from anybody: clients speak for themselves, and only ask."""
        message = routed.message
        if type(message) is Create:
            reason = self._wrong(source, routed.topic, message.publication)
            return [Reject(FrameError(reason))] if reason else self._routed(routed, now)
        if is_request(message) or isinstance(message, Nack):
            fault = self._fault(source, routed)
            if fault is not None:
                return [fault]
            if isinstance(message, Join) and message.epoch > self.epoch:
                if source in self.asking:  # nobody has two joins under way
                    self.kept_bytes -= size_of(self.asking.pop(source).message)
                if self._has_room(len(self.asking), message):
                    self.asking[source] = routed
                return self._look(now)
        elif (epoch := epoch_of(message)) is not None and epoch > self.epoch:
            # Whoever sent it may be a node that our control record does not know yet.
            return self._keep_early(source, routed, epoch, now)
        elif epoch == self.epoch and self.writer is not None and not self.is_peer(source):
            return [Reject(FrameError(f"'{source}' is no node, and sent {type(message).__name__}"))]
        return self._routed(routed, now)

    def _wrong(self, source: str, topic: str, publication: Publication) -> str:
        """What is wrong with an event that is to be numbered; "" if nothing is."""
        manager, limit = self.managers.get(topic), self.settings.event_bytes_max
        if manager is not None and 0 < limit < manager.stamp_bytes + bytes_of(publication):
            return f"an event of '{source}' is too large with its stamp"
        if publication.topic != topic or (publication.publisher != source and not self.is_peer(source)):
            return f"'{source}' speaks for '{publication.publisher}' on '{publication.topic}' to '{topic}'"
        return ""

    def _fault(self, source: str, routed: Routed) -> Effect | None:
        """What is wrong with a request, if anything."""
        topic, message = routed.topic, routed.message
        match message:
            case Nack():
                speaks_for, about = message.subscriber, message.topic
            case Join(registration):
                speaks_for, about = registration.subscriber, topic
                if refused := self._refused(registration) or self._closed(message):
                    return Send(source, refused)
                if not self._is_on_path(topic, message):
                    return Reject(FrameError(f"the join of '{source}' does not climb the plan"))
            case _:
                return None
        if about != topic or (speaks_for != source and not self.is_peer(source)):
            return Reject(FrameError(f"'{source}' speaks for '{speaks_for}' on '{about}' to '{topic}'"))
        return None

    def _refused(self, registration: Registration) -> Refused | None:
        """Why a subscriber may not hold what it wants to."""
        limit = self.settings.subscriber_topics_max
        if len(registration.topics) > limit:
            return Refused(
                f"{len(registration.topics)} topics are over the limit of {limit} for one subscriber"
            )
        if not is_sound(registration):
            return Refused("that is not a registration")
        return None

    def _closed(self, join: Join) -> Refused | None:
        """Why nobody may join a topic that is deleted."""
        closed = () if self.control is None else sorted(set(self.control.closed).intersection(join.new))
        if not closed:
            return None
        return Refused(f"topic '{closed[0]}' was deleted; subscribe without it, or to its past (start=)")

    def _is_on_path(self, topic: str, join: Join) -> bool:
        """Whether a join climbs as the plan says, where we know the plan of its epoch."""
        if self.control is None or join.epoch != self.control.plan.epoch:
            return True  # it waits, or is dropped
        return self.control.join_path(join.registration.topics) == (topic, *join.rest)

    def _look(self, now: float) -> list[Effect]:
        """There is something newer than we know of; asking once in a while is enough."""
        if now < self.looked_until:
            return []
        self.looked_until = now + self.settings.look_s / 10
        return [Look()]

    def _keep_early(self, source: str, routed: Routed, epoch: int, now: float) -> list[Effect]:
        """Keep what belongs to an epoch that has not begun here; strangers who may be nodes get half the room."""
        room = self.settings.queue_max
        if self.is_peer(source):
            if len(self.early) < room:
                self.early.append((source, routed))
            else:
                self.lossy = max(self.lossy, epoch)  # nobody repeats it: that epoch is not for us
        elif source.startswith(self.settings.node_names) and len(self.early) < room // 2:
            self.early.append((source, routed))
        return self._look(now)

    def _routed(self, routed: Routed, now: float) -> list[Effect]:
        message = routed.message
        if type(message) is Create and not self.waits:
            return self._local(routed.topic, message, now)
        if isinstance(message, Nack):
            return self._repair(message, now)
        if not isinstance(message, Create) and epoch_of(message) not in (None, self.epoch):
            return []
        if self.waits and is_request(message):
            if self._has_room(len(self.waiting), message):  # whoever asks will ask again
                self.waiting.append(routed)
            return []
        return self._local(routed.topic, message, now)

    @property
    def waits(self) -> bool:
        """Whether requests have to wait: an epoch is prepared."""
        return self.frozen_until is not None

    def _has_room(self, kept: int, message: ToManager | Bundle) -> bool:
        """Whether one more may be kept for later; it counts from now on."""
        size = size_of(message)
        if kept >= self.settings.queue_max or self.kept_bytes + size > self.settings.queue_bytes_max:
            return False
        self.kept_bytes += size
        return True

    def _take_waiting(self) -> list[Routed | Bundle]:
        """What has waited, and waits no more."""
        waiting, self.waiting = self.waiting, []
        self.kept_bytes -= sum(size_of(w if isinstance(w, Bundle) else w.message) for w in waiting)
        return waiting

    def _local(self, topic: str, message: ToManager, now: float) -> list[Effect]:
        """Hand a message to a manager that lives here, and go on with what it answers."""
        while True:
            manager = self.managers.get(topic)
            if manager is None or self.writer is None or self.writer.state == "stopped":
                return []  # whoever sent it will look for the owner and send it again
            effects = manager.handle(Received(self.name, message), now)
            if isinstance(message, Done) and not any(isinstance(effect, Reject) for effect in effects):
                self.emitter.keep(message.event, now)
            match message, effects:
                case Join(), [Send(_, Joined() as joined)]:
                    return self._store_join(message, joined, effects, now)
                case _, [Send(to, (Fill() | Join()) as onward)] if self._lives_here(to):
                    topic, message = topic_of(to) or "", onward  # a long chain is a loop, not a deep call
                case _:
                    return self._carry_on(effects, now)

    def _lives_here(self, address: str) -> bool:
        topic = topic_of(address)
        return topic is not None and self.control is not None and self.control.owner.get(topic) == self.name

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
        if not isinstance(message, Create | Fill | Done | Join | Nack):
            return [effect]  # for somebody with an odd name
        assert self.control is not None
        owner = self.control.owner.get(topic)
        if owner == self.name:
            return self._local(topic, message, now)
        return [] if owner is None else [Send(owner, Routed(topic, message))]

    def _store_event(self, event: Stamped, then: list[Effect], now: float) -> list[Effect]:
        assert self.writer is not None
        return self._store(EventRecord(self.epoch, self.writer.made + 1, event), then, now)

    def _store_join(self, join: Join, joined: Joined, then: list[Effect], now: float) -> list[Effect]:
        assert self.writer is not None
        for record in self.writer.unconfirmed.values():
            if isinstance(record, JoinRecord) and record.registration == join.registration:
                return []  # sent again while it is being stored: the first will be answered
        record = JoinRecord(self.epoch, self.writer.made + 1, join.registration, joined.reached)
        return self._store(record, then, now)

    def _store(self, record: Written, then: list[Effect], now: float) -> list[Effect]:
        """Put the next record into the lane; `then` follows when it is there."""
        assert self.writer is not None
        self._then[record.index] = then
        return self.writer.append(record, now)

    def _stored(self, records: list[Written], now: float) -> list[Effect]:
        """Records are safe: now their events are published, acknowledged and freed."""
        effects: list[Effect] = []
        for record in records:
            for effect in self._then.pop(record.index, ()):
                effects += self._reach(effect, now)
        return effects

    def _repair(self, nack: Nack, now: float) -> list[Effect]:
        if nack.topic not in self.managers:
            return []
        epochs = tuple(self.notices[epoch] for epoch in sorted(self.notices) if epoch > nack.epoch)
        if len(nack.numbers) > REPAIRS_MAX:
            nack = msgspec.structs.replace(nack, numbers=nack.numbers[:REPAIRS_MAX])
        repair = self.emitter.repair(nack, epochs)
        if not repair.gone or not self.chronicler.is_kept:
            return [Send(nack.subscriber, repair)]
        deeper = Nack(nack.topic, nack.subscriber, repair.gone)
        repair = msgspec.structs.replace(repair, gone=())
        return [Send(nack.subscriber, repair), *self.chronicler.mend(deeper, now)]

    def _retire(self, now: float) -> None:
        """Serve no epoch: forget everything that is not stored."""
        self.managers = {}
        self.writer = None
        self._then = {}
        self.emitter.forget(self.epoch)
        self.frozen_until = self.planner_of = None
