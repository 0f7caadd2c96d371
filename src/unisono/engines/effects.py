"""What an engine asks for. Carry them out in the order given."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.model.errors import UnisonoError
from unisono.model.frames import Message, Notification, Run, Sequenced, Stamped


class Send(msgspec.Struct, frozen=True):
    """Put a message on the link to another process."""

    to: str
    message: Message


class Announce(msgspec.Struct, frozen=True):
    """Hand a notification to the event notification service, for the subscribers of these topics."""

    topics: tuple[str, ...]
    notification: Notification


class Deliver(msgspec.Struct, frozen=True):
    """Hand these events to the application, in this order."""

    events: list[Stamped]
    in_order: bool = True


class DeliverRun(msgspec.Struct, frozen=True):
    """Hand the events at these places of a run to the application, in this order, all in order."""

    run: Run
    places: list[int] | None  # None: all of them


class Acknowledge(msgspec.Struct, frozen=True):
    """Tell the publishing application that its event has its place in the order."""

    sequenced: Sequenced


class AcknowledgeRun(msgspec.Struct, frozen=True):
    """Tell the publishing application that all events of a run have their places."""

    run: Run


class Drop(msgspec.Struct, frozen=True):
    """An event is not delivered, and never will be; `reason` says by which rule."""

    event: Stamped
    reason: str


class Lose(msgspec.Struct, frozen=True):
    """These numbers of a topic are lost for ever: no ring holds them any more."""

    topic: str
    numbers: tuple[int, ...]


class Reject(msgspec.Struct, frozen=True):
    """What arrived makes no sense; it was ignored, nothing changed."""

    error: UnisonoError


class Fail(msgspec.Struct, frozen=True):
    """The promise cannot be kept: end the subscription with this error."""

    error: UnisonoError


Effect: TypeAlias = (
    Send | Announce | Deliver | DeliverRun | Acknowledge | AcknowledgeRun | Drop | Lose | Reject | Fail
)
