"""From sealed lanes to the beginning of the next epoch: a pure function, the same for everybody who reads.

How far a topic went is the largest number of it that *any* record names, not the last of its own events: a
stamp may name a number that died with its node. Numbers up to there that are in no lane are void.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from unisono.engines.takeover.carried import Carried
from unisono.engines.takeover.control import VIEW
from unisono.engines.takeover.patterns import matching
from unisono.model.bundles import StampedBundle
from unisono.model.frames import Entries, EpochNotice, Registration, Sequenced
from unisono.model.lanes import (
    BundleRecord,
    EpochRecord,
    EventRecord,
    JoinRecord,
    Keyed,
    LaneRecord,
    SealRecord,
)


class Recovery(NamedTuple):
    """Where the next epoch starts."""

    notice: EpochNotice
    registrations: tuple[Registration, ...]
    seen: tuple[Sequenced, ...]
    bundles: tuple[StampedBundle, ...]  # of which events are seen too
    keys: dict[str, tuple[Keyed, ...]]

    def record(self, before: Mapping[str, int], at: float = 0.0) -> EpochRecord:
        """What is written in every lane; `before` says where the epoch before began, and `at` when this one did."""
        begun = self.notice, self.registrations, self.seen, self.keys
        return EpochRecord(self.notice.epoch, *begun, dict(before), at, self.bundles)


def valid_records(
    records: Iterable[LaneRecord], before: int
) -> Iterator[EventRecord | BundleRecord | JoinRecord]:
    """The events and joins of a lane that count, up to the first seal of epoch `before` or later."""
    return (record for _, record in valid_positions(records, before))


def valid_positions(
    records: Iterable[LaneRecord], before: int
) -> Iterator[tuple[int, EventRecord | BundleRecord | JoinRecord]]:
    """The same, each with its position, from 1 on.

    A record counts if its epoch was not over when it was stored and it continues its writer's row: a copy, or
    what a sealed writer still managed to store, does not.
    """
    current = 0
    rows: dict[int, int] = {}
    for position, record in enumerate(records, start=1):
        if isinstance(record, SealRecord | EpochRecord):
            if record.epoch >= before:
                return
            current = max(current, record.epoch)
        elif record.epoch >= current and record.index == rows.get(record.epoch, 0) + 1:
            rows[record.epoch] = record.index
            yield position, record


def recover(
    lanes: Mapping[str, Sequence[LaneRecord]],
    epoch: int,
    topics: Iterable[str],
    reports: Iterable[Registration] = (),
    patterns: Iterable[Registration] = (),
    gone: Iterable[str] = (),
) -> Recovery:
    """What epoch `epoch` starts from, given the sealed lanes of the one before.

    Who holds a pattern is registered for every topic it stands for before a number of that topic is taken.
    """
    topics = tuple(topics)
    start = _checkpoint(lanes, epoch)
    numbers: Entries = dict.fromkeys(topics, 0)
    registered: dict[str, Registration] = {}
    carried = Carried()
    if start is not None:
        numbers |= start.notice.numbers
        registered = {r.subscriber: r for r in start.registrations if not r.subscriber.startswith(VIEW)}
        for sequenced in start.seen:
            carried.remember(sequenced)
        for outline in start.bundles:
            carried.remember_bundle(outline)
        for topic, keyed in start.keys.items():
            carried.recall(topic, keyed)
    base = dict(numbers)
    own: dict[str, list[tuple[int, int]]] = {}  # the numbers that are in the lanes, as ranges
    for lane in sorted(lanes):
        for record in valid_records(lanes[lane], epoch):
            if record.epoch != epoch - 1:
                continue  # before the checkpoint
            match record:
                case JoinRecord(_, _, registration, reached):
                    _raise(numbers, reached)
                    _register(registered, registration)
                case EventRecord(_, _, event):
                    _raise(numbers, event.entries)
                    own.setdefault(event.topic, []).append((event.number, event.number))
                    carried.add(event)
                case BundleRecord(_, _, bundle):
                    newest = {part.topic: bundle.clock[part.topic] + part.count for part in bundle.parts}
                    _raise(numbers, bundle.clock | newest)
                    for topic, number in newest.items():
                        own.setdefault(topic, []).append((bundle.clock[topic] + 1, number))
                    carried.add_bundle(bundle)
    patterns = tuple(patterns)
    held = {s: r.topics for s, r in registered.items()}
    for report in reports:
        known = registered.get(report.subscriber)
        if known is not None and known.version <= report.version:
            registered[report.subscriber] = report
    for holder in patterns:
        if found := matching(holder.topics, topics):
            _register(
                registered, Registration(holder.subscriber, holder.version, tuple(found), holder.weight)
            )
    waiting = {holder.subscriber for holder in patterns}  # perhaps for a topic that does not exist yet
    left = {s for s, topics in held.items() if topics and not registered[s].topics} - waiting
    voids = {
        topic: ranges
        for topic in sorted(numbers)
        if (ranges := _holes(base.get(topic, 0), numbers[topic], own.get(topic, ())))
    }
    return Recovery(
        EpochNotice(epoch, numbers, voids, tuple(sorted(left.union(gone)))),
        tuple(kept for s in sorted(registered) if (kept := _among(registered[s], numbers)).topics),
        *carried.newest_seen(),
        carried.newest_keys(),
    )


def _checkpoint(lanes: Mapping[str, Sequence[LaneRecord]], epoch: int) -> EpochRecord | None:
    """The record that began the epoch before; the same in every lane that has it."""
    for lane in sorted(lanes):
        for record in lanes[lane]:
            if isinstance(record, EpochRecord) and record.epoch == epoch - 1:
                return record
    return None


def _raise(numbers: Entries, seen: Entries) -> None:
    for topic, number in seen.items():
        if number > numbers.get(topic, number):
            numbers[topic] = number


def _register(registered: dict[str, Registration], registration: Registration) -> None:
    """Within an epoch what a subscriber held stays registered."""
    known = registered.get(registration.subscriber)
    if known is None:
        registered[registration.subscriber] = registration
        return
    topics = tuple(sorted({*known.topics, *registration.topics}))
    version = max(known.version, registration.version)
    registered[registration.subscriber] = Registration(
        registration.subscriber, version, topics, registration.weight
    )


def _among(registration: Registration, topics: Mapping[str, int]) -> Registration:
    """A registration without topics that do not exist: whoever names them is not believed."""
    if all(topic in topics for topic in registration.topics):
        return registration
    known = tuple(topic for topic in registration.topics if topic in topics)
    return Registration(registration.subscriber, registration.version, known, registration.weight)


def _holes(base: int, last: int, own: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The numbers above `base`, up to `last`, that are in none of these ranges, as ranges."""
    ranges: list[tuple[int, int]] = []
    for first, end in (*sorted(own), (last + 1, last + 1)):
        if first > base + 1:
            ranges.append((base + 1, first - 1))
        base = max(base, end)
    return tuple(ranges)
