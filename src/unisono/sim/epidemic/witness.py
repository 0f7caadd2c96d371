"""Sees everything that is published and delivered, and says at once what should not have been."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from unisono.engines.epidemic.messages import Event
from unisono.engines.epidemic.patterns import Pattern, Value
from unisono.model.ids import EventId

UNDER_WAY_S = 1.0  # ages do not count the time on links


class Published(NamedTuple):
    """An event as its publisher knows it."""

    at: float
    attributes: Mapping[str, Value]
    payload: bytes


class Client(NamedTuple):
    """A client in one life of its dispatcher."""

    dispatcher: str
    life: int
    name: str


class Owed(NamedTuple):
    """An event that a client wants and has not got."""

    client: Client
    id: EventId


class Witness:
    """The truth about a world, and the promises that were broken in it."""

    def __init__(self, parse: Callable[[str], Pattern]) -> None:
        self.parse = parse
        self.published: dict[EventId, Published] = {}
        self.delivered: dict[Client, dict[EventId, float]] = {}
        self.wishes: dict[Client, dict[str, tuple[Pattern, float]]] = {}  # text -> since when
        self.broken: list[str] = []

    def publish(self, id: EventId, at: float, attributes: Mapping[str, Value], payload: bytes) -> None:
        """An event is published."""
        self.published[id] = Published(at, attributes, payload)

    def subscribe(self, client: Client, text: str, at: float) -> None:
        """A client wants more."""
        self.wishes.setdefault(client, {}).setdefault(text, (self.parse(text), at))

    def unsubscribe(self, client: Client, text: str) -> None:
        """A client wants less."""
        self.wishes.get(client, {}).pop(text, None)

    def leave(self, dispatcher: str, life: int) -> None:
        """A dispatcher has crashed, and its clients with it."""
        for client in [c for c in self.wishes if c[:2] == (dispatcher, life)]:
            del self.wishes[client]

    def deliver(self, client: Client, event: Event, at: float) -> None:
        """A client is handed an event."""
        known = self.published.get(event.id)
        mine = self.delivered.setdefault(client, {})
        who = f"client {client.name} of {client.dispatcher} in life {client.life}"
        if known is None or (known.attributes, known.payload) != (event.attributes, event.payload):
            self.broken.append(f"no creation: {who} was handed {event.id}, which nobody published like this")
        if event.id in mine:
            self.broken.append(f"no duplication: {who} was handed {event.id} twice")
        wishes = self.wishes.get(client, {})
        since = [since for pattern, since in wishes.values() if pattern.matches(event.attributes)]
        if not since:
            self.broken.append(f"only matching: {who} was handed {event.id}, which does not match")
        elif known is not None and known.at < min(since) - UNDER_WAY_S:
            self.broken.append(f"only wanted: {who} was handed {event.id}, published before it subscribed")
        mine[event.id] = at

    def owed(self, published: Iterable[EventId] | None = None) -> list[Owed]:
        """Who wanted an event before it was published, still does, and has not got it."""
        found: list[Owed] = []
        events = self.published if published is None else published
        for client, wishes in self.wishes.items():
            mine = self.delivered.get(client, {})
            for id in events:
                at, attributes, _ = self.published[id]
                if id not in mine and any(
                    since <= at and pattern.matches(attributes) for pattern, since in wishes.values()
                ):
                    found.append(Owed(client, id))
        return found
