"""The columns of a segment, version 1: `unisono.history.Record`, laid out for vectors instead of objects.

An event's id is three columns, and its stamp is two: `layout` names the topics (sorted, joined by a space, which
no topic can contain), `stamp` holds their numbers in the same order. Rows of one layout are a matrix.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

VERSION = 1
VERSION_KEY = b"unisono.journal.version"
PROCESS_KEY = b"unisono.journal.process"  # who wrote it
LIFE_KEY = b"unisono.journal.life"  # which life of that process: one folder of segments
SEGMENT_KEY = b"unisono.journal.segment"  # 0, 1, 2, … within that life
LAST_KEY = b"unisono.journal.last"  # b"1" in the last segment of a life that ended in good order
DROPPED_KEY = b"unisono.journal.dropped"  # how many rows of this life were not written, up to here

_WORD = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("kind", _WORD, nullable=False),  # unisono.history.Kind
        pa.field("process", _WORD, nullable=False),
        pa.field("subscription", _WORD, nullable=False),  # "" where a process has one or none
        pa.field("seq", pa.int64(), nullable=False),  # counts up within the process life
        pa.field("at", pa.float64(), nullable=False),  # seconds since 1970, that process's clock
        pa.field("publisher", _WORD),  # null where the record is about no event
        pa.field("incarnation", pa.int64()),
        pa.field("n", pa.int64()),
        pa.field("topic", _WORD),
        pa.field("number", pa.int64(), nullable=False),  # 0 where unknown
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("in_order", pa.bool_(), nullable=False),
        pa.field("layout", _WORD),  # null where there is no stamp
        pa.field("stamp", pa.list_(pa.int64())),
        pa.field("published_at", pa.float64()),  # DELIVERED: when it was published, for latency
        pa.field("order", _WORD),
        pa.field("on_gap", _WORD),
        pa.field("reason", _WORD),
        pa.field("deadline", pa.float64()),  # of an event, seconds since 1970; SUBSCRIBED: seconds
        pa.field("body", pa.binary()),  # PUBLISHED, and null unless payloads were asked for
    ]
)
LATER = frozenset({"deadline"})  # columns that older segments have not got: null there


def layout_of(topics: Iterable[str]) -> str:
    """The layout of a stamp with these topics; ValueError where a name would not survive it."""
    names = sorted(topics)
    layout = " ".join(names)
    if topics_of(layout) != names:
        raise ValueError(f"a stamp names {names}; no topic is empty or has a space")
    return layout


def topics_of(layout: str) -> list[str]:
    """The topics whose numbers a stamp of this layout holds, in that order."""
    return layout.split(" ") if layout else []
