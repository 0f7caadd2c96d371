"""What dispatchers say to each other. Each fits a datagram of its own, and may be lost, late or doubled."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.epidemic.numbers import Packed
from unisono.engines.epidemic.patterns import Key, Value
from unisono.model.codec import VERSION, decode_versioned
from unisono.model.ids import EventId

MESSAGE_BYTES_MAX = 256 * 1024

Session: TypeAlias = tuple[int, int]  # incarnation of who tells, and which attempt
Ids: TypeAlias = tuple[tuple[str, int, Packed], ...]  # source, incarnation, numbers
Mark: TypeAlias = tuple[
    str, int, int, int
]  # source, incarnation, highest number of the pattern, its age in ms
Entry: TypeAlias = tuple[
    str, str, int, int, tuple[tuple[Key, int], ...]
]  # holder, source, incarnation, n, numbers


class Event(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """An event on the tree, known by source, incarnation and n; numbered for each pattern its source knew to match."""

    source: str
    incarnation: int
    n: int
    numbers: dict[Key, int]
    attributes: dict[str, Value]
    payload: bytes = b""
    age_ms: int = 0  # how long dispatchers have kept it so far
    route: tuple[str, ...] = ()  # which ones, the source first
    trail: int = 0  # of the link it was sent over
    step: int = 0

    @property
    def id(self) -> EventId:
        """Its identity."""
        return EventId(self.source, self.incarnation, self.n)

    def __str__(self) -> str:
        return f"{self.source}:{self.incarnation}:" + ":".join(
            f"{k.hex()}-{c}" for k, c in self.numbers.items()
        )


class Interests(msgspec.Struct, frozen=True, array_like=True, tag="i"):
    """Changes, counted from `first` on, of what the sender wants to be sent; the first of a session is empty."""

    session: Session
    first: int
    changes: tuple[
        tuple[bool, str, int], ...
    ]  # whether it is wanted, the text of the pattern, for how many ms
    knows: Session | None = None  # the session of the receiver that the sender knows of


class Noted(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """The changes of a session up to this one have arrived."""

    session: Session
    up_to: int
    by: Session  # the session of who confirms: an end of a former link confirms nothing


class Push(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """The initiator has these events that match the pattern."""

    initiator: str
    pattern: Key
    ids: Ids
    marks: tuple[Mark, ...]
    hops_left: int


class Steps(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """So far the trail to you has come."""

    trail: int
    last: int


class Missed(msgspec.Struct, frozen=True, array_like=True, tag="m"):
    """What were these steps of your trail?"""

    trail: int
    steps: Packed


class Echo(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """These steps of the trail were events that were lost before they came to you, and who holds them."""

    trail: int
    entries: tuple[tuple[int, Entry], ...]


class Request(msgspec.Struct, frozen=True, array_like=True, tag="q"):
    """Send me these, out of band."""

    ids: Ids


class SubscriberPull(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """The initiator misses these numbers of the pattern; towards others who subscribe to it."""

    initiator: str
    pattern: Key
    wanted: Ids
    marks: tuple[Mark, ...]
    hops_left: int


class PublisherPull(msgspec.Struct, frozen=True, array_like=True, tag="u"):
    """The initiator misses these numbers of a source; along the route back to it."""

    initiator: str
    source: str
    incarnation: int
    wanted: tuple[tuple[Key, Packed], ...]
    route: tuple[str, ...]  # what is left of it, the next one first


class Watermark(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """A source that has fallen silent had come so far."""

    source: str
    incarnation: int
    numbers: dict[Key, int]
    age_ms: int
    hops_left: int


class Repair(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """An event for who misses it, past the tree."""

    event: Event


Message: TypeAlias = (
    Event
    | Interests
    | Noted
    | Steps
    | Missed
    | Echo
    | Push
    | Request
    | SubscriberPull
    | PublisherPull
    | Watermark
    | Repair
)
GOSSIP = (Steps, Missed, Echo, Push, Request, SubscriberPull, PublisherPull, Watermark)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_PREFIX = bytes([VERSION])


def encode_message(message: Message) -> bytes:
    """The bytes that carry a message."""
    return _PREFIX + _encoder.encode(message)


def decode_message(data: bytes, limit: int = MESSAGE_BYTES_MAX) -> Message:
    """The message that the bytes carry; FrameError or VersionError if they carry none."""
    return decode_versioned(data, _decoder, limit, "message")
