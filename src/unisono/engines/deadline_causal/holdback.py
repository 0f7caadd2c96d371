"""What every receiver does, broker or subscriber: hold an event until its past is here, never beyond a deadline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from unisono.engines.deadline_causal.events import Event, Key
from unisono.engines.deadline_causal.predicates import (
    is_deliverable,
    is_too_late,
    logical_deadlines,
    missing,
    violates_causal_order,
)
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.stamps import Past, Stream, forget, merge, round_of

TOO_LATE = "too late"  # its deadline is over
OVERTAKEN = "overtaken"  # an effect of it had to go at its own, earlier deadline
STALLED = "stalled"  # we slept over the moment at which it had to go
BEFORE = "before joining"  # an effect of it was delivered before its topic was asked for
LEFT = "left"  # its topic is not wanted any more
AHEAD = "clock ahead"  # its stamp is from further ahead than clocks may be
LONG = "lives too long"  # its deadline is further from its stamp than any may be
FULL = "full"  # too many are held back


class Deliver(NamedTuple):
    """Hand it to the application."""

    event: Event


class Discard(NamedTuple):
    """It is not delivered, and never will be."""

    event: Event
    reason: str


Outcome: TypeAlias = Deliver | Discard


class HoldBack:
    """The events that wait, and what is behind us."""

    def __init__(self, settings: CausalSettings, mine: Iterable[str] = (), reserve: int = 0) -> None:
        self.settings = settings
        self.reserve = reserve
        self.mine = set(mine)
        self.known: Past = {}
        self.floors: Past = {}  # what was behind us when a topic was asked for
        self.pending: dict[Key, Event] = {}
        self.seen: set[Key] = set()
        self.deadlines: dict[Key, int] = {}  # logical ones of what is pending, while somebody has to go
        self.patience: dict[str, float] = {}  # by topic: seconds for which its events are of use here at most
        self.round = 0  # when it was last looked at what can be forgotten
        self.swept = 0  # the same, of what was seen

    def join(self, topics: Iterable[str]) -> None:
        """Take the events of these topics, too."""
        for topic in set(topics) - self.mine:
            self.mine.add(topic)
            self.floors |= {stream: stamp for stream, stamp in self.known.items() if stream[1] == topic}

    def leave(self, topics: Iterable[str], round: int) -> list[Outcome]:
        """Take no more events of these topics."""
        gone = self.mine & set(topics)
        self.mine -= gone
        self.floors = {stream: stamp for stream, stamp in self.floors.items() if stream[1] not in gone}
        left: list[Outcome] = [Discard(e, LEFT) for e in self.pending.values() if e.topic in gone]
        for outcome in left:
            del self.pending[outcome.event.key]
        return left + self.pump(round)

    def take(self, events: Iterable[Event], round: int) -> list[Outcome]:
        """Events have come together, each for the first time or not: none of them is overtaken by another."""
        outcomes: list[Outcome] = []
        for one in events:
            if one.topic in self.mine and one.key not in self.seen and one.stamp >= self._horizon(round):
                event = self._here(one)
                self.seen.add(event.key)
                reason = self.refusal(event, round)
                if reason is None:
                    self.pending[event.key] = event
                else:
                    outcomes.append(Discard(event, reason))
        return outcomes + self.pump(round)

    def _here(self, event: Event) -> Event:
        """The event with its last round here, which may be an earlier one than elsewhere."""
        patience = self.patience.get(event.topic)
        if patience is None:
            return event
        last = self.settings.last_round(event.publication.published_at + patience)
        return event if last >= event.last else msgspec.structs.replace(event, last=last)

    def refusal(self, event: Event, round: int) -> str | None:
        """Why an event that has come is dropped, if it is."""
        if round_of(event.stamp) > round + self.settings.skew:
            return AHEAD
        if event.last > round_of(event.stamp) + self.settings.lifetime:
            return LONG
        if self.is_late(event, round):
            return TOO_LATE
        if self.is_overtaken(event):
            return BEFORE if event.stamp <= self.floors.get(event.stream, 0) else OVERTAKEN
        return FULL if len(self.pending) >= self.settings.pending_max else None

    def pump(self, round: int) -> list[Outcome]:
        """Everything that can go or must go now, causes first."""
        outcomes: list[Outcome] = [
            Discard(e, STALLED) for e in self.pending.values() if self.is_late(e, round)
        ]
        for outcome in outcomes:
            del self.pending[outcome.event.key]
        has_moved = True
        while has_moved and self.pending:
            has_moved = False
            self._find_deadlines(round)
            for event in self.order():
                if self.is_overtaken(event):
                    del self.pending[event.key]
                    self._find_deadlines(round)  # nobody has to go for its sake
                    outcomes.append(Discard(event, OVERTAKEN))
                elif self.is_ready(event, round) or self.is_due(event, round):
                    del self.pending[event.key]
                    self.pass_over(event)
                    outcomes.append(Deliver(event))
                    has_moved = True
        if round > self.round:
            self.round = round
            self._forget(round)
        return outcomes

    def is_ready(self, event: Event, round: int) -> bool:
        """Whether nothing of its past can come any more."""
        return is_deliverable(event, self.known, self.mine, self.settings.oldest(round))

    def is_due(self, event: Event, round: int) -> bool:
        """Whether it has to go now."""
        return self.logical_deadline(event) - self.reserve <= round

    def logical_deadline(self, event: Event) -> int:
        """The last round in which it can go; its own, as long as nobody has to."""
        return self.deadlines.get(event.key, event.last)

    def _find_deadlines(self, round: int) -> None:
        is_urgent = any(event.last - self.reserve <= round for event in self.pending.values())
        self.deadlines = logical_deadlines(self.pending.values()) if is_urgent else {}

    def is_late(self, event: Event, round: int) -> bool:
        """Whether it is of no use any more."""
        return is_too_late(event, round)

    def is_overtaken(self, event: Event) -> bool:
        """Whether it would come after one of its effects."""
        return violates_causal_order(event, self.known)

    def order(self) -> list[Event]:
        """What is pending, causes before effects: stamps of effects are larger."""
        return sorted(self.pending.values(), key=lambda event: (event.stamp, event.broker, event.topic))

    def pass_over(self, event: Event) -> None:
        """It and all of its past are behind us."""
        merge(self.known, event.past)
        merge(self.known, {event.stream: event.stamp})

    def wanted(self, round: int) -> dict[Stream, int]:
        """What pending events wait for and nobody brought: the last stamp of each stream."""
        wanted: dict[Stream, int] = {}
        for event in self.pending.values():
            for stream in missing(event, self.known, self.mine, self.settings.oldest(round)):
                stamp = event.past[stream]
                if (*stream, stamp) not in self.pending:
                    wanted[stream] = max(stamp, wanted.get(stream, 0))
        return wanted

    def _forget(self, round: int) -> None:
        oldest, horizon = self.settings.oldest_told(round), self._horizon(round)
        forget(self.known, oldest)
        forget(self.floors, oldest)
        if round - self.swept >= self.settings.sweep:
            self.swept = round
            self.seen = {key for key in self.seen if key[2] >= horizon}

    def _horizon(self, round: int) -> int:
        """What is older comes again without being counted."""
        return self.settings.oldest(round - self.settings.lifetime)

    def check(self) -> None:
        """Assert that what waits is wanted, is not behind us, and is in its right place."""
        for key, event in self.pending.items():
            assert key == event.key
            assert key in self.seen
            assert event.topic in self.mine
            assert not self.is_overtaken(event), f"{key} waits behind its effects"

    def copy(self) -> HoldBack:
        """An independent twin."""
        twin = type(self)(self.settings, self.mine, self.reserve)
        twin.known, twin.floors = dict(self.known), dict(self.floors)
        twin.pending, twin.seen, twin.round = dict(self.pending), set(self.seen), self.round
        twin.patience, twin.swept = dict(self.patience), self.swept
        return twin

    def state(self) -> tuple[object, ...]:
        """Equal exactly when two would behave alike from now on."""
        known, floors = tuple(sorted(self.known.items())), tuple(sorted(self.floors.items()))
        return (
            tuple(sorted(self.mine)),
            known,
            floors,
            tuple(sorted(self.pending)),
            tuple(sorted(self.seen)),
            tuple(sorted(self.patience.items())),
        )
