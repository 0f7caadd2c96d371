"""What an engine asks for. Carry them out in the order given."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.takeover.control import Control
from unisono.model.errors import UnisonoError
from unisono.model.frames import Entries, Message, Notification, Run, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.lanes import LaneRecord
from unisono.model.places import Claim, Clear, Place, Save, Survey


class Send(msgspec.Struct, frozen=True):
    """Put a message on the link to another process."""

    to: str
    message: Message


class Announce(msgspec.Struct, frozen=True):
    """Hand a notification to the event notification service, for the subscribers of these topics."""

    topics: tuple[str, ...]
    notification: Notification


class Listen(msgspec.Struct, frozen=True):
    """Subscribe to these topics and patterns at the event notification service, before anything that follows."""

    topics: tuple[str, ...]


class Ignore(msgspec.Struct, frozen=True):
    """Unsubscribe from these topics and patterns at the event notification service."""

    topics: tuple[str, ...]


class Admit(msgspec.Struct, frozen=True):
    """From these numbers on the application is owed these topics."""

    floors: Entries


class Confirm(msgspec.Struct, frozen=True):
    """From now on nothing that is published on a topic of these patterns is missed, whenever the topic is made."""

    patterns: tuple[str, ...]


class Deliver(msgspec.Struct, frozen=True):
    """Hand these events to the application, in this order."""

    events: list[Stamped]
    in_order: bool = True


class DeliverRun(msgspec.Struct, frozen=True):
    """Hand the events at these places of a run to the application, in this order, all in order."""

    run: Run
    places: list[int] | None  # None: all of them

    @property
    def events(self) -> list[Stamped]:
        """They, each with a stamp of its own."""
        chosen = range(len(self.run)) if self.places is None else self.places
        return [self.run.stamped(place) for place in chosen]


class Acknowledge(msgspec.Struct, frozen=True):
    """Tell the publishing application that its event has its place in the order."""

    sequenced: Sequenced


class Refuse(msgspec.Struct, frozen=True):
    """Tell the publishing application that its event will never have a place in the order."""

    id: EventId
    error: UnisonoError


class AcknowledgeRun(msgspec.Struct, frozen=True):
    """Tell the publishing application that all events of a run have their places."""

    run: Run

    @property
    def answers(self) -> list[Sequenced]:
        """The same one by one."""
        run = self.run
        return [
            Sequenced(p.topic, p.id, run.epoch, run.entries(place))
            for place, p in enumerate(run.publications)
        ]


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


class Append(msgspec.Struct, frozen=True):
    """Store a record at the end of a lane; refused if the lane's last sequence is not `expected`."""

    lane: str
    record: LaneRecord
    expected: int | None  # None: wherever the end is


class Read(msgspec.Struct, frozen=True):
    """Read a lane behind a sequence, as far as it is kept: to its last record, or so many."""

    lane: str
    after: int = 0
    limit: int | None = None


class Truncate(msgspec.Struct, frozen=True):
    """Forget the records of a lane up to this sequence; when that is done, or whether, nobody waits for."""

    lane: str
    up_to: int


class Decide(msgspec.Struct, frozen=True):
    """Put this in place of the control record, if that is still the one of the version before."""

    control: Control


class Look(msgspec.Struct, frozen=True):
    """Read the control record."""


class Tend(msgspec.Struct, frozen=True):
    """Look after the place of a durable subscriber as this message asks, and hand in the answer."""

    source: str
    message: Claim | Save | Survey | Clear


class Hold(msgspec.Struct, frozen=True):
    """The place is kept like this, and it is ours; or it was until now, if we let go of it."""

    place: Place


Effect: TypeAlias = (
    Append
    | Read
    | Truncate
    | Decide
    | Look
    | Send
    | Announce
    | Listen
    | Ignore
    | Admit
    | Confirm
    | Deliver
    | DeliverRun
    | Acknowledge
    | Refuse
    | AcknowledgeRun
    | Drop
    | Lose
    | Reject
    | Fail
    | Tend
    | Hold
)
