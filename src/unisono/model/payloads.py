"""Payloads: bytes stay bytes, everything else travels as MessagePack, and comes back as the type asked for.

Plain data, dataclasses, msgspec structs, enums, datetimes, UUIDs and pydantic models can be published. What a
subscriber gets is plain data unless it names a type.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from unisono.model.errors import PayloadError
from unisono.model.frames import PACKED, RAW


def encode(data: object) -> tuple[bytes, int]:
    """The body of an event, and what it is."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), RAW
    try:
        return _encoder.encode(data), PACKED
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError(f"a {type(data).__name__} cannot be published: {error}") from None


def decode(body: bytes, content: int, type_: Any = Any) -> Any:
    """What the publisher gave, as `type_`; raises PayloadError if it does not fit."""
    if content == RAW:
        if type_ is Any or type_ is bytes:
            return body
        return _decode_packed(body, type_, "raw bytes")
    return _decode_packed(body, type_, "payload")


def _decode_packed(body: bytes, type_: Any, what: str) -> Any:
    try:
        return _decoder(type_).decode(body)
    except Exception as error:  # whatever the user's own type raised while it was made
        raise PayloadError(f"the {what} is not a {_name(type_)}: {error}") from error


def check_type(type_: Any) -> None:
    """Raise PayloadError when events cannot be decoded as `type_`."""
    try:
        _decoder(type_)
    except TypeError as error:
        raise PayloadError(f"{_name(type_)} cannot be a payload type: {error}") from None


def _dump(value: Any) -> Any:
    """Pydantic models know how to become plain data; nothing else unknown does."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no plain form; give bytes, plain data or a dataclass")
    return dump(mode="python")


def _load(type_: Any, plain: Any) -> Any:
    validate = getattr(type_, "model_validate", None)
    if validate is None:
        raise TypeError(f"{_name(type_)} is not a type that plain data can be turned into")
    try:
        return validate(plain)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None


def _name(type_: Any) -> str:
    return getattr(type_, "__name__", str(type_))


_encoder = msgspec.msgpack.Encoder(enc_hook=_dump)


@lru_cache(maxsize=1024)
def _decoder(type_: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(type_, dec_hook=_load)
