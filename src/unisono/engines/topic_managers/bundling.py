"""Many events at once: a bundle is numbered, stored and announced as one, where its managers live together.

Where all topics that share subscribers with those of a bundle are on one node, and so is every other that lies between
them in the plan, nothing is ever between two managers, and what each knows of a lower-ranked topic is that topic's
newest number. So the stamps of a whole bundle follow from one clock and the order of its events: the same stamps that
its events would get one by one (a test compares them). A bundle that comes again is answered as it was. Whatever is not
as plain as that is taken apart, and goes the way of single events.
"""

from __future__ import annotations

from typing import TypeAlias

from unisono.engines.effects import Announce, Effect, Reject, Send
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.writer import LaneWriter, Written
from unisono.engines.topic_managers.hosting import Hosting
from unisono.engines.topic_managers.manager import STAMP_WORD, TopicManager
from unisono.engines.topic_managers.routing import ToManager
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.bundles import Bundle, SequencedBundle, StampedBundle
from unisono.model.errors import FrameError
from unisono.model.frames import Create, Publication, Routed, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.lanes import BundleRecord, EventRecord
from unisono.model.runs import creates_of

Neighbours: TypeAlias = tuple[frozenset[str], tuple[str, ...]]


class Bundling(Hosting):
    """A node's managers, for bundles."""

    def __init__(self, name: str, settings: NodeSettings, managers: ManagerSettings) -> None:
        super().__init__(name, settings, managers)
        self._neighbours: dict[
            str, tuple[Neighbours, bool]
        ] = {}  # topic -> its group and path, and whether they are all here
        self._at_once: dict[
            int, Sequenced
        ] = {}  # index of a record -> the place of its event, numbered at once

    def _bundle(self, source: str, bundle: Bundle, now: float) -> list[Effect]:
        """A publisher wants many events numbered."""
        if bundle.publisher != source and not self.is_peer(source):
            return [Reject(FrameError(f"'{source}' speaks for '{bundle.publisher}'"))]
        if not bundle.is_sound:
            return [Reject(FrameError(f"a bundle of '{source}' that is none"))]
        return self._take_bundle(bundle, now)

    def _take_bundle(self, bundle: Bundle, now: float) -> list[Effect]:
        if self.waits:
            if self._has_room(len(self.waiting), bundle):  # whoever asks will ask again
                self.waiting.append(bundle)
            return []
        if self.writer is None or self.writer.state == "stopped":
            return []
        if not self._is_plain(bundle):
            return self._one_by_one(bundle, now)
        before = [self.managers[part.topic].seen_before(bundle, i) for i, part in enumerate(bundle.parts)]
        if None in before:
            return []
        if any(before):
            again = self._answer_again(bundle)
            return self._one_by_one(bundle, now) if again is None else again
        return self._sequence(bundle, now)

    def _answer_again(self, bundle: Bundle) -> list[Effect] | None:
        """What is said of a bundle that comes again; None if it is not one that was numbered as it is."""
        life = bundle.publisher, bundle.incarnation
        seen = [self.managers[part.topic].seen.get(life) for part in bundle.parts]
        found = [None if one is None else one.numbered_with(bundle, i) for i, one in enumerate(seen)]
        if None in found or any(self.managers[part.topic].is_closed for part in bundle.parts):
            return None
        known = found[0]
        if not isinstance(known, StampedBundle):
            return []  # it is being numbered, and will be answered
        answer = SequencedBundle(bundle.incarnation, bundle.serial, known.epoch, known.clock, known.groups)
        return [Send(bundle.publisher, answer)]

    def _resume(self, waited: Routed | Bundle, now: float) -> list[Effect]:
        """Take what has waited: whether an event is too large is known where its manager is."""
        if isinstance(waited, Bundle):
            return self._take_bundle(waited, now)
        if isinstance(waited.message, Create):
            return self._received(waited.message.publication.publisher, waited, now)
        return self._routed(waited, now)

    def _one_by_one(self, bundle: Bundle, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for publication, after in creates_of(bundle):
            create = Create(publication, bundle.acknowledged, after)
            effects += self._received(bundle.publisher, Routed(publication.topic, create), now)
        return effects

    def _is_plain(self, bundle: Bundle) -> bool:
        """Whether everything that its stamps depend on is here, and the record of it will fit."""
        managers: list[TopicManager] = []
        for part in bundle.parts:
            manager = self.managers.get(part.topic)
            if manager is None or manager.settings.stamps != "full" or not self._is_whole(manager):
                return False
            managers.append(manager)
        limit = self.settings.event_bytes_max
        return not limit or bundle.size + self._stamp_bytes(managers) <= limit

    def _stamp_bytes(self, managers: list[TopicManager]) -> int:
        """How many bytes the stamps of a bundle take at most, with the names of topics everywhere in its record."""
        names = [*frozenset[str]().union(*[manager.group for manager in managers])]
        for manager in managers:
            names += (manager.topic, manager.topic)
        stamps = sum([len(manager.group) for manager in managers])
        return sum([len(x.encode()) for x in names]) + STAMP_WORD * (len(names) + stamps)

    def _is_whole(self, manager: TopicManager) -> bool:
        """Whether every manager that shares subscribers with this one is here, and what is on the way between them."""
        neighbours = (manager.group, manager.path)
        known = self._neighbours.get(manager.topic)
        if known is None or known[0] != neighbours:
            topic, plan = manager.topic, manager.plan
            below = [plan.climb(x) for x in manager.below]
            between = {y for climb in below if topic in climb for y in climb[: climb.index(topic)]}
            here = all(topic in climb for climb in below)
            here = here and all(x in self.managers for x in (*manager.group, *manager.path, *between))
            known = self._neighbours[topic] = (neighbours, here)
        return known[1]

    def _local(self, topic: str, message: ToManager, now: float) -> list[Effect]:
        """Hand a message to a manager that lives here; an event that needs no other node is numbered at once."""
        manager, writer = self.managers.get(topic), self.writer
        if type(message) is not Create or manager is None or manager.settings.stamps != "full":
            return super()._local(topic, message, now)
        if writer is None or writer.state == "stopped" or not self._is_whole(manager):
            return super()._local(topic, message, now)
        if (answered := manager.admit(message)) is not None:
            return self._carry_on(answered, now)
        return self._number(manager, writer, message.publication, now)

    def _take_next(self, source: str, topic: str, create: Create, now: float) -> list[Effect] | None:
        """Number an event that has nothing in its way, as nearly all have; None, and nothing is done, if it has."""
        manager, writer, publication = self.managers.get(topic), self.writer, create.publication
        if manager is None or writer is None or writer.state != "open" or self.waits:
            return None
        if publication.publisher != source or publication.topic != topic or publication.headers is not None:
            return None
        if manager.settings.stamps != "full" or not self._is_whole(manager):
            return None
        size = manager.stamp_bytes + len(publication.body) + 4 * len(source)  # as `bytes_of` has it
        if 0 < self.settings.event_bytes_max < size:
            return None
        if not manager.admit_next(create):
            return None
        return self._number(manager, writer, publication, now)

    def _number(
        self, manager: TopicManager, writer: LaneWriter, publication: Publication, now: float
    ) -> list[Effect]:
        """Number an event that is admitted and needs no other node."""
        topic, number, entries = manager.topic, manager.take_number(), {}
        for x in manager.group:
            entries[x] = self.managers[x].number
        for x in manager.above:
            self.managers[x].hear_of(topic, number)
        event = Stamped(publication, self.epoch, entries)
        id = EventId(publication.publisher, publication.incarnation, publication.n)
        answer = Sequenced(topic, id, self.epoch, entries)
        index = writer.made + 1
        self._at_once[index] = answer
        then: list[Effect] = [Announce((topic,), event), Send(publication.publisher, answer)]
        return self._tell(EventRecord(self.epoch, index, event), then, now)

    def _sequence(self, bundle: Bundle, now: float) -> list[Effect]:
        """Number all of it, and store it."""
        managers = [self.managers[part.topic] for part in bundle.parts]
        names = sorted(frozenset[str]().union(*[manager.group for manager in managers]))
        clock = {x: self.managers[x].number for x in names}
        for i, manager in enumerate(managers):
            manager.number_all(bundle, i)
            for x in manager.above:
                self.managers[x].hear_of(manager.topic, manager.number)
        places = {x: i for i, x in enumerate(names)}
        alike = all(len(manager.group) == len(names) for manager in managers)
        stamped = bundle.stamped(
            self.epoch,
            self.name,
            0 if self.writer is None else self.writer.made + 1,
            clock,
            () if alike else tuple(tuple(sorted(places[x] for x in manager.group)) for manager in managers),
        )
        answer = SequencedBundle(bundle.incarnation, bundle.serial, self.epoch, clock, stamped.groups)
        then: list[Effect] = [Announce((piece.parts[0].topic,), piece) for piece in stamped.pieces()]
        then.append(Send(bundle.publisher, answer))
        assert self.writer is not None
        return self._tell(BundleRecord(self.epoch, self.writer.made + 1, stamped), then, now)

    def _tell(self, record: Written, then: list[Effect], now: float) -> list[Effect]:
        """Store what was numbered at once, and tell of it; not the other way round where something is not stored yet."""
        if self.settings.tells_first and self.writer is not None and self.writer.state == "open":
            return then + self._store(record, [], now)
        return self._store(record, then, now)

    def _stored(self, records: list[Written], now: float) -> list[Effect]:
        """Records are safe; the events of bundles have left their managers."""
        effects: list[Effect] = []
        for record in records:
            answer = self._at_once.pop(record.index, None)
            if answer is not None and type(record) is EventRecord:
                effects += self._left(record.event, answer, self._then.pop(record.index, []), now)
                continue
            effects += super()._stored([record], now)
            if isinstance(record, BundleRecord):
                bundle, outline = record.bundle, record.bundle.outline(())
                self.emitter.keep_bundle(bundle, now)
                for place, part in enumerate(bundle.parts):
                    manager = self.managers.get(part.topic)
                    if manager is not None:
                        effects += manager.finish_all(bundle, place, outline)
                        effects += self._carry_on(manager.unpark(now), now)
        return effects

    def _left(self, event: Stamped, answer: Sequenced, then: list[Effect], now: float) -> list[Effect]:
        """An event that was numbered at once is safe."""
        self.emitter.keep(event, now)
        manager = self.managers.get(answer.topic)
        if manager is None:
            return then
        answered = manager.finish(event, answer)
        if manager.draining:
            answered = answered + self._carry_on(manager.unpark(now), now)
        return then + answered if answered else then

    def _retire(self, now: float) -> None:
        super()._retire(now)
        self._neighbours, self._at_once = {}, {}
