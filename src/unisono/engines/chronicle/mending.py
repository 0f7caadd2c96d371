"""Repair from the lanes, for who is so late that no ring holds what it misses."""

from __future__ import annotations

from unisono.engines.chronicle.library import Library, UnreadError
from unisono.engines.chronicle.telling import BYTES_MAX, ENTRY_BYTES, EVENT_BYTES
from unisono.model.frames import Nack, Repair, Stamped


def mend(library: Library, nack: Nack) -> Repair:
    """Some of the numbers somebody misses, or which of them are gone for ever."""
    topic, first = nack.topic, min(nack.numbers)
    epoch = _chapter_of(library, topic, first)
    if epoch is None:
        kept = library.numbers(library.chapters.oldest).get(topic, 0)
        return Repair(topic, (), tuple(n for n in nack.numbers if n <= kept), 0)
    if epoch == library.chapters.newest:
        reading = library.present()
        if reading.found.get(topic, first) is None and reading.ended != reading.open:
            raise UnreadError(*reading.wanted())
        reading.ended.clear()
        found = reading.found
        void: tuple[int, ...] = ()
    else:
        found, last = library.chapter(epoch).found, library.numbers(epoch + 1).get(topic, 0)
        void = tuple(n for n in nack.numbers if n <= last and found.get(topic, n) is None)  # nobody has them
    events: list[Stamped] = []
    size = 0
    for number in nack.numbers:
        if (event := found.get(topic, number)) is not None and size < BYTES_MAX:
            events.append(event)
            size += EVENT_BYTES + len(event.publication.body) + ENTRY_BYTES * len(event.entries)
    return Repair(topic, tuple(events), void, 0)


def _chapter_of(library: Library, topic: str, number: int) -> int | None:
    """The epoch in which a number of a topic was given; None if that is not kept any more."""
    epoch = library.chapters.newest
    while library.numbers(epoch).get(topic, 0) >= number:
        if library.chapters.is_first(epoch):
            return None
        epoch -= 1
    return epoch
