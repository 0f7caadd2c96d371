"""A client that means harm: what it sends, and the room it does it in."""

from __future__ import annotations

import random
import struct
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import nats

from unisono.model.bundles import Bundle, Part
from unisono.model.errors import FrameError
from unisono.model.frames import (
    Create,
    Done,
    EpochNotice,
    Fill,
    Heartbeat,
    Join,
    Joined,
    Nack,
    Packet,
    Prepare,
    Prepared,
    Publication,
    Refused,
    Registration,
    Repair,
    Replan,
    Report,
    Routed,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId
from unisono.runtime.remote.wire import (
    Beat,
    decode_beat,
    decode_notes,
    decode_packets,
    decode_replan,
    decode_told,
    encode,
)

DECODERS = (decode_beat, decode_notes, decode_packets, decode_replan, decode_told)
NUMBERS = (-(2**63), -1, 0, 1, 2, 7, 1000, 2**31, 2**53, 2**63, 2**64 - 1)
WORDS = (
    "orders",
    "payments",
    "",
    "no topic",
    "x.*",
    ">",
    "n1",
    "n2",
    "node",
    "anna",
    "bruno.sub1-1",
    "é" * 300,
    "m" * 9,
)


class Forger:
    """Draws frames from a seed: bytes that are none, frames that are broken, frames that lie."""

    def __init__(self, seed, whoami="mallory", topics=("orders", "payments")):
        self.dice = random.Random(seed)
        self.whoami = whoami
        self.topics = topics
        self.lives = {}  # node -> its life, once it has told
        self.life = 0

    # Values.

    def number(self):
        return self.dice.choice(NUMBERS) if self.dice.random() < 0.5 else self.dice.randrange(30)

    def name(self):
        kind = self.dice.random()
        if kind < 0.3:
            return self.whoami
        return self.dice.choice(self.topics if kind < 0.7 else WORDS)

    def names(self):
        if self.dice.random() < 0.002:
            return tuple(f"absurd.{self.dice.randrange(10**9)}" for _ in range(5000))
        return tuple(self.name() for _ in range(self.dice.randrange(4)))

    def numbers(self):
        if self.dice.random() < 0.01:
            return tuple(range(20000))
        return tuple(self.number() for _ in range(self.dice.randrange(6)))

    def entries(self):
        return {self.name(): self.number() for _ in range(self.dice.randrange(4))}

    def registration(self):
        return Registration(self.name(), self.number(), self.names(), self.number())

    def publication(self):
        return Publication(
            self.name(), self.number(), self.number(), self.name(), self.dice.randbytes(self.dice.randrange(40)),
            self.dice.choice((0, 1, 7, -1)), self.dice.choice((0.0, float("nan"), float("inf"), -1e300)),
            self.number(), self.dice.choice((None, "", "x" * 300)), self.dice.choice((None, {}, {"": "\0"})),
        )  # fmt: skip

    def stamped(self):
        return Stamped(self.publication(), self.number(), self.entries())

    def routed(self):
        match self.dice.randrange(8):
            case 0:
                message = Create(self.publication(), self.number(), self.number())
            case 5 | 6 | 7:
                return self.plausible()
            case 1:
                message = Fill(self.publication(), self.number(), self.entries(), self.names(), self.names())
            case 2:
                message = Done(self.stamped())
            case 3:
                message = Join(self.registration(), self.names(), self.number(), self.entries(), self.names())
            case _:
                message = Nack(self.name(), self.name(), self.numbers(), self.number())
        return Routed(self.name(), message)

    def plausible(self):
        """What a client may ask for, in its own name, with numbers that are not to be trusted."""
        topic, me = self.dice.choice(self.topics), self.whoami
        match self.dice.randrange(3):
            case 0:
                event = Publication(me, self.number(), self.number(), topic, b"\xc1", 1, nth=self.number())
                return Routed(topic, Create(event, self.number(), self.number()))
            case 1:
                return Routed(topic, Nack(topic, me, self.numbers(), self.number()))
        held = Registration(me, self.dice.randrange(5), self.dice.choice(((topic,), self.topics)))
        rest = self.dice.choice(((), ("payments",), self.names()))
        return Routed(topic, Join(held, held.topics, self.dice.randrange(30), {}, rest))

    def message(self):
        id = EventId(self.name(), self.number(), self.number())
        match self.dice.randrange(16):
            case 0:
                return Replan(self.number(), self.names(), self.names(), self.name(), self.names())
            case 1:
                moves = {self.name(): self.name()}
                return Replan(self.number(), patterns=self.registration(), moves=moves, leaving=self.name())
            case 2:
                return Prepare(self.number(), self.name())
            case 3:
                return Prepared(self.number(), self.name())
            case 4:
                return Report(self.registration(), self.names())
            case 5:
                return Refused("no", self.names())
            case 6:
                return Sequenced(self.name(), id, self.number(), self.entries())
            case 7:
                return Joined(self.number(), self.names(), self.number(), self.entries())
            case 9 | 10 | 11:
                return self.bundle()
            case 8:
                return Repair(self.name(), (self.stamped(),), self.numbers(), self.number())
            case _:
                return self.routed()

    def column(self, numbers):
        """Numbers, mostly as wide as they need not be, or bytes that are none."""
        if self.dice.random() < 0.1:
            return self.dice.randbytes(self.dice.randrange(20))
        code = self.dice.choice("BHIQ")
        return struct.pack(f"<{len(numbers)}{code}", *[n % 256 ** struct.calcsize(code) for n in numbers])

    def part(self, topic, count):
        sizes = [self.dice.randrange(9) for _ in range(count)]
        further = self.column([abs(self.number()) for _ in range(count)]) if self.dice.random() < 0.3 else b""
        some = sorted(self.dice.sample(range(count), self.dice.randrange(count + 1)))
        return Part(
            topic, self.dice.choice((1, 1, 2**63 - 1, self.number())), further, bytes(8 * count), self.column(sizes),
            bytes(sum(sizes)), self.dice.choice((b"", bytes(count))), self.dice.choice((0, 0, 0, self.number())),
            tuple((i, self.dice.choice(WORDS)) for i in some) if self.dice.random() < 0.2 else (),
            tuple((i, {"": "x" * 300}) for i in some) if self.dice.random() < 0.2 else (),
            tuple((i, float("nan")) for i in some) if self.dice.random() < 0.2 else (),
        )  # fmt: skip

    def bundle(self):
        """Many events at once, in its own name; columns are as they should be, or nearly."""
        count = self.dice.randrange(1, 6)
        order = (
            sorted(self.dice.randrange(2) for _ in range(count)) if self.dice.random() < 0.9 else [0] * count
        )
        topics = self.topics if 1 in order else self.topics[:1]
        if self.dice.random() < 0.1:
            topics = (self.name(), self.name())
        parts = tuple(self.part(topic, max(1, order.count(i))) for i, topic in enumerate(topics))
        first = self.dice.choice((1, 2, 3, self.number()))
        return Bundle(
            self.whoami, self.dice.choice((0, 1, 1, self.number())), first, b"", bytes(order), parts,
            self.number(), self.dice.choice((0, 1, self.number())),
        )  # fmt: skip

    # Frames.

    def packet(self, node="n1"):
        """Mostly one that the link takes: the first of a new life, for the node that is there."""
        self.life += 1
        to = self.lives.get(node, 0)
        if self.dice.random() < 0.8:
            return Packet(1, 0, self.message(), self.life, to)
        return Packet(
            self.number(), self.number(), self.message(), self.number(), self.dice.choice((to, self.number()))
        )

    def note(self):
        match self.dice.randrange(3):
            case 0:
                return Heartbeat(self.name(), self.number(), self.number())
            case 1:
                return EpochNotice(
                    self.number(), self.entries(), {"orders": ((1, 9), (-1, 2**63))}, self.names()
                )
        return self.stamped()

    def valid(self):
        """A frame that decodes."""
        kind = self.dice.random()
        if kind < 0.9:
            return encode([self.packet() for _ in range(self.dice.randrange(1, 4))])
        if kind < 0.95:
            return encode([self.note()])
        return encode(Beat(self.name(), self.number(), self.number(), self.number()))

    def broken(self):
        """Bytes that were a frame, or never were."""
        kind = self.dice.random()
        if kind < 0.3:
            return self.dice.randbytes(self.dice.randrange(60))
        frame = bytearray(self.valid())
        if kind < 0.6:
            return bytes(frame[: self.dice.randrange(len(frame))])
        for _ in range(self.dice.randrange(1, 4)):
            frame[self.dice.randrange(len(frame))] = self.dice.randrange(256)
        return bytes(frame)

    def frame(self):
        try:
            return self.valid() if self.dice.random() < 0.6 else self.broken()
        except (OverflowError, msgspec.MsgspecError):  # it cannot even be written
            return b"\x01"

    def undecodable(self):
        """Bytes that nobody takes for anything."""
        while True:
            frame = self.broken()
            if not any(map(partial(_decodes, frame), DECODERS)):
                return frame


def _decodes(frame, decode):
    try:
        decode(frame)
    except FrameError:
        return False
    return True


@asynccontextmanager
async def raw(url, name=None):
    """A plain NATS client with somebody's credentials, and what the server refuses it."""
    parts = urlsplit(url)
    refused = []

    async def on_error(error):
        refused.append(str(error))

    who = (
        {}
        if parts.username is None
        else {"user": unquote(parts.username), "password": unquote(parts.password)}
    )
    inbox = parse_qs(parts.query).get("inbox", ["_INBOX"])[0]
    client = await nats.connect(
        f"nats://{parts.hostname}:{parts.port}", inbox_prefix=inbox, error_cb=on_error, name=name,
        pending_size=64 * 1024 * 1024, **who,
    )  # fmt: skip
    client.refused = refused
    try:
        yield client
    finally:
        await client.close()
