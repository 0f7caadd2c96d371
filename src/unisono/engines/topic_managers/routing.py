"""What a node has to know of messages and records to hand them to the right manager at the right time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from unisono.engines.takeover.recovery import valid_records
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.model.frames import Create, Done, Fill, Join, Nack, Stamped
from unisono.model.lanes import EventRecord, LaneRecord

ToManager: TypeAlias = Create | Fill | Done | Join | Nack


def stored_events(topic: str, lanes: Iterable[Sequence[LaneRecord]], before: int) -> list[Stamped]:
    """What the lanes still hold of a topic from epochs before this one, in order of numbers."""
    events = {
        record.event.number: record.event
        for records in lanes
        for record in valid_records(records, before)
        if isinstance(record, EventRecord) and record.event.topic == topic
    }
    return [events[number] for number in sorted(events)]


def without_ring(settings: ManagerSettings) -> ManagerSettings:
    """The same for managers that keep nothing for repair, because their node does."""
    return ManagerSettings(
        stamps=settings.stamps, seen_max=settings.seen_max, threshold=settings.threshold, stored=True
    )


def epoch_of(message: ToManager) -> int | None:
    """The epoch a message belongs to; requests of publishers belong to any."""
    match message:
        case Fill() | Join():
            return message.epoch
        case Done(event):
            return event.epoch
    return None


def is_request(message: ToManager) -> bool:
    """Whether it starts something new; what is under way goes on while a node is frozen."""
    return isinstance(message, Create) or (isinstance(message, Join) and not message.reached)
