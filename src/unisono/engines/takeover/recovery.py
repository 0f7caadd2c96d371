"""From sealed lanes to the beginning of the next epoch: a pure function, the same for everybody who reads.

How far a topic went is the largest number of it that *any* record names, not the last of its own events: a
stamp may name a number that died with its node. Numbers up to there that are in no lane are void.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from unisono.engines.takeover.control import VIEW
from unisono.engines.takeover.patterns import matching
from unisono.model.frames import Entries, EpochNotice, Registration, Sequenced
from unisono.model.lanes import (
    BundleRecord,
    EpochRecord,
    EventRecord,
    JoinRecord,
    Keyed,
    LaneRecord,
    SealRecord,
    events_of,
)

SEEN_MAX = 640  # events remembered of one publisher life on one topic; publishers have fewer under way
SEQUENCED_BYTES, ENTRY_BYTES = 80, 24  # roughly
SEEN_BYTES_MAX = 16 * 1024 * 1024
KEYS_MAX = 65536  # keys of one topic that an epoch begins with
KEYS_BYTES_MAX = 1024 * 1024  # and roughly how much of all of them
LIVES_MAX = 4096  # publisher lives remembered per epoch; those that were silent longest are forgotten


class Recovery(NamedTuple):
    """Where the next epoch starts."""

    notice: EpochNotice
    registrations: tuple[Registration, ...]
    seen: tuple[Sequenced, ...]
    keys: dict[str, tuple[Keyed, ...]]

    def record(self, before: Mapping[str, int], at: float = 0.0) -> EpochRecord:
        """What is written in every lane; `before` says where the epoch before began, and `at` when this one did."""
        begun = self.notice, self.registrations, self.seen, self.keys
        return EpochRecord(self.notice.epoch, *begun, dict(before), at)


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
    seen: dict[tuple[str, str, int], dict[int, Sequenced]] = {}
    keys: dict[str, list[Keyed]] = {}
    if start is not None:
        numbers |= start.notice.numbers
        registered = {r.subscriber: r for r in start.registrations if not r.subscriber.startswith(VIEW)}
        for sequenced in start.seen:
            _remember(seen, sequenced)
        keys = {topic: list(keyed) for topic, keyed in start.keys.items()}
    base = dict(numbers)
    own: dict[str, set[int]] = {}
    for lane in sorted(lanes):
        for record in valid_records(lanes[lane], epoch):
            if record.epoch != epoch - 1:
                continue  # before the checkpoint
            if isinstance(record, JoinRecord):
                _raise(numbers, record.reached)
                _register(registered, record.registration)
            for event in events_of(record):
                _raise(numbers, event.entries)
                own.setdefault(event.topic, set()).add(event.number)
                id = event.publication.id
                _remember(seen, Sequenced(event.topic, id, event.epoch, event.entries))
                if event.publication.key is not None:
                    keyed = Keyed(event.publication.key, event.epoch, event.entries)
                    keys.setdefault(event.topic, []).append(keyed)
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
        if (ranges := _holes(base.get(topic, 0), numbers[topic], own.get(topic, set())))
    }
    return Recovery(
        EpochNotice(epoch, numbers, voids, tuple(sorted(left.union(gone)))),
        tuple(kept for s in sorted(registered) if (kept := _among(registered[s], numbers)).topics),
        _newest(seen),
        _newest_keys(keys),
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


def _remember(seen: dict[tuple[str, str, int], dict[int, Sequenced]], sequenced: Sequenced) -> None:
    life = (sequenced.topic, sequenced.id.publisher, sequenced.id.incarnation)
    window = seen[life] = seen.pop(life, {})  # those heard of last come last
    window[sequenced.id.n] = sequenced
    if len(window) >= 2 * SEEN_MAX:  # not each time: lanes are long
        seen[life] = _trimmed(window)


def _trimmed(window: dict[int, Sequenced]) -> dict[int, Sequenced]:
    return {n: window[n] for n in sorted(window)[-SEEN_MAX:]}


def _newest(seen: dict[tuple[str, str, int], dict[int, Sequenced]]) -> tuple[Sequenced, ...]:
    """What is carried over, of those heard of last; there is a bound to what an epoch can begin with."""
    seen = {life: _trimmed(window) for life, window in seen.items()}
    kept: list[tuple[str, str, int]] = []
    size = 0
    for life in reversed(list(seen)[-LIVES_MAX:]):
        size += sum(SEQUENCED_BYTES + ENTRY_BYTES * len(one.entries) for one in seen[life].values())
        if kept and size > SEEN_BYTES_MAX:
            break
        kept.append(life)
    return tuple(one for life in reversed(kept) for one in seen[life].values())


def _newest_keys(keys: dict[str, list[Keyed]]) -> dict[str, tuple[Keyed, ...]]:
    """The same of keys: as many of each topic, the newest, as there is room for."""
    ordered = {topic: sorted(keys[topic], key=lambda one: one.entries[topic]) for topic in sorted(keys)}
    most = KEYS_MAX
    while True:
        kept = {topic: tuple(found[-most:]) for topic, found in ordered.items()}
        if most == 1 or sum(one.size for found in kept.values() for one in found) <= KEYS_BYTES_MAX:
            return kept
        most //= 2


def _holes(base: int, last: int, own: set[int]) -> tuple[tuple[int, int], ...]:
    """The numbers above `base`, up to `last`, that are not in `own`, as ranges."""
    ranges: list[tuple[int, int]] = []
    for number in (*sorted(n for n in own if base < n <= last), last + 1):
        if number > base + 1:
            ranges.append((base + 1, number - 1))
        base = number
    return tuple(ranges)
