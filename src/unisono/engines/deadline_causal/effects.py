"""What happens to brokers and subscribers, and what they ask for."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from unisono.engines.deadline_causal.frames import Frame
from unisono.engines.deadline_causal.holdback import Deliver, Discard
from unisono.engines.inputs import Change, Tick
from unisono.model.frames import Publication
from unisono.model.ids import EventId


class Heard(NamedTuple):
    """A datagram came."""

    source: str
    frame: Frame


class Publish(NamedTuple):
    """The application publishes; the deadline is a time by our own clock."""

    publication: Publication
    deadline: float


class Move(NamedTuple):
    """A subscriber goes to another broker."""

    broker: str


Input: TypeAlias = Heard | Publish | Change | Move | Tick


EVERYBODY = "*"
"""Whom a multicast reaches at once, where the network has one: an event, all brokers of its topic; else, all brokers."""


class Send(NamedTuple):
    """Send a datagram."""

    to: str
    frame: Frame


class Accept(NamedTuple):
    """Tell the publishing application that its event is on its way."""

    id: EventId


class Refuse(NamedTuple):
    """Tell the publishing application that its event will never be delivered, or that nobody can say."""

    id: EventId
    reason: str


NO_TIME = "the deadline is too near"
NO_ROOM = "too many events wait to be sent"
NO_ANSWER = "no broker answered before the deadline"

Effect: TypeAlias = Send | Deliver | Discard | Accept | Refuse
