"""What buses tell each other of events with deadlines: on which topics of the service, and how it is written.

    d.<client>.e.<topic>     events that a client published
    d.<client>.to.<broker>   what it has to say to one other bus
    d.<client>.all           which topics it wants and which events it has, for everybody

The word that says who sends is what a server's permissions can check. A bus is a broker for one life: its name there is
its client's and the incarnation. Many frames of one turn travel together.
"""

from __future__ import annotations

import re

import msgspec

from unisono.engines.deadline_causal.frames import BrokerFrame, Digest, Repair
from unisono.model.codec import FRAME_BYTES_MAX, VERSION, decode_versioned
from unisono.model.errors import FrameError

ALL = "all"
TO = "to"
EVENTS = "e"
ANY = "*"
_LIFE = "~"
_PREFIX = bytes([VERSION])
_encoder = msgspec.msgpack.Encoder()


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """What one broker says, and how it cuts time."""

    broker: str
    pace: tuple[float, int, int]
    frames: tuple[BrokerFrame, ...]


_decoder: msgspec.msgpack.Decoder[Letter] = msgspec.msgpack.Decoder(Letter)


def client_of(name: str) -> str:
    """The word that says who sends, of a bus with this name."""
    return re.sub(r"[^\w-]", "_", name.partition(".")[0])


def broker_of(client: str, life: int) -> str:
    """The name of a bus among brokers."""
    return f"{client}{_LIFE}{life:x}"


def events_on(client: str, topic: str) -> str:
    """Where a client's events of a topic travel."""
    return f"d.{client}.{EVENTS}.{topic}"


def inbox_of(client: str, broker: str) -> str:
    """Where a client writes to one broker."""
    return f"d.{client}.{TO}.{broker}"


def for_all(client: str) -> str:
    """Where a client writes to everybody."""
    return f"d.{client}.{ALL}"


def encode(letter: Letter) -> bytes:
    """The bytes that carry it."""
    return _PREFIX + _encoder.encode(letter)


def decode(topic: str, data: bytes) -> Letter:
    """What came on a topic; FrameError if that is nothing of ours, or of somebody else than it says."""
    letter = decode_versioned(data, _decoder, FRAME_BYTES_MAX, "letter")
    client = topic.split(".", 2)[1] if topic.startswith("d.") else ""
    if letter.broker.rpartition(_LIFE)[0] != client:
        raise FrameError(f"'{client}' writes in the name of '{letter.broker}'")
    return letter


def halves(frame: BrokerFrame) -> tuple[BrokerFrame, BrokerFrame] | None:
    """The same in two frames, where it can be said in two."""
    match frame:
        case Repair(events) if len(events) > 1:
            half = len(events) // 2
            return Repair(events[:half]), Repair(events[half:])
        case Digest(zone, topics, brokers, have) if len(have) > 1:
            half = len(have) // 2
            return (
                Digest(zone, topics, brokers, have[:half]),
                Digest(zone, topics, brokers, have[half:]),
            )
        case Digest(zone, topics, brokers, ((broker, topic, stamps),)) if len(stamps) > 1:
            half = len(stamps) // 2
            return (
                Digest(zone, topics, brokers, ((broker, topic, stamps[:half]),)),
                Digest(zone, topics, brokers, ((broker, topic, stamps[half:]),)),
            )
    return None
