"""Where a subscription begins: with what is new, with the earliest event that is kept, at a time, behind a stamp."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import TypeAlias

import msgspec

from unisono.model.errors import ConfigError, TopicError
from unisono.model.ids import check_topic

Start: TypeAlias = str | datetime | float | Mapping[str, int]
NEW = "new"
EARLIEST = "earliest"


def check_start(start: object) -> str | float | dict[str, int]:
    """`new`, `earliest`, seconds since 1970, or a stamp; ConfigError says what else it might be."""
    if start in (NEW, EARLIEST):
        return str(start)
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ConfigError(f"start={start!r} has no time zone; use datetime.now(timezone.utc), say")
        return start.timestamp()
    if isinstance(start, int | float) and not isinstance(start, bool) and isfinite(start) and start >= 0:
        return float(start)
    if isinstance(start, Mapping) and start:
        return _stamp(start)
    raise ConfigError(
        f"start={start!r:.80} is none; use 'new', 'earliest', a datetime, seconds since 1970, or the stamp of a receipt "
        "or an event"
    )


def _stamp(stamp: Mapping[object, object]) -> dict[str, int]:
    checked: dict[str, int] = {}
    for topic, number in stamp.items():
        try:
            name = check_topic(topic)  # type: ignore[arg-type]
        except TopicError as error:
            raise ConfigError(f"start={stamp!r:.80} is no stamp: {error}") from None
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise ConfigError(f"start={stamp!r:.80} is no stamp: {number!r} is not a number of '{topic}'")
        checked[name] = number
    return checked


def parse_start(text: str) -> Start:
    """What somebody wrote in a shell: new, earliest, a time as in ISO 8601 or in seconds, or a stamp in JSON."""
    if text in (NEW, EARLIEST):
        return text
    try:
        return float(text)
    except ValueError:
        pass
    try:
        if text.startswith("{"):
            return msgspec.json.decode(text, type=dict[str, int])
        at = datetime.fromisoformat(text)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"--start {text!r:.80} is none: {error}; use new, earliest, 2026-11-16T10:00:00, seconds since 1970, or a "
            "stamp like '{\"orders\": 7}'"
        ) from None
    return at if at.tzinfo is not None else at.astimezone()
