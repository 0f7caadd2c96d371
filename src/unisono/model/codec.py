"""Frames as bytes: one version byte, then MessagePack. Anything else is a FrameError, never a crash.

The version says how to read what follows; this build writes version 1 and reads version 1. Sizes are checked
before anything is decoded. Frames go over links and the event notification service, packets are frames with
their place on a link, records are what a lane stores.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar, get_args

import msgspec

from unisono.model.bundles import StampedBundle
from unisono.model.errors import FrameError, PayloadError, VersionError
from unisono.model.frames import EpochNotice, Heartbeat, Message, Packet, PeerAsk, PeerTell, Stamped
from unisono.model.lanes import LaneRecord

VERSION = 1
FRAME_BYTES_MAX = 8 * 1024 * 1024
RECORD_BYTES_MAX = 64 * 1024 * 1024  # the beginning of an epoch names every topic and every subscriber

Frame: TypeAlias = Stamped | StampedBundle | Heartbeat | EpochNotice | PeerAsk | PeerTell | Message

_T = TypeVar("_T")
_encoder = msgspec.msgpack.Encoder()
_frames: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
_packets: msgspec.msgpack.Decoder[Packet] = msgspec.msgpack.Decoder(Packet)
_records: msgspec.msgpack.Decoder[LaneRecord] = msgspec.msgpack.Decoder(LaneRecord)
_RECORD_TAGS = {record.__struct_config__.tag for record in get_args(LaneRecord)}
_PREFIX = bytes([VERSION])


def encode_frame(frame: Frame) -> bytes:
    """The bytes that carry a frame."""
    return _PREFIX + _encoder.encode(frame)


def decode_frame(data: bytes, limit: int = FRAME_BYTES_MAX) -> Frame:
    """The frame that the bytes carry."""
    return decode_versioned(data, _frames, limit, "frame")


def encode_packet(packet: Packet) -> bytes:
    """The bytes that carry a packet of a link."""
    return _PREFIX + _encoder.encode(packet)


def decode_packet(data: bytes, limit: int = FRAME_BYTES_MAX) -> Packet:
    """The packet that the bytes carry."""
    return decode_versioned(data, _packets, limit, "packet")


def encode_record(record: LaneRecord) -> bytes:
    """The bytes that are stored in a lane; PayloadError if it cannot be written."""
    try:
        return _PREFIX + _encoder.encode(record)
    except (OverflowError, UnicodeEncodeError) as error:
        raise PayloadError(f"a record that cannot be written: {error}") from None


def decode_record(data: bytes, limit: int = RECORD_BYTES_MAX) -> LaneRecord:
    """The record that was stored; VersionError if it is one of ours, and this build cannot read it."""
    try:
        return decode_versioned(data, _records, limit, "record")
    except FrameError as error:
        if isinstance(error, VersionError) or _tag(data) not in _RECORD_TAGS:
            raise
        raise VersionError(
            f"a record that another build of unisono wrote ({error}); go on with that build, or begin a new store"
        ) from None


def _tag(data: bytes) -> object:
    """How a record says what it is, whatever else it says."""
    try:
        items = msgspec.msgpack.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    return items[0] if isinstance(items, list) and items and isinstance(items[0], str) else None


def decode_versioned(data: bytes, decoder: msgspec.msgpack.Decoder[_T], limit: int, what: str) -> _T:
    """What follows the version byte, whatever it is; raises FrameError for anything else."""
    if not data:
        raise FrameError(f"an empty {what}")
    if len(data) > limit:
        raise FrameError(f"a {what} of {len(data)} bytes is over the limit of {limit}")
    if data[0] != VERSION:
        later = data[0] > VERSION
        remedy = (
            "upgrade this one"
            if later
            else "it was written by a release that is too old; upgrade release by release"
        )
        raise VersionError(f"a {what} of version {data[0]}; this build reads version {VERSION}: {remedy}")
    try:
        return decoder.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"not a {what}: {error}") from None
