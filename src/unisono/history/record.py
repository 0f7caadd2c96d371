"""One record of what happened, the same for simulated and real runs.

A history is a list of records. Within one process they are in the order in which things happened there
(`seq` counts up); between processes nothing but cause and effect relates them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Kind(StrEnum):
    """What a record tells."""

    PUBLISHED = "published"  # the application handed the event to the bus
    SEQUENCED = "sequenced"  # the event got its stamp
    DELIVERED = "delivered"  # the application was handed the event
    DROPPED = "dropped"  # an ordering rule or a full queue dropped it (`reason` says which)
    LOST = "lost"  # declared lost: it can no longer come
    HELD = "held"  # still held back when the run ended
    SUBSCRIBED = "subscribed"  # from here on every later event of `topic` is owed
    UNSUBSCRIBED = "unsubscribed"  # from here on nothing of `topic` is owed
    HEALED = "healed"  # the world stopped doing harm; what is owed must now come
    TOLD = (
        "told"  # it was told to others with a deadline: `number` is its stamp there, `stamp` what it follows
    )


class Record(msgspec.Struct, frozen=True, array_like=True):
    """`event` is "publisher/incarnation/n"; `stamp` maps topics to numbers; `number` is the own topic's.

    Of TOLD events stamps are those of deadline-causal order: one for each stream, which is called broker/topic, the
    event itself included.
    """

    kind: Kind
    process: str  # who it happened to
    seq: int  # its place in that process
    at: float  # seconds, that process's clock
    event: str = ""
    topic: str = ""
    number: int = 0
    stamp: dict[str, int] | None = None
    epoch: int = 0
    in_order: bool = True
    order: str = ""  # SUBSCRIBED: which order was promised; else empty
    on_gap: str = ""  # SUBSCRIBED: what was asked for at a gap
    reason: str = ""
    subscription: str = ""  # which subscription of the process; "" when it has one
    deadline: float | None = (
        None  # of an event: until when it is of use; SUBSCRIBED: seconds, None: no deadlines
    )


def to_json(record: Record) -> bytes:
    """One line of JSON with named fields, for people and other tools."""
    return msgspec.json.encode({name: getattr(record, name) for name in Record.__struct_fields__})


def from_json(line: bytes | str) -> Record:
    """The record of such a line; raises HistoryError when it is not one."""
    from unisono.model.errors import HistoryError

    try:
        fields: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        return msgspec.convert([fields.get(n, d) for n, d in _FIELDS], Record)
    except (msgspec.MsgspecError, TypeError) as error:
        raise HistoryError(f"not a history record: {error}") from None


_FIELDS = tuple(
    (f.name, None if f.default is msgspec.NODEFAULT else f.default) for f in msgspec.structs.fields(Record)
)
