"""Weakened engines: each breaks one rule of the real one, and only that."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.engines.effects import Deliver, Effect, Lose
from unisono.engines.inputs import Input, Notified, Received, Tick
from unisono.engines.links import LinkEffect, Links, Transmit
from unisono.engines.plan import Conflicts, Plan, rank_line
from unisono.engines.topic_managers.manager import TopicManager
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.seen import Seen
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.frames import Completed, Entries, Fill, Packet, Publication, Sequenced, Stamped

# Subscribers.


class AnyEntryLarger(Subscriber):
    """Untagged if no entry is smaller and any is larger (000, Definition 3)."""

    def is_clean(self, event: Stamped) -> bool:
        """The own number need not be the larger one."""
        common = {x: n for x, n in event.entries.items() if x in self.clock}
        return all(n >= self.clock[x] for x, n in common.items()) and any(
            n > self.clock[x] for x, n in common.items()
        )


class OwnNumberOnly(Subscriber):
    """Untagged if the own number is larger, whatever the other entries say."""

    def is_clean(self, event: Stamped) -> bool:
        """The second clause is missing."""
        return event.number > self.clock[event.topic]


class NeverTags(Subscriber):
    """Lets everything go untagged, early or late."""

    def is_clean(self, event: Stamped) -> bool:
        """Nobody looks."""
        return True


class LateUntagged(Subscriber):
    """Knows what is late, delivers it, and does not say so."""

    def _late(self, event: Stamped) -> None:
        self._out.append(Deliver([event]))
        self._pass(event.topic, event.number)


class EveryEntryEqual(Subscriber):
    """Surely next only if every other entry equals the clock (000, Section 5)."""

    def blocker(self, event: Stamped) -> str | None:
        """An entry that is behind the clock blocks for ever."""
        for x, number in event.entries.items():
            if x in self.reached and self.reached[x] != (number - 1 if x == event.topic else number):
                return x
        return None


class EveryEntryCounts(Subscriber):
    """Counts all entries of a stamp, subscribed or not (001, isNext)."""

    def blocker(self, event: Stamped) -> str | None:
        """An entry of a topic that is not held can never be reached."""
        strange = next((x for x in event.entries if x not in self.clock), None)
        return super().blocker(event) or strange


class IsNextAsWritten(EveryEntryEqual):
    """Every entry of a stamp counts, subscribed or not, and all but the own one equal the clock (001, isNext)."""

    def blocker(self, event: Stamped) -> str | None:
        """As `EveryEntryEqual` and `EveryEntryCounts`."""
        strange = next((x for x in event.entries if x not in self.clock), None)
        return super().blocker(event) or strange


class ClockStandsStill(Subscriber):
    """After a delivery the clock is set to what it was (001 Figure 3, lines 14 and 25)."""

    def _deliver(self, event: Stamped) -> None:
        clock, reached = dict(self.clock), dict(self.reached)
        super()._deliver(event)
        self.clock, self.reached = clock, reached


class ClockNotMerged(Subscriber):
    """A delivery moves the clock of its own topic only."""

    def _deliver(self, event: Stamped) -> None:
        others = {x: (self.clock[x], self.reached[x]) for x in self.clock if x != event.topic}
        super()._deliver(event)
        for x, (clock, reached) in others.items():
            self.clock[x], self.reached[x] = clock, reached


class DeliversAgain(Subscriber):
    """Does not remember what it delivered."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """What comes twice is delivered twice."""
        match input:
            case Notified(Stamped() as event) if event.number in self.passed[event.topic]:
                return [Deliver([event])]
        return super().handle(input, now)


class LossNotPassed(Subscriber):
    """Declares a number lost and goes on waiting for it."""

    def _lose(self, topic: str, numbers: tuple[int, ...]) -> None:
        self._out.append(Lose(topic, numbers))


class SleepsAfterLoss(Subscriber):
    """Passes over a lost number but does not look who waited for it."""

    def _lose(self, topic: str, numbers: tuple[int, ...]) -> None:
        self._out.append(Lose(topic, numbers))
        for number in numbers:
            self._pass(topic, number)


class WakesOwnTopicOnly(Subscriber):
    """A delivery wakes the next event of its own topic, and no event of another topic that waits for it."""

    def _release(self, topic: str) -> None:
        while (event := self.held.get(topic, self.reached[topic] + 1)) is not None:
            if self.blocker(event) is not None:
                return
            self.held.pop(event)
            self._deliver(event)


# Managers, plans and publishers.


class NeverLearns(TopicManager):
    """Takes no notice of the stamps that pass by: what it knows of lower topics never advances."""

    def learn(self, entries: Entries) -> None:
        """Nothing."""


class ForgetsRequests(TopicManager):
    """Numbers a repeated request once more."""

    def _seen_of(self, publisher: str, incarnation: int) -> Seen:
        return Seen(self.topic, self.settings.seen_max)


class AnswersWithoutStamp(TopicManager):
    """In return mode answers a repeated request like one that somebody else publishes."""

    def _answer(self, known: Sequenced) -> Sequenced | Completed:
        return known


class CountsWhenFilling(TopicManager):
    """Takes a number of its own when it fills the stamp of another topic."""

    def _fill(self, fill: Fill, now: float) -> list[Effect]:
        if self.topic in fill.need:
            self.number += 1
        return super()._fill(fill, now)


class NoHeartbeats(TopicManager):
    """Never tells its newest number."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Timers come to nothing."""
        return [] if isinstance(input, Tick) else super().handle(input, now)


class DirectPlan(Plan):
    """Every event hops straight from one member of its group to the next (000, 001)."""

    __slots__ = ()

    def path(self, topic: str) -> tuple[str, ...]:
        """No transit: that is where one event overtakes another."""
        return (topic, *reversed(self.above(topic)))

    def path_to(self, topic: str, above: tuple[str, ...]) -> tuple[str, ...]:
        """Nor when the group has grown."""
        return (topic, *reversed(above))


def direct(conflicts: Conflicts, rank: Sequence[str]) -> Plan:
    """The papers' plan: groups in rank order, no transit."""
    lawful = rank_line(conflicts, rank=rank)
    return DirectPlan(rank=lawful.rank, parent=lawful.parent, group=lawful.group)


class NeverWaits(Publisher):
    """Sends the next event before the last one has its place."""

    def may_send(self, publication: Publication) -> bool:
        """Always."""
        return True


def never_waits(causal: bool) -> Publisher:
    """A publisher that does not wait, though it was asked to."""
    return NeverWaits(causal=causal)


# Links.


class OvertakingLinks(Links):
    """Hands messages on as they arrive."""

    def arrived(self, source: str, packet: Packet, size: int, now: float) -> list[LinkEffect]:
        """In any order."""
        link = self._link(source)
        if packet.message is None or packet.number <= link.heard or packet.number in link.early:
            return super().arrived(source, packet, size, now)
        effects: list[LinkEffect] = []
        effects += self.engine.handle(Received(source, packet.message), now)
        link.early[packet.number] = packet.message
        while link.heard + 1 in link.early:
            link.heard += 1
            del link.early[link.heard]
        return [*effects, Transmit(source, Packet(0, link.heard))]


class RepeatingLinks(Links):
    """Hands on what arrives twice, twice."""

    def arrived(self, source: str, packet: Packet, size: int, now: float) -> list[LinkEffect]:
        """As often as it comes."""
        link = self._link(source)
        again = packet.message is not None and packet.number == link.heard
        effects = super().arrived(source, packet, size, now)
        if again and packet.message is not None:
            effects += self.engine.handle(Received(source, packet.message), now)
        return effects


class SilentLinks(Links):
    """Never repeats what was lost."""

    def _retries(self, now: float) -> list[LinkEffect]:
        return []
