"""What can happen to an engine."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.model.frames import Message, Notification, Publication


class Publish(msgspec.Struct, frozen=True):
    """The application publishes; the publications are numbered 1, 2, … by their publisher."""

    publications: list[Publication]


class Received(msgspec.Struct, frozen=True):
    """A link brought a message. Links are FIFO and lose nothing: links.py sees to that."""

    source: str
    message: Message


class Notified(msgspec.Struct, frozen=True):
    """The event notification service brought this: late, twice, out of order or never, as it pleases."""

    notification: Notification


class Tick(msgspec.Struct, frozen=True):
    """The time that `next_timer` named has come."""


Input: TypeAlias = Publish | Received | Notified | Tick
TICK = Tick()
