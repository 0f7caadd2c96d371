"""Subscription forwarding: what clients and neighbours want of a dispatcher, it wants of its other neighbours.

So every subscription lays a route to its subscriber from every dispatcher of the tree. One that another covers, which
goes the same way, is not passed on. When links come and go, only what has changed is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.engines.epidemic.inputs import Effect, Reject, Send
from unisono.engines.epidemic.links import Link
from unisono.engines.epidemic.messages import Interests, Noted
from unisono.engines.epidemic.patterns import Key, Parser
from unisono.engines.epidemic.settings import DispatcherSettings
from unisono.engines.epidemic.table import Table
from unisono.model.errors import ConfigError, QuotaError

if TYPE_CHECKING:
    from random import Random


class Forwarding:
    """Keeps the table and tells neighbours what follows from it."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        random: Random,
        parse: Parser,
        settings: DispatcherSettings,
        table: Table,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.random = random
        self.parse = parse
        self.settings = settings
        self.table = table
        self.sessions = 0

    def change(self, client: str, text: str, is_wanted: bool, now: float) -> list[Effect]:
        """A client has changed what it wants."""
        try:
            pattern = self.parse(text)
        except ValueError as error:
            return [Reject(ConfigError(f"'{text}' is no pattern: {error}"))]
        if not is_wanted:
            self.table.unsubscribe(client, pattern)
        elif not self.table.subscribe(client, pattern, now):
            return [_full(f"clients of '{self.name}'", self.settings)]
        return self.retell(now)

    def add_link(self, neighbour: str, now: float) -> list[Effect]:
        """A neighbour comes."""
        if neighbour in self.table.links or neighbour == self.name:
            return []
        self.table.add_link(neighbour, self._session(), self.random.randrange(1, 1 << 16))
        return self.retell(now)

    def _begin(self, name: str, link: Link) -> None:
        link.begin(self._session(), self.table.wanted_of(name), self.table.wanted_since(name))

    def _session(self) -> tuple[int, int]:
        self.sessions += 1
        return (self.incarnation, self.sessions)

    def retell(self, now: float) -> list[Effect]:
        """Tell each neighbour what is wanted of it, where that has changed."""
        effects: list[Effect] = []
        for name, link in self.table.links.items():
            wanted = self.table.wanted_of(name)
            if link.told.keys() != wanted.keys() and not link.want(wanted, self.table.wanted_since(name)):
                self._begin(name, link)
            interests = link.outgoing(now)
            if interests is not None:
                effects.append(Send(name, interests))
        return effects

    def take_interests(
        self, source: str, interests: Interests, now: float
    ) -> tuple[list[Effect], dict[Key, float]]:
        """A neighbour has changed what it wants; also which patterns are new with it, and since when they are wanted."""
        link = self.table.links.get(source)
        if link is None:
            return [], {}
        if link.opens(interests):
            self.table.clear(link)
        effects: list[Effect] = []
        fresh: dict[Key, float] = {}
        for is_wanted, text, wanted_ms in link.hear(interests):
            since = now - wanted_ms / 1000
            try:
                pattern = self.parse(text)
            except ValueError as error:
                effects.append(
                    Reject(ConfigError(f"'{source}' wants '{text}', which is no pattern: {error}"))
                )
                continue
            if not self.table.change(link, pattern, is_wanted, since):
                effects.append(_full(f"neighbour '{source}'", self.settings))
            elif is_wanted:
                fresh[pattern.hash] = since
        if link.is_forgotten(interests):
            self._begin(source, link)
        noted = link.noted()
        if noted is not None:
            effects.append(Send(source, noted))
        return effects + self.retell(now), fresh

    def remove_link(self, neighbour: str, now: float) -> list[Effect]:
        """A neighbour goes."""
        if neighbour not in self.table.links:
            return []
        self.table.remove_link(neighbour, now + self.settings.linger_s)
        return self.retell(now)

    def forget(self, now: float) -> list[Effect]:
        """Nobody has come back for what a neighbour wanted who is gone."""
        return self.retell(now) if self.table.expire(now) else []

    def take_noted(self, source: str, noted: Noted, now: float) -> list[Effect]:
        """A neighbour knows what is wanted of it, up to here."""
        link = self.table.links.get(source)
        if link is None:
            return []
        if not link.confirm(noted):
            self._begin(source, link)
        interests = link.outgoing(now)
        return [] if interests is None else [Send(source, interests)]


def _full(whose: str, settings: DispatcherSettings) -> Reject:
    return Reject(QuotaError(f"{whose}: no room for more than {settings.patterns_max} patterns"))
