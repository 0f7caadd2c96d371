"""Which other brokers there are, which topics they have, and whom to tell what one has in a round."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import NamedTuple

from unisono.engines.deadline_causal.choosing import choose, choose_near
from unisono.engines.deadline_causal.events import Key
from unisono.engines.deadline_causal.frames import Digest
from unisono.engines.deadline_causal.settings import CausalSettings

NEIGHBOURS_MAX = 4096  # with more of them, who is only heard of is not taken in
REST_EVERY = 4  # in every so many rounds somebody else is told, too


class Neighbour(NamedTuple):
    """What is known of another broker."""

    zone: str
    topics: frozenset[str]
    heard: int  # the round in which it was last heard of


class Neighbours:
    """The other brokers, as far as they were heard of; who is silent for long is taken for gone."""

    def __init__(
        self, name: str, zone: str, settings: CausalSettings, contacts: Mapping[str, Iterable[str]]
    ) -> None:
        self.name = name
        self.zone = zone
        self.settings = settings
        self.contacts = tuple(sorted(contacts))
        self.known = {who: Neighbour(zone, frozenset(topics), 0) for who, topics in contacts.items()}

    @property
    def names(self) -> set[str]:
        """All others that are there."""
        return set(self.known)

    @property
    def heard(self) -> tuple[str, ...]:
        """Those that spoke for themselves: who is only heard of is not told on, or the dead would be told of for ever."""
        return tuple(sorted(who for who, neighbour in self.known.items() if neighbour.topics))

    def of(self, topic: str) -> list[str]:
        """The others that have a topic."""
        return [who for who, neighbour in self.known.items() if topic in neighbour.topics]

    def hear(self, source: str, digest: Digest, round: int) -> None:
        """Somebody says who it is, and whom it knows."""
        self.known[source] = Neighbour(digest.zone, frozenset(digest.topics), round)
        for who in digest.brokers:
            if who != self.name and who not in self.known and len(self.known) < NEIGHBOURS_MAX:
                self.known[who] = Neighbour(digest.zone, frozenset(), round)

    def notice(self, source: str, round: int) -> None:
        """Somebody is still there."""
        if source in self.known:
            self.known[source] = self.known[source]._replace(heard=round)

    def forget(self, round: int) -> None:
        """Let go of who is silent for long; contacts are tried now and then, in case they come back."""
        self.known = {
            who: neighbour
            for who, neighbour in self.known.items()
            if round - neighbour.heard <= self.settings.absent
        }

    def partners(self, topics: Collection[str], round: int) -> list[str]:
        """Whom to gossip with: those of our zone before others, among those who share a topic or are strangers.

        Now and then one of the rest, who may need us one day, and a contact that was lost.
        """
        mine = set(topics)
        zones = {who: n.zone for who, n in self.known.items() if n.topics & mine or not n.topics}
        partners = choose_near(self.name, self.zone, round, zones, self.settings.fanout)
        if round % REST_EVERY == 0:
            partners += choose(self.name, round, [who for who in self.known if who not in zones], 1)
            partners += choose(self.name, round, [who for who in self.contacts if who not in self.known], 1)
        return partners

    def who_may_have(self, broker: str, topic: str, round: int) -> str | None:
        """Whom to ask for an event: who sent it, and every other round somebody else who has the topic."""
        others = choose(self.name, round, [who for who in self.of(topic) if who != broker], 1)
        if broker in self.known and (round % 2 == 0 or not others):
            return broker
        return others[0] if others else None

    def copy(self) -> Neighbours:
        """An independent twin."""
        twin = Neighbours(self.name, self.zone, self.settings, {})
        twin.contacts, twin.known = self.contacts, dict(self.known)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return tuple(sorted(self.known.items()))


def compact(keys: Iterable[Key]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """Keys of events, by stream."""
    streams: dict[tuple[str, str], list[int]] = {}
    for broker, topic, stamp in keys:
        streams.setdefault((broker, topic), []).append(stamp)
    return tuple((*stream, tuple(sorted(stamps))) for stream, stamps in sorted(streams.items()))


def unpack(have: tuple[tuple[str, str, tuple[int, ...]], ...]) -> list[Key]:
    """The same one by one."""
    return [(broker, topic, stamp) for broker, topic, stamps in have for stamp in stamps]
