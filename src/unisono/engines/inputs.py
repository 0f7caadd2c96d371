"""What can happen to an engine."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.takeover.control import Control
from unisono.model.frames import Message, Notification, Publication
from unisono.model.lanes import LaneRecord
from unisono.model.places import Placed, Surveyed


class Publish(msgspec.Struct, frozen=True):
    """The application publishes; the publications are numbered 1, 2, … by their publisher."""

    publications: list[Publication]


class Received(msgspec.Struct, frozen=True):
    """A link brought a message. Links are FIFO and lose nothing: links.py sees to that."""

    source: str
    message: Message


class Lost(msgspec.Struct, frozen=True):
    """A peer has begun a new life: these messages, for the former one, may never have reached anybody."""

    peer: str
    messages: tuple[Message, ...]


class Change(msgspec.Struct, frozen=True):
    """The application wants more topics and patterns, or fewer."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class Notified(msgspec.Struct, frozen=True):
    """The event notification service brought this: late, twice, out of order or never, as it pleases."""

    notification: Notification


class Controlled(msgspec.Struct, frozen=True):
    """The control record, as it is now or was a while ago; versions in between may have been skipped."""

    control: Control


class Appended(msgspec.Struct, frozen=True):
    """An append was stored at this sequence, or refused. A lost one is never heard of."""

    lane: str
    record: LaneRecord
    sequence: int | None


class ReadBack(msgspec.Struct, frozen=True):
    """The records of a lane behind a sequence, as far as they are kept; none is missing between.

    `tail` is the sequence of the last one, or, if there are none, where the lane ends.
    """

    lane: str
    records: tuple[LaneRecord, ...]
    tail: int
    after: int = 0  # as was asked for
    rest: int = 0  # how many more there were than was asked for

    @property
    def first(self) -> int:
        """The sequence of the first record."""
        return self.tail - len(self.records) + 1

    def covers(self, after: int) -> bool:
        """Whether it says everything about the lane behind a sequence; it may answer another question."""
        return self.after <= after and not self.rest


class Suspected(msgspec.Struct, frozen=True):
    """Somebody believes that a node is dead, rightly or not."""

    node: str


class Keep(msgspec.Struct, frozen=True):
    """The application is here: save it as the place of a durable subscriber, and renew it."""

    epoch: int
    clock: dict[str, int]
    acknowledged: int
    handed: int
    is_last: bool = False  # and let go of the place


class Tended(msgspec.Struct, frozen=True):
    """A place was looked after: tell whoever asked."""

    source: str
    answer: Placed | Surveyed


class Tick(msgspec.Struct, frozen=True):
    """The time that `next_timer` named has come."""


Input: TypeAlias = (
    Publish
    | Change
    | Received
    | Lost
    | Notified
    | Controlled
    | Appended
    | ReadBack
    | Suspected
    | Keep
    | Tended
    | Tick
)
TICK = Tick()
