"""What is stored in a lane: a durable log with one writer of events at a time.

Events and joins carry the epoch of their writer and an index that counts up within it, so that a reader can
tell what a sealed writer still managed to store. A seal ends an epoch in a lane; an epoch record begins the
next one and carries everything that is needed to go on without the records before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from unisono.model.bundles import EVENT_BYTES, StampedBundle
from unisono.model.frames import Entries, EpochNotice, Registration, Sequenced, Stamped
from unisono.model.runs import run_of


class EventRecord(msgspec.Struct, frozen=True, array_like=True, tag="event"):
    """An event with its complete stamp."""

    epoch: int
    index: int
    event: Stamped


class BundleRecord(msgspec.Struct, frozen=True, array_like=True, tag="bundle"):
    """Events of one publisher that were numbered together."""

    epoch: int
    index: int
    bundle: StampedBundle


class JoinRecord(msgspec.Struct, frozen=True, array_like=True, tag="joined"):
    """A subscriber's registration, and how far its topics were."""

    epoch: int
    index: int
    registration: Registration
    reached: Entries


class SealRecord(msgspec.Struct, frozen=True, array_like=True, tag="seal"):
    """Whatever comes after this with a lower epoch does not count."""

    epoch: int
    before: dict[str, int] = {}  # only where it stands for an epoch record too large to keep


class Keyed(msgspec.Struct, frozen=True, array_like=True):
    """Where the event is that was published with this key."""

    key: str
    epoch: int
    entries: Entries

    @property
    def size(self) -> int:
        """Roughly how many bytes it takes to write it down."""
        return keyed_size(self.key, self.entries)


def keyed_size(key: str, names: Iterable[str]) -> int:
    """Roughly how many bytes it takes to write down where the event with this key is, by what its stamp names."""
    return 8 + len(key) + sum([6 + len(topic) for topic in names])


class EpochRecord(msgspec.Struct, frozen=True, array_like=True, tag="epoch"):
    """An epoch begins; older records are needed only by those who ask for old events."""

    epoch: int
    notice: EpochNotice
    registrations: tuple[Registration, ...]
    seen: tuple[Sequenced, ...]
    keys: dict[str, tuple[Keyed, ...]] = {}  # topic -> the newest of its keys, oldest first
    before: dict[str, int] = {}  # lane -> the sequence with which the epoch before began in it
    began_at: float = 0.0  # by the clock of whoever decided on it; 0.0: nobody knows
    bundles: tuple[StampedBundle, ...] = ()  # those whose events are seen, without what users gave


LaneRecord: TypeAlias = EventRecord | BundleRecord | JoinRecord | SealRecord | EpochRecord


def events_of(record: LaneRecord) -> Sequence[Stamped]:
    """The events that a record holds."""
    match record:
        case EventRecord(_, _, event):
            return (event,)
        case BundleRecord(_, _, bundle):
            return run_of(bundle).events()
    return ()


def count_of(record: LaneRecord) -> int:
    """How many events a record counts for; those that hold none count as one."""
    return len(record.bundle.order) if type(record) is BundleRecord else 1


def size_of(record: LaneRecord) -> int:
    """Roughly how many bytes the events of a record take."""
    if type(record) is EventRecord:
        return EVENT_BYTES + len(record.event.publication.body)
    if type(record) is BundleRecord:
        return record.bundle.size
    return EVENT_BYTES
