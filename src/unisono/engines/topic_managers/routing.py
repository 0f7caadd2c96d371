"""What a node has to know of messages and records to hand them to the right manager at the right time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from unisono.engines.takeover.recovery import valid_records
from unisono.engines.takeover.requests import WEIGHT_MAX
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.bundles import Bundle, StampedBundle
from unisono.model.frames import (
    Create,
    Done,
    Fill,
    Join,
    Nack,
    Publication,
    Registration,
    Sequenced,
    Stamped,
)
from unisono.model.lanes import BundleRecord, EpochRecord, EventRecord, LaneRecord

ToManager: TypeAlias = Create | Fill | Done | Join | Nack


def stored_events(
    lanes: Iterable[Sequence[LaneRecord]], before: int
) -> dict[str, list[Stamped | StampedBundle]]:
    """What the lanes still hold of each topic from epochs before this one, in order of numbers; bundles as they are."""
    found: dict[str, dict[int, Stamped | StampedBundle]] = {}  # by the number of the first
    for records in lanes:
        for record in valid_records(records, before):
            match record:
                case EventRecord(_, _, event):
                    found.setdefault(event.topic, {})[event.number] = event
                case BundleRecord(_, _, bundle):
                    for part in bundle.parts:
                        found.setdefault(part.topic, {})[bundle.clock[part.topic] + 1] = bundle
    return {topic: [events[number] for number in sorted(events)] for topic, events in found.items()}


def by_topic(start: EpochRecord) -> dict[str, EpochRecord]:
    """What an epoch begins with, taken apart: for each topic only what concerns it."""
    held: dict[str, list[Registration]] = {}
    seen: dict[str, list[Sequenced]] = {}
    bundles: dict[str, list[StampedBundle]] = {}
    for registration in start.registrations:
        for topic in registration.topics:
            held.setdefault(topic, []).append(registration)
    for sequenced in start.seen:
        seen.setdefault(sequenced.topic, []).append(sequenced)
    for bundle in start.bundles:
        for part in bundle.parts:
            bundles.setdefault(part.topic, []).append(bundle)
    return {
        topic: EpochRecord(
            start.epoch,
            start.notice,
            tuple(held.get(topic, ())),
            tuple(seen.get(topic, ())),
            {topic: start.keys.get(topic, ())},
            bundles=tuple(bundles.get(topic, ())),
        )
        for topic in start.notice.numbers
    }


def without_ring(settings: ManagerSettings) -> ManagerSettings:
    """The same for managers that keep nothing for repair, because their node does."""
    return ManagerSettings(
        stamps=settings.stamps,
        seen_max=settings.seen_max,
        keys_max=settings.keys_max,
        keys_bytes_max=settings.keys_bytes_max,
        threshold=settings.threshold,
        stored=True,
    )


def epoch_of(message: ToManager) -> int | None:
    """The epoch a message belongs to; requests of publishers belong to any."""
    match message:
        case Fill() | Join():
            return message.epoch
        case Done(event):
            return event.epoch
    return None


def bytes_of(publication: Publication) -> int:
    """How many bytes an event takes at most, beside its stamp."""
    words = len(publication.publisher) + len(publication.key or "")
    if publication.headers:
        words += sum(len(name) + len(value) for name, value in publication.headers.items())
    return len(publication.body) + 4 * words


def size_of(message: ToManager | Bundle) -> int:
    """Roughly how many bytes a message takes."""
    match message:
        case Bundle():
            return 256 + message.size
        case Create(publication) | Fill(publication):
            return 256 + bytes_of(publication)
        case Join(registration):
            names = (*registration.topics, *message.new, *message.rest, *message.reached)
            return 256 + sum(map(len, names)) + 64 * len(names)
        case Nack():
            return 256 + 8 * len(message.numbers)
    return 256


def is_request(message: ToManager) -> bool:
    """Whether it starts something new; what is under way goes on while a node is frozen."""
    return isinstance(message, Create) or (isinstance(message, Join) and not message.reached)


def is_sound(registration: Registration) -> bool:
    """Whether a registration can do no harm: a weight below one would let topics look less shared than they are."""
    return 1 <= registration.weight <= WEIGHT_MAX and registration.version >= 0
