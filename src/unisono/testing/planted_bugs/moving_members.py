"""Weakened members and subscribers in a world that moves: each breaks one rule of the real one, and only that."""

from __future__ import annotations

from collections.abc import Hashable

from unisono.engines.effects import Announce, Effect, Listen, Send
from unisono.engines.inputs import Input, Notified
from unisono.engines.takeover.control import Control
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.moving import EPOCH, MovingSubscriber
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.frames import EpochNotice, Join, Joined, Routed, Stamped

# Members.


class SetsEveryClock(Member):
    """Takes what a join brings back for its whole clock, old topics too (000 and 001, COMPLETED)."""

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        due = bool(self.new) and joined.version == self.version
        effects = super()._joined(joined, now)
        if due:
            for topic in self.inner.clock:
                self.inner.clock[topic] = self.inner.reached[topic] = joined.reached[topic]
        return effects


class ListensLate(Member):
    """Subscribes at the event notification service only when the join is complete (001, Lemma 6)."""

    def _join_next(self, now: float) -> list[Effect]:
        return [effect for effect in super()._join_next(now) if not isinstance(effect, Listen)]

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        return [Listen(tuple(sorted(self.new))), *super()._joined(joined, now)]


class TellsLeaves(Member):
    """Tells the managers at once what it still holds, each on a link of its own (000 and 001, UPDATE_SUB)."""

    def _leave(self, topics: tuple[str, ...], now: float) -> list[Effect]:
        before = self.topics
        effects = super()._leave(topics, now)
        if self.control is None or self.topics == before:
            return effects
        self.version += 1
        self.held = self.topics
        update = Join(self.registration(self.topics), (), self.control.epoch, {}, ())
        return effects + [Send(self.control.owner[t], Routed(t, update)) for t in sorted(before)]


class ForgetsWhatItHeld(Member):
    """Registers only what it holds now: nobody learns that it held another topic before."""

    def _join_next(self, now: float) -> list[Effect]:
        if not self.new:
            self.held = frozenset(self.inner.clock)
        return super()._join_next(now)


class TakesAnyAnswer(Member):
    """Takes the answer to a join that it gave up for the answer to the present one."""

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        if not self.new or not self.new <= joined.reached.keys():
            return []
        return super()._joined(Joined(self.version, joined.new, joined.epoch, joined.reached), now)


class JoinsAtOnce(Member):
    """Starts a second join while the first is under way; the answer to the first is then for nobody."""

    def _join_next(self, now: float) -> list[Effect]:
        pending, self.new = self.new, frozenset()
        effects = super()._join_next(now)
        self.new = self.new or pending
        return effects


class ClimbsAnyway(Member):
    """Sends its join up from the lowest topic, also where not all its topics are on that way."""

    def _send_join(self, now: float) -> list[Effect]:
        control = self.control
        if control is None or not self.new or control.is_light(self.held):
            return super()._send_join(now)
        climb = control.plan.climb(max(self.held, key=control.plan.rank.index))
        new = tuple(sorted(self.new))
        join = Join(self.registration(self.held), new, control.epoch, {}, climb[1:])
        return [Send(control.owner[climb[0]], Routed(climb[0], join))]

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        return super()._joined(joined, now) if self.new <= joined.reached.keys() else []


class TellsJoins(Member):
    """Tells everybody of its join, on each topic, with the numbers it took (001, subscriptionUpdate)."""

    def _joined(self, joined: Joined, now: float) -> list[Effect]:
        due = bool(self.new) and joined.version == self.version
        effects = super()._joined(joined, now)
        if due:
            for topic, number in joined.reached.items():
                self._raise(topic, number)
            self.inner._out = []
            self.inner._release_all()
            effects += self._reroute(self.inner._out) + self._updates(joined)
        return effects

    def _updates(self, joined: Joined) -> list[Effect]:
        return [Announce((t,), EpochNotice(0, joined.reached, {t: ()})) for t in sorted(joined.reached)]

    def _raise(self, topic: str, number: int) -> None:
        """Its own join is no gap to itself."""
        inner = self.inner
        if topic in inner.clock and inner.reached[topic] == number - 1:
            inner._pass(topic, number)
            inner.clock[topic] = number


class TellsJoinsOnce(TellsJoins):
    """Tells everybody of its join once, whatever they share with it."""

    def _updates(self, joined: Joined) -> list[Effect]:
        return [Announce(tuple(sorted(joined.reached)), EpochNotice(0, joined.reached))]


# Subscribers.


class _ReadsUpdates(MovingSubscriber):
    """Keeps subscription updates until a rule lets them raise the clock."""

    updates: tuple[EpochNotice, ...] = ()

    def may_take(self, update: EpochNotice) -> bool:
        """The rule."""
        raise NotImplementedError

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Look at the updates after every input."""
        if isinstance(input, Notified) and isinstance(input.notification, EpochNotice):
            self.updates += (input.notification,)
            effects: list[Effect] = []
        else:
            effects = super().handle(input, now)
        while ready := [update for update in self.updates if self.may_take(update)]:
            self.updates = tuple(update for update in self.updates if update != ready[0])
            self._out = []
            for topic in self.clock:
                number = ready[0].numbers.get(topic, 0)
                if number > self.reached[topic]:
                    self.clock[topic] = self.reached[topic] = number
                    self.admit(topic, number)
            self._release_all()
            effects = effects + self._settle()
        return effects

    def next_are(self, update: EpochNotice, topics: set[str]) -> bool:
        """Whether the update is the next of all these topics."""
        return all(update.numbers.get(x) == self.clock[x] + 1 for x in topics)

    def state(self) -> Hashable:
        """The updates too."""
        return (super().state(), tuple(map(str, self.updates)))


class UpdateOfAllTopics(_ReadsUpdates):
    """An update counts only if it is the next of every topic held, in it or not (001, as written)."""

    def may_take(self, update: EpochNotice) -> bool:
        """All but the topic it came on."""
        return self.next_are(update, set(self.clock) - set(update.voids))


class UpdateExceptItsTopic(_ReadsUpdates):
    """An update counts whatever is missing on the topic it came on (001, "except T")."""

    def may_take(self, update: EpochNotice) -> bool:
        """The shared topics but the one it came on."""
        return self.next_are(update, set(self.clock) & set(update.numbers) - set(update.voids))


class UpdateOfSharedTopics(_ReadsUpdates):
    """An update counts if it is the next, or an old one, of every shared topic (001, repaired)."""

    def may_take(self, update: EpochNotice) -> bool:
        """Old ones do no harm."""
        return all(update.numbers[x] <= self.clock[x] + 1 for x in self.clock if x in update.numbers)


class EveryEntryEqualMoving(MovingSubscriber):
    """Surely next only if every other entry equals the clock (001, isNext)."""

    def blocker(self, event: Stamped) -> str | None:
        """An entry that is behind the clock blocks for ever."""
        for x, number in event.entries.items():
            if x in self.reached and self.reached[x] != (number - 1 if x == event.topic else number):
                return x
        return None

    def _is_next(self, event: Stamped) -> bool:
        return self.blocker(event) is None and super()._is_next(event)


class OwnNumberOnlyMoving(MovingSubscriber):
    """Untagged if the own number is larger, whatever the other entries say."""

    def is_clean(self, event: Stamped) -> bool:
        """The second clause is missing."""
        return event.epoch >= self.epoch and event.number > self.clock[event.topic]


class EntersAtOnce(MovingSubscriber):
    """Delivers events of the next epoch before everything of the one before is behind it."""

    def blocker(self, event: Stamped) -> str | None:
        """Epochs are not waited for."""
        waits_for = super().blocker(event)
        return Subscriber.blocker(self, event) if waits_for == EPOCH else waits_for

    def check(self) -> None:
        """Nothing to be sure of."""


class IgnoresEpochs(MovingSubscriber):
    """Compares numbers and not epochs when it tags."""

    def is_clean(self, event: Stamped) -> bool:
        """The epoch is not asked for."""
        return Subscriber.is_clean(self, event)

    def _learn_epoch(self, notice: EpochNotice) -> None:
        self.epochs.add(notice)
        for topic in list(self.clock):
            self._skip_voids(topic, notice)
        self._release_all()

    def _enter(self, epoch: int) -> None:
        self.epoch = epoch


# The control record.


class DirectControl(Control):
    """Joins hop straight from one topic to the next (000 and 001)."""

    __slots__ = ()

    def join_path(self, topics: object) -> tuple[str, ...]:
        """No transit."""
        assert isinstance(topics, frozenset)
        return tuple(topic for topic in reversed(self.plan.rank) if topic in topics)
