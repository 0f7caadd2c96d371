"""A page of the past: closed epochs in the order of the log, and only the topics that were asked for."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engines.chronicle.library import Library
from unisono.engines.takeover.patterns import matching
from unisono.model.frames import Entries, Recall, Recalled, Stamped

EVENTS_MAX, BYTES_MAX = 1024, 256 * 1024  # in one answer
EVENT_BYTES, ENTRY_BYTES = 128, 16  # roughly, beside the payload


def tell(library: Library, recall: Recall) -> Recalled:
    """The answer to a question: it follows from the lanes alone, whoever is asked."""
    epoch, index, floors = recall.epoch, recall.index, None
    if epoch < 0:
        epoch = beginning(library, recall)
    library.find(epoch)
    if epoch < library.chapters.oldest:
        epoch, index = library.chapters.oldest, 0
    if epoch > recall.until:
        return Recalled((recall.epoch, recall.index), (), epoch, 0, done=True)  # even its end is not kept
    if (epoch, index) != (recall.epoch, recall.index):
        floors = _floors(library, epoch, recall)
    while epoch < recall.until and _is_empty(library, epoch, recall):
        epoch, index = epoch + 1, 0
    asked = (recall.epoch, recall.index)
    if epoch >= recall.until:
        floors = _floors(library, epoch, recall) if recall.since else floors
        return Recalled(asked, (), epoch, 0, floors, done=True)
    chapter = library.chapter(epoch)
    wanted = frozenset(matching(recall.names, chapter.found.topics))
    if recall.since:
        return _first_since(library, recall, epoch, chapter.events(0, wanted))
    page: list[Stamped] = []
    size = 0
    for after, event in chapter.events(index, wanted):
        if len(page) == EVENTS_MAX or size >= BYTES_MAX:
            break
        index = after
        if event.number > recall.clock.get(event.topic, 0):
            page.append(event)
            size += EVENT_BYTES + len(event.publication.body) + ENTRY_BYTES * len(event.entries)
    else:
        epoch, index = epoch + 1, 0
    return Recalled(asked, tuple(page), epoch, index, floors, done=epoch >= recall.until)


def _first_since(
    library: Library, recall: Recall, epoch: int, events: Iterable[tuple[int, Stamped]]
) -> Recalled:
    """Look in one epoch for the first event that is young enough; the answer says where it is."""
    asked, floors = (recall.epoch, recall.index), _floors(library, epoch, recall)
    for after, event in events:
        if event.publication.published_at >= recall.since:
            return Recalled(asked, (), epoch, after - 1, floors)
        floors[event.topic] = event.number
    done = epoch + 1 >= recall.until
    return Recalled(asked, (), epoch + 1, 0, floors if done else None, done)


def beginning(library: Library, recall: Recall) -> int:
    """The chapter to begin with: the first one kept, or the last that begins with nothing new to the asker."""
    if recall.clock:
        for epoch in range(recall.until, library.chapters.nearest(0) - 1, -1):
            numbers = library.numbers(epoch)
            if all(numbers[t] <= recall.clock.get(t, 0) for t in matching(recall.names, numbers)):
                return epoch
    return library.earliest()


def _floors(library: Library, epoch: int, recall: Recall) -> Entries:
    """How far the topics in question were when a chapter began, of those that are there when the telling ends."""
    begin, end = library.numbers(epoch), library.numbers(recall.until)
    return {topic: begin.get(topic, 0) for topic in matching(recall.names, sorted(end))}


def _is_empty(library: Library, epoch: int, recall: Recall) -> bool:
    """Whether an epoch has nothing new of these topics."""
    begin, end, clock = library.numbers(epoch), library.numbers(epoch + 1), recall.clock
    return all(end[t] <= max(begin.get(t, 0), clock.get(t, 0)) for t in matching(recall.names, end))
