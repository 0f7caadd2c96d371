"""What can happen to a dispatcher, and what it asks for."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.epidemic.messages import Event, Message
from unisono.engines.epidemic.patterns import Key, Value
from unisono.engines.inputs import TICK, Tick
from unisono.model.errors import UnisonoError

__all__ = [
    "TICK",
    "Deliver",
    "Effect",
    "Heard",
    "Input",
    "LinkAdded",
    "LinkRemoved",
    "Lose",
    "PublishEvent",
    "Reject",
    "Send",
    "Subscribe",
    "Tick",
    "Unsubscribe",
]


class Subscribe(msgspec.Struct, frozen=True):
    """A client wants the events that match this pattern."""

    client: str
    pattern: str


class Unsubscribe(msgspec.Struct, frozen=True):
    """A client no longer wants them."""

    client: str
    pattern: str


class PublishEvent(msgspec.Struct, frozen=True):
    """A client publishes."""

    attributes: dict[str, Value]
    payload: bytes = b""


class LinkAdded(msgspec.Struct, frozen=True):
    """From now on another dispatcher is a neighbour on the tree."""

    neighbour: str


class LinkRemoved(msgspec.Struct, frozen=True):
    """It no longer is."""

    neighbour: str


class Heard(msgspec.Struct, frozen=True):
    """A datagram of another dispatcher, neighbour or not, with this in it."""

    source: str
    message: Message


Input: TypeAlias = Subscribe | Unsubscribe | PublishEvent | LinkAdded | LinkRemoved | Heard | Tick


class Send(msgspec.Struct, frozen=True):
    """Send this to another dispatcher as a datagram, once."""

    to: str
    message: Message


class Deliver(msgspec.Struct, frozen=True):
    """Hand an event to these clients."""

    clients: tuple[str, ...]
    event: Event


class Lose(msgspec.Struct, frozen=True):
    """These numbers of a source and a pattern are no longer asked for; should they come all the same, they are
    delivered."""

    source: str
    incarnation: int
    pattern: Key
    numbers: tuple[int, ...]


class Reject(msgspec.Struct, frozen=True):
    """What arrived makes no sense or is over a bound; nothing changed."""

    error: UnisonoError


Effect: TypeAlias = Send | Deliver | Lose | Reject
