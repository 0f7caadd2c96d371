"""The subscription table: who wants what, clients here and neighbours on the tree alike."""

from __future__ import annotations

from collections.abc import Container, Iterable

from unisono.engines.epidemic.covering import Covering
from unisono.engines.epidemic.links import Link
from unisono.engines.epidemic.messages import Session
from unisono.engines.epidemic.patterns import Attributes, Index, Key, Pattern
from unisono.engines.epidemic.settings import DispatcherSettings


class Table:
    """Pairs of (client or neighbour, pattern), and what each neighbour is to be told of them."""

    def __init__(self, settings: DispatcherSettings, index: Index) -> None:
        self.settings = settings
        self.index = index
        self.links: dict[str, Link] = {}
        self.local: dict[Key, dict[str, float]] = {}  # pattern -> client -> since when
        self.patterns: dict[Key, Pattern] = {}  # all of them
        # What neighbours wanted who are gone: until when it counts, the first to go first, and since when it was wanted.
        self.lingering: dict[Key, tuple[float, float]] = {}
        self._subscriptions = 0  # of clients
        self._holders: dict[Key, int] = {}
        self.covering = Covering() if settings.covering else None

    def subscribe(self, client: str, pattern: Pattern, now: float) -> bool:
        """A client wants this; False if there is no room for another subscription."""
        if client in self.local.get(pattern.hash, ()):
            return True
        if self._subscriptions >= self.settings.patterns_max:
            return False
        if pattern.hash not in self.local:
            self.local[pattern.hash] = {}
            self._hold(pattern)
        self.local[pattern.hash][client] = now
        self._subscriptions += 1
        return True

    def unsubscribe(self, client: str, pattern: Pattern) -> None:
        """A client no longer wants this."""
        clients = self.local.get(pattern.hash)
        if clients is None or clients.pop(client, None) is None:
            return
        self._subscriptions -= 1
        if not clients:
            del self.local[pattern.hash]
            self._release(pattern.hash)

    def add_link(self, neighbour: str, session: Session, trail: int) -> None:
        """A neighbour more, of whom nothing is known yet."""
        self.links[neighbour] = Link(session, trail, self.settings)

    def remove_link(self, neighbour: str, until: float) -> None:
        """A neighbour less; what it led to is counted for a while: another will probably lead there."""
        link = self.links.pop(neighbour)
        for key in link.wanted:
            since, is_full = link.since[key], len(self.lingering) >= self.settings.patterns_max
            if key in self.lingering or is_full:
                self._release(key)  # it is held already, or cannot be
            known = self.lingering.pop(key, None)
            if known is not None:
                since = min(since, known[1])
            if known is not None or not is_full:
                self.lingering[key] = (until, since)

    def linger_until(self) -> float | None:
        """When the first of those who are gone is forgotten."""
        return next((until for until, _ in self.lingering.values()), None)

    def expire(self, now: float) -> bool:
        """Forget what nobody has come back for; False if there is nothing to forget."""
        is_changed = False
        while self.lingering:
            key, (until, _) = next(iter(self.lingering.items()))
            if until > now:
                break
            del self.lingering[key]
            self._release(key)
            is_changed = True
        return is_changed

    def clear(self, link: Link) -> None:
        """A neighbour begins anew."""
        for key in link.wanted:
            self._release(key)
        link.wanted.clear()
        link.since.clear()

    def change(self, link: Link, pattern: Pattern, is_wanted: bool, since: float) -> bool:
        """A neighbour wants this, since then, or no longer; False if there is no room for another pattern."""
        if is_wanted and pattern.hash not in link.wanted:
            if len(link.wanted) >= self.settings.patterns_max:
                return False
            link.wanted[pattern.hash] = pattern
            link.since[pattern.hash] = since
            self._hold(pattern)
        elif not is_wanted and link.wanted.pop(pattern.hash, None) is not None:
            del link.since[pattern.hash]
            self._release(pattern.hash)
        return True

    def matching(self, attributes: Attributes) -> set[Key]:
        """The patterns of the table that an event matches."""
        return self.index.matching(attributes)

    def since(self, key: Key) -> float:
        """When the first of the clients here subscribed to a pattern."""
        return min(self.local[key].values())

    def wanted_since(self, neighbour: str) -> dict[Key, float]:
        """Since when the rest of the table wants its patterns of a neighbour."""
        found = {key: since for key, (_, since) in self.lingering.items()}
        for key, clients in self.local.items():
            found[key] = min(*clients.values(), found.get(key, float("inf")))
        for name, link in self.links.items():
            if name != neighbour:
                for key, since in link.since.items():
                    found[key] = min(since, found.get(key, since))
        return found

    def clients(self, keys: Iterable[Key], published_at: float) -> tuple[str, ...]:
        """The clients with one of these patterns who had subscribed before an event was published."""
        return tuple(
            sorted(
                {
                    client
                    for key in keys
                    for client, since in self.local.get(key, {}).items()
                    if since <= published_at
                }
            )
        )

    def leading_to(self, key: Key, besides: str | None) -> list[str]:
        """The neighbours that lead to subscribers of a pattern, or of one that it covers, in a fixed order."""
        return sorted(
            name
            for name, link in self.links.items()
            if name != besides and (key in link.wanted or self._covers_any(key, link.wanted))
        )

    def concerned(self, key: Key) -> bool:
        """Whether somebody here subscribes to a pattern, or to one that it covers."""
        return key in self.local or self._covers_any(key, self.local)

    def leads_below(self, keys: set[Key], besides: str) -> bool:
        """Whether somebody, a neighbour besides this one or a client, wants something that one of these covers."""
        covering = self.covering
        if covering is None:
            return False
        others: list[Container[Key]] = [self.local]
        others += [link.wanted for name, link in self.links.items() if name != besides]
        return any(
            below not in keys and any(below in wanted for wanted in others)
            for key in keys
            for below in covering.below(key)
        )

    def covers(self, keys: Container[Key], key: Key) -> bool:
        """Whether one of these covers a pattern of the table."""
        return self.covering is not None and any(above in keys for above in self.covering.above(key))

    def _covers_any(self, key: Key, among: Container[Key]) -> bool:
        return self.covering is not None and self.covering.covers_any(key, among)

    def wanted_of(self, neighbour: str) -> dict[Key, Pattern]:
        """What the rest of the table wants of a neighbour: all patterns, or those that no other one covers."""
        keys = dict.fromkeys([*self.local, *self.lingering])
        for name, link in self.links.items():
            if name != neighbour:
                keys |= dict.fromkeys(link.wanted)
        covering = self.covering
        return {
            key: self.patterns[key]
            for key in keys
            if covering is None or not covering.is_redundant(key, keys)
        }

    def _hold(self, pattern: Pattern) -> None:
        key = pattern.hash
        self._holders[key] = self._holders.get(key, 0) + 1
        if self._holders[key] == 1:
            if self.covering is not None:
                self.covering.add(pattern, self.patterns.values())
            self.patterns[key] = pattern
            self.index.add(pattern)

    def _release(self, key: Key) -> None:
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]
            self.index.discard(self.patterns.pop(key))
            if self.covering is not None:
                self.covering.discard(key)

    def picture(self) -> tuple[object, ...]:
        """Equal for tables with the same clients and the same memory of who is gone; links have pictures of their own."""
        local = tuple((key, tuple(clients.items())) for key, clients in self.local.items())
        return (local, tuple(self.lingering.items()))

    def check(self) -> None:
        """Assert that a pattern is known exactly while somebody wants it."""
        holders: dict[Key, int] = {}
        wanted = [key for link in self.links.values() for key in link.wanted]
        for key in [*self.local, *self.lingering, *wanted]:
            holders[key] = holders.get(key, 0) + 1
        assert holders == self._holders
        assert self.patterns.keys() == holders.keys()
        assert all(len(link.wanted) <= self.settings.patterns_max for link in self.links.values())
        assert self._subscriptions == sum(map(len, self.local.values())) <= self.settings.patterns_max
        assert list(self.lingering.values()) == sorted(self.lingering.values(), key=lambda kept: kept[0])
        if self.covering is not None:
            self.covering.check(self.patterns)
