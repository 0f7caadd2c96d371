"""Frames as bytes: one version byte, then MessagePack. Anything else is a FrameError, never a crash.

The version says how to read what follows; this build writes version 1 and reads version 1. Sizes are checked
before anything is decoded.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.model.errors import FrameError
from unisono.model.frames import EpochNotice, Heartbeat, Message, Stamped

VERSION = 1
FRAME_BYTES_MAX = 8 * 1024 * 1024

Frame: TypeAlias = Stamped | Heartbeat | EpochNotice | Message

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_PREFIX = bytes([VERSION])


def encode_frame(frame: Frame) -> bytes:
    """The bytes that carry a frame."""
    return _PREFIX + _encoder.encode(frame)


def decode_frame(data: bytes, limit: int = FRAME_BYTES_MAX) -> Frame:
    """The frame that the bytes carry."""
    if not data:
        raise FrameError("an empty frame")
    if len(data) > limit:
        raise FrameError(f"a frame of {len(data)} bytes is over the limit of {limit}")
    if data[0] != VERSION:
        raise FrameError(f"a frame of version {data[0]}; this build reads version {VERSION}")
    try:
        return _decoder.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"not a frame: {error}") from None
