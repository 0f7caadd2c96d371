"""Bugs that a moving world must show: engines with one rule broken, to see that the simulator is not blind."""

from __future__ import annotations

from collections.abc import Container

from unisono.engines.effects import Effect
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.moving import EPOCH, MovingSubscriber
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.bundles import Bundle
from unisono.model.frames import Join, Joined, Stamped
from unisono.model.lanes import EventRecord, JoinRecord
from unisono.sim.moving.processes import Makers
from unisono.testing.planted_bugs.moving_nodes import (
    AnswersKeysEarly,
    ConfirmsWhatIsStored,
    ForgetsKeys,
    with_finisher,
    with_manager,
    with_writer,
)
from unisono.testing.planted_bugs.open_engines import CutsTooFar, ForgetsPatterns


class Resumes(ManagerNode):
    """A restarted node goes on in the epoch it finds."""

    def _is_spoiled(self) -> bool:
        return False


class AcknowledgesEarly(ManagerNode):
    """An event is out when it has its stamp, stored or not (CE-30)."""

    def _store_event(self, event: Stamped, then: list[Effect], now: float) -> list[Effect]:
        assert self.writer is not None
        effects = self._store(EventRecord(self.epoch, self.writer.made + 1, event), [], now)
        return effects + [out for effect in then for out in self._reach(effect, now)]

    def _sequence(self, bundle: Bundle, now: float) -> list[Effect]:
        append = super()._sequence(bundle, now)
        assert self.writer is not None
        then, self._then[self.writer.made] = self._then[self.writer.made], []
        return append + then


class AnswersJoinsEarly(ManagerNode):
    """A join is answered before it is stored (CE-33)."""

    def _store_join(self, join: Join, joined: Joined, then: list[Effect], now: float) -> list[Effect]:
        assert self.writer is not None
        record = JoinRecord(self.epoch, self.writer.made + 1, join.registration, joined.reached)
        effects = self._store(record, [], now)
        return effects + [out for effect in then for out in self._reach(effect, now)]


class KeepsItsCounters(ManagerNode):
    """A survivor goes on counting where it was, instead of where the lanes end (CE-28)."""

    def _retire(self, now: float) -> None:
        self.former = {topic: manager.number for topic, manager in self.managers.items()}
        super()._retire(now)

    def _manager(self, *args: object) -> TopicManager:
        manager: TopicManager = super()._manager(*args)  # type: ignore[arg-type]
        manager.number = max(manager.number, getattr(self, "former", {}).get(manager.topic, 0))
        return manager


class _Hasty(MovingSubscriber):
    def blocker(self, event: Stamped) -> str | None:
        found = super().blocker(event)
        return None if found == EPOCH else found


class IgnoresEpochs(Member):
    """Does not wait for the end of an epoch before it delivers from the next (CE-31)."""

    def __init__(self, name: str, settings: SubscriberSettings, **more: float) -> None:
        super().__init__(name, settings, **more)  # type: ignore[arg-type]
        self.inner = _Hasty(name, settings)


class NeverSendsAgain(Publisher):
    """What dies with its node is gone."""

    def _resend(self, now: float, topics: Container[str] | None = None) -> list[Effect]:
        self.resend_at = None
        return []


MOVING_BUGS: dict[str, Makers] = {
    "resumes": Makers(node=Resumes),
    "acknowledges-early": Makers(node=AcknowledgesEarly),
    "answers-joins-early": Makers(node=AnswersJoinsEarly),
    "keeps-its-counters": Makers(node=KeepsItsCounters),
    "ignores-epochs": Makers(member=IgnoresEpochs),
    "never-sends-again": Makers(publisher=NeverSendsAgain),
    "forgets-patterns": Makers(node=with_finisher(ForgetsPatterns)),
    "cuts-too-far": Makers(node=CutsTooFar),
    "forgets-keys": Makers(node=with_finisher(ForgetsKeys)),
    "answers-keys-early": Makers(node=with_manager(AnswersKeysEarly)),
    "confirms-what-is-stored": Makers(node=with_writer(ConfirmsWhatIsStored)),
}
