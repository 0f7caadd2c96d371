"""The subscribers of a broker: who they are, and what they are handed in which round."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import NamedTuple

from unisono.engines.deadline_causal.choosing import choose
from unisono.engines.deadline_causal.effects import Effect, Send
from unisono.engines.deadline_causal.events import Event, Key, trim
from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.engines.deadline_causal.wire import write_news

NEWS_MAX = 64  # events in one frame
SEATS_MAX = 65536  # of a broker; who comes later finds none, and tries again


class Seat(NamedTuple):
    """One subscriber."""

    topics: frozenset[str]
    heard: int


class Seats:
    """Subscribers, and the events that were delivered to be handed to them."""

    def __init__(self, broker: str, settings: CausalSettings) -> None:
        self.broker = broker
        self.settings = settings
        self.seats: dict[str, Seat] = {}
        self.handed: dict[Key, tuple[Event, int]] = {}  # with the round in which it was delivered

    def attach(self, name: str, topics: Iterable[str], round: int) -> None:
        """A subscriber is here and wants these topics."""
        if name in self.seats or len(self.seats) < SEATS_MAX:
            self.seats[name] = Seat(frozenset(topics), round)

    def hear(self, name: str, round: int) -> None:
        """A subscriber is still here."""
        if name in self.seats:
            self.seats[name] = self.seats[name]._replace(heard=round)

    def detach(self, name: str) -> None:
        """A subscriber is gone."""
        self.seats.pop(name, None)

    def push(self, delivered: Iterable[Event], round: int) -> list[Effect]:
        """Hand what was delivered just now to some of those who want it."""
        events = list(delivered)
        self.handed |= {event.key: (event, round) for event in events}
        trim(self.handed, self.settings.cache_max)
        return self._hand(events, round)

    def turn(self, round: int) -> list[Effect]:
        """A round has begun: hand what is new to others; forget what is of no use, and who is silent."""
        absent = self.settings.absent
        self.seats = {name: seat for name, seat in self.seats.items() if round - seat.heard <= absent}
        self.handed = {key: (event, at) for key, (event, at) in self.handed.items() if event.last >= round}
        return self._hand(
            [event for event, at in self.handed.values() if round - at < self.settings.pushes], round
        )

    def answer(self, name: str, topics: Collection[str], have: Iterable[Key], round: int) -> list[Effect]:
        """What somebody has not got, and is still of use; nothing to say, no answer."""
        known = set(have)
        more = [e for key, (e, _) in self.handed.items() if key not in known and e.topic in topics]
        return self._news(name, more[:NEWS_MAX], round) if more else []

    def _hand(self, events: list[Event], round: int) -> list[Effect]:
        shares: dict[str, list[Event]] = {}
        for event in events:
            wants = [name for name, seat in self.seats.items() if event.topic in seat.topics]
            for name in choose(f"{self.broker} {event.stamp}", round, wants, self.settings.fanout):
                shares.setdefault(name, []).append(event)
        return [effect for name, share in shares.items() for effect in self._news(name, share, round)]

    def _news(self, to: str, events: list[Event], round: int) -> list[Effect]:
        topics = self.seats[to].topics if to in self.seats else frozenset()
        others = [name for name, seat in self.seats.items() if name != to and seat.topics & topics]
        peers = choose(f"{self.broker} {to}", round, others, self.settings.peers)
        palette, oldest = self.settings.palette, self.settings.oldest_told(round)
        return [Send(to, write_news(events, palette, round, oldest, peers))]

    def copy(self) -> Seats:
        """An independent twin."""
        twin = Seats(self.broker, self.settings)
        twin.seats, twin.handed = dict(self.seats), dict(self.handed)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        handed = tuple((key, at) for key, (_, at) in sorted(self.handed.items(), key=lambda kept: kept[0]))
        return (
            tuple(sorted((name, tuple(sorted(s.topics)), s.heard) for name, s in self.seats.items())),
            handed,
        )
