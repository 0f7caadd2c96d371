"""A subscriber in a world that moves: topics are joined while events flow, and epochs follow each other.

Events of a topic that is being joined wait until it is known from where on they are owed; in exact mode, so do
events whose stamps name it. Events of a later epoch wait until everything of the one before is behind us, as the
epoch's notice tells (exact mode); who never waits compares epochs instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from unisono.engines.effects import Effect, Fail
from unisono.engines.inputs import Input, Notified
from unisono.engines.topic_managers.epochs import Epochs
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.errors import LeaseError
from unisono.model.frames import EpochNotice, Heartbeat, Nack, Repair, Stamped

EPOCH, JOIN = (
    "the next epoch",
    "the join under way",
)  # what an event may wait for beside a topic, which has no spaces


class MovingSubscriber(Subscriber):
    """A `Subscriber` whose topics and epochs change."""

    def __init__(self, name: str, settings: SubscriberSettings) -> None:
        super().__init__(name, {}, settings)
        self.epochs = Epochs(self.epoch)
        self.joining: dict[str, list[Stamped]] = {}  # topics being joined, and what came of them meanwhile

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if self.failed:
            return []
        if isinstance(input, Notified) and isinstance(input.notification, EpochNotice):
            self._out = []
            self._learn_epoch(input.notification)
        else:
            if isinstance(input, Notified) and isinstance(input.notification, Heartbeat):
                self._hear_of(input.notification.epoch, input.notification.topic, now)
            super().handle(input, now)
        return self._settle()

    def begin_join(self, topics: Iterable[str]) -> None:
        """Events of these topics wait until it is known from where on they are owed."""
        for topic in topics:
            self.joining.setdefault(topic, [])

    def end_join(self, floors: Mapping[str, int], epoch: int, now: float) -> list[Effect]:
        """From these numbers on the topics are owed; epochs before `epoch` do not concern a newcomer."""
        self._out = []
        if not self.clock:
            self.epoch = max(self.epoch, epoch)
        early = []
        for topic, floor in floors.items():
            early += self.joining.pop(topic, [])
            self.admit(topic, floor)
            for notice in self.epochs.known():
                self._skip_voids(topic, notice)
        for event in early:
            self._take(event, now)
        self._release_all()
        return self._settle()

    def cancel_join(self, topic: str) -> list[Effect]:
        """A topic is not wanted after all."""
        self._out = []
        self.joining.pop(topic, None)
        self._release_all()
        return self._settle()

    def dismiss(self, topic: str) -> list[Effect]:
        """Owe nothing of a topic any more; an epoch may have waited only for it."""
        super().dismiss(topic)
        return self._settle()

    # Arrivals.

    def _take(self, event: Stamped, now: float) -> None:
        early = self.joining.get(event.topic)
        if early is None:
            self._hear_of(event.epoch, event.topic, now)
            super()._take(event, now)
        elif len(early) < self.settings.hold_max:
            early.append(event)

    def _take_bounded(self, event: Stamped, now: float) -> None:
        if not self.room or event.epoch <= self.epoch or self._is_told_of(event.epoch):
            super()._take_bounded(event, now)
            return
        self.held.put(event, now)  # the notice of its epoch may still come in time
        while len(self.held) > self.room:
            self._force(self.held.oldest_first_in_order())

    def _take_repair(self, repair: Repair, now: float) -> None:
        for notice in repair.epochs:
            self._learn_epoch(notice)
        if not self.failed:
            super()._take_repair(repair, now)

    def _nack(self, topic: str) -> Nack | None:
        numbers = self._holes(topic)
        if not numbers and not self.epochs.lacks(self.epoch):
            return None
        return Nack(topic, self.name, numbers, self.epochs.newest(self.epoch))

    # Rules.

    def may_be_of(self, epoch: int) -> bool:
        """Any epoch may come along; the rules below sort them."""
        return True

    def is_clean(self, event: Stamped) -> bool:
        """Whether it may be delivered untagged: not if a later epoch has been heard of from its like.

        Nor before the notices up to its epoch are here: one of them may say that we are gone.
        """
        if event.epoch != self.epoch and not self._is_told_of(event.epoch):
            return False
        return super().is_clean(event)

    def _is_told_of(self, epoch: int) -> bool:
        return self.epoch < epoch <= self.epochs.newest(self.epoch)

    def blocker(self, event: Stamped) -> str | None:
        """What an event must wait for, if anything: a topic, a join, or an epoch."""
        if event.epoch > self.epoch:
            return EPOCH
        if self.joining and not self.joining.keys().isdisjoint(event.entries):
            return JOIN
        return super().blocker(event)

    # Leaving.

    def _release_all(self) -> None:
        """Something other than a delivery has changed what may go."""
        for topic in list(self.clock):
            self._release(topic)

    def _deliver(self, event: Stamped) -> None:
        if event.epoch > self.epoch:
            self._enter(event.epoch)  # never while exact: there it waits for the epoch
        super()._deliver(event)

    # Epochs.

    def _learn_epoch(self, notice: EpochNotice) -> None:
        """An epoch has begun somewhere: its voids leave no gap, and we enter it once all before it is behind us."""
        if self.failed or (notice.epoch <= self.epoch and self.exact) or not self.epochs.add(notice):
            return
        if self.name in notice.gone and notice.epoch > self.epoch and self.clock:
            self.failed = True
            self._out.append(Fail(LeaseError(self.name, notice.epoch)))
            return
        for topic in list(self.clock):
            self._skip_voids(topic, notice)
        if notice.epoch <= self.epoch:
            self._raise_to(notice)
        self._release_all()

    def _skip_voids(self, topic: str, notice: EpochNotice) -> None:
        for first, last in notice.voids.get(topic, ()):
            nearest = min(last, self.reached[topic] + self.far)
            for number in range(max(first, self.passed[topic].floor + 1), nearest + 1):
                self._pass(topic, number)

    def _enter_if_due(self) -> bool:
        """Enter the next epoch when everything of the one before is behind us."""
        notice = self.epochs.after(self.epoch)
        if notice is None or self.joining or self.failed:
            return False
        if any(self.reached[topic] < notice.numbers.get(topic, 0) for topic in self.clock):
            return False
        self._enter(notice.epoch)
        return True

    def _enter(self, epoch: int) -> None:
        self.epoch = epoch
        for notice in self.epochs.known():
            if notice.epoch <= epoch:
                self._raise_to(notice)

    def _raise_to(self, notice: EpochNotice) -> None:
        """What an epoch begins with is behind whoever is in it."""
        for topic in self.clock:
            number = notice.numbers.get(topic, 0)
            self.clock[topic] = max(self.clock[topic], number)
            self.reached[topic] = max(self.reached[topic], number)

    def _hear_of(self, epoch: int, topic: str, now: float) -> None:
        """Somebody is in this epoch: ask about it if we were not told."""
        self.epochs.hear_of(epoch)
        if topic in self.clock and self.epochs.lacks(self.epoch):
            self.missing.ask(topic, now)

    def _settle(self) -> list[Effect]:
        while self._enter_if_due():
            self._release_all()
        return self._out

    # For the explorer and the simulator.

    def copy(self) -> MovingSubscriber:
        """An independent twin."""
        twin = super().copy()
        assert isinstance(twin, MovingSubscriber)
        twin.epochs = self.epochs.copy()
        twin.joining = {topic: list(events) for topic, events in self.joining.items()}
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two subscribers would behave alike from now on."""
        joining = tuple((topic, tuple(map(str, events))) for topic, events in sorted(self.joining.items()))
        return (super().state(), self.epoch, self.epochs.state(), joining)
