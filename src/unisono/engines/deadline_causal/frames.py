"""What travels between brokers, and between brokers and subscribers: datagrams, so late, lost, twice and overtaken."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.deadline_causal.events import Key
from unisono.engines.deadline_causal.stamps import Stream
from unisono.model.frames import Publication

# Between brokers.


class Matrix(msgspec.Struct, frozen=True, array_like=True):
    """The past of an event: what has changed since another event of the same stream, or all of it."""

    base: int = 0  # the stamp of that other event; 0: there is none
    changed: tuple[
        tuple[int, int], ...
    ] = ()  # a place in the base's past, in order, and how much later it is now
    new: tuple[tuple[str, str, int], ...] = ()  # streams that are not in the base's past


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """An event as it goes from broker to broker."""

    broker: str
    topic: str
    stamp: int
    last: int
    matrix: Matrix
    publication: Publication


class Multicast(msgspec.Struct, frozen=True, array_like=True, tag="multicast"):
    """First phase: an event, from who sends it to the brokers of its topic."""

    event: Sent
    is_base: bool = False  # keep its past and say so: others may build on it


class Read(msgspec.Struct, frozen=True, array_like=True, tag="read"):
    """I keep the past of this event of yours."""

    topic: str
    stamp: int


class Digest(msgspec.Struct, frozen=True, array_like=True, tag="digest"):
    """Second phase: who I am, whom I know, and which events I have that are still of use."""

    zone: str
    topics: tuple[str, ...]
    brokers: tuple[str, ...]
    have: tuple[tuple[str, str, tuple[int, ...]], ...]  # broker, topic, stamps


class Request(msgspec.Struct, frozen=True, array_like=True, tag="request"):
    """I have not got these events."""

    keys: tuple[Key, ...]


class Repair(msgspec.Struct, frozen=True, array_like=True, tag="repair"):
    """Here they are, with their whole pasts."""

    events: tuple[Sent, ...]


# Between brokers and subscribers, and among subscribers.


class Coloured(msgspec.Struct, frozen=True, array_like=True):
    """An event for subscribers: streams are places in the frame's table, rounds are colours."""

    stream: int
    colour: int
    minor: int
    left: int  # rounds from its own to the last in which it is of use
    vector: tuple[int, ...]  # its past: stream, colour, minor, and so on
    publication: Publication


class News(msgspec.Struct, frozen=True, array_like=True, tag="news"):
    """Events, and others who may have more; `sent` is the round by the sender's clock, by which colours are read."""

    sent: int
    streams: tuple[Stream, ...]
    events: tuple[Coloured, ...]
    peers: tuple[str, ...] = ()


class Have(msgspec.Struct, frozen=True, array_like=True, tag="have"):
    """A subscriber to its broker or to another subscriber: these I have of these topics; what more is there?"""

    topics: tuple[str, ...]
    have: tuple[tuple[str, str, tuple[int, ...]], ...]


class Attach(msgspec.Struct, frozen=True, array_like=True, tag="attach"):
    """A subscriber to its broker, now and then: I am here and want these topics."""

    topics: tuple[str, ...]


class Detach(msgspec.Struct, frozen=True, array_like=True, tag="detach"):
    """A subscriber to its former broker: I am gone."""


class Submission(msgspec.Struct, frozen=True, array_like=True):
    """An event to be published until its last round, and what its publisher had seen since the one before."""

    publication: Publication
    last: int
    context: tuple[tuple[str, str, int], ...] = ()


class Submit(msgspec.Struct, frozen=True, array_like=True, tag="submit"):
    """A subscriber to its broker: publish these, in this order."""

    number: int
    bundle: tuple[Submission, ...]


class Submitted(msgspec.Struct, frozen=True, array_like=True, tag="submitted"):
    """The answer: their stamps, 0 for one whose deadline was too near."""

    number: int
    stamps: tuple[int, ...]


BrokerFrame: TypeAlias = Multicast | Read | Digest | Request | Repair
SubscriberFrame: TypeAlias = News | Have | Attach | Detach | Submit | Submitted
Frame: TypeAlias = BrokerFrame | SubscriberFrame
