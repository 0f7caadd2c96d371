"""What peers of an overlay put into datagrams."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.epidemic.leaves import Full, Here, Taken
from unisono.engines.epidemic.messages import Message
from unisono.engines.epidemic.tree import Beat
from unisono.model.codec import VERSION, decode_versioned
from unisono.model.errors import ConfigError

Spoken: TypeAlias = Message | Beat | Here | Taken | Full

LEAF = "~"  # how the names of leaves begin
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Spoken] = msgspec.msgpack.Decoder(Spoken)
_PREFIX = bytes([VERSION])


def encode(spoken: Spoken) -> bytes:
    """The bytes that carry it."""
    return _PREFIX + _encoder.encode(spoken)


def decode(data: bytes) -> Spoken:
    """What the bytes carry; FrameError if that is nothing of ours."""
    return decode_versioned(data, _decoder, len(data), "message")


def name_at(host: str, port: int, *, leaf: bool = False) -> str:
    """The name of a peer is where it is."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return LEAF + where if leaf else where


def place_of(name: str) -> tuple[str, int]:
    """Where a peer is, by its name; ConfigError if that is none."""
    host, _, port = name.removeprefix(LEAF).rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"'{name}' is not an address: say host:port")
    return host.strip("[]"), int(port)
