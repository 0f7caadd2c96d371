"""From one offset to another: which records of which lanes hold the rows, in order, cut into slices for Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import msgspec

from unisono.engines.chronicle.found import Place
from unisono.engines.chronicle.order import Unit
from unisono.model.bundles import EVENT_BYTES
from unisono.model.errors import ForgottenError, GapError
from unisono.model.frames import Entries, Stamped
from unisono.pipeline.stream.log import GoneError, Log
from unisono.pipeline.stream.offsets import Offset

SLICE_EVENTS_MAX = 65_536  # that one task holds at a time, roughly
SLICE_BYTES_MAX = 32 * 1024 * 1024
SLICE_EVENTS_MIN = 2_000  # less is not worth a task of its own


class Piece(NamedTuple):
    """A unit of which some events are wanted."""

    place: Place
    position: int  # before its first event on our topics
    events: int  # that are wanted
    size: int  # roughly, in bytes


class Run(msgspec.Struct, array_like=True):
    """Records of one lane one after the other, and the position before the first event that is wanted of them."""

    lane: str
    first: int
    last: int
    position: int


class Slice(msgspec.Struct):
    """What one task reads: runs in order, of which only events between two clocks are wanted."""

    names: tuple[str, ...]
    runs: list[Run]
    above: Entries
    upto: Entries
    count: int = 0
    size: int = 0


class Planned(NamedTuple):
    """The rows behind an offset, up to another."""

    start: Offset
    end: Offset
    pieces: list[Piece]
    lost: dict[
        str, tuple[int, int]
    ]  # topic -> first and last number that was passed over because nobody keeps it


async def plan(log: Log, start: Offset, end: Offset | None, limit: float = inf) -> Planned:
    """What comes behind `start`: at most so many events, and none behind `end`."""
    clock, pieces, room = dict(start.clock), list[Piece](), limit
    epoch, lost = await _enter(log, start.epoch, clock, is_first=True)
    last, upto = (log.newest, None) if end is None else (end.epoch, end.clock)
    while epoch <= last and room > 0:
        try:
            chapter = await log.chapter(epoch)
        except GoneError:
            epoch, more = await _enter(log, epoch, clock, is_first=True)
            lost |= more
            continue
        i = chapter.resume(clock)
        while i < len(chapter.units) and room > 0:
            unit = chapter.units[i]
            taken = _take(unit, clock, upto, room)
            if taken:
                before = chapter.base + (chapter.ends[i - 1] if i else 0)
                pieces.append(Piece(chapter.found.place(unit), before, taken, _size(unit)))
                room -= taken
            i += 1
        if upto is None:
            chapter.remember(clock, max(0, i - 1))  # the last one may have been cut
        if room <= 0 or epoch >= last:
            break
        epoch, more = await _enter(log, epoch + 1, clock)
        lost |= more
    if end is not None and room > 0:
        _check_end(clock, end)
        return Planned(start, end, pieces, lost)
    return Planned(start, Offset(log.world, epoch, clock), pieces, lost)


async def _enter(
    log: Log, epoch: int, clock: Entries, *, is_first: bool = False
) -> tuple[int, dict[str, tuple[int, int]]]:
    """Begin with an epoch, or with the first one that is kept; says what is not kept of what should have come.

    Numbers between two epochs that nobody has died with a node, and nobody misses them.
    """
    while True:
        try:
            numbers = await log.numbers(epoch)
            break
        except GoneError:
            epoch, is_first = (await log.earliest()).epoch, True
    lost: dict[str, tuple[int, int]] = {}
    for topic in log.topics_of(numbers):
        if (known := clock.get(topic)) is not None and known < numbers[topic] and is_first:
            lost[topic] = (known + 1, numbers[topic])
        clock[topic] = max(known or 0, numbers[topic])
    return epoch, lost


def describe_loss(lost: dict[str, tuple[int, int]]) -> GapError:
    """Events that an offset still needs are not kept any more."""
    said = ", ".join(f"{first} to {last} of '{topic}'" for topic, (first, last) in sorted(lost.items())[:5])
    return GapError(
        f"the log does not reach back to this offset: the numbers {said} are not kept any more; keep more "
        "(--retain-records), or go on behind them with failOnDataLoss=false"
    )


def _check_end(clock: Entries, end: Offset) -> None:
    short = {t: n for t, n in end.clock.items() if clock.get(t, 0) < n}
    if short:
        topic, number = min(short.items())
        raise ForgottenError(
            f"an offset says that '{topic}' went up to {number}, and the log ends at {clock.get(topic, 0)}: the broker has "
            "lost what it had stored; begin with a new checkpoint"
        )


def _take(unit: Unit, clock: Entries, upto: Entries | None, room: float) -> int:
    """How many of a unit's events are wanted: those that the clock does not have. It has them then."""
    if isinstance(unit, Stamped):
        topic, number = unit.topic, unit.number
        if topic not in clock or number <= clock[topic] or (upto is not None and number > upto.get(topic, 0)):
            return 0
        clock[topic] = number
        return 1
    ours = [topic for topic in unit.topics if topic in clock]
    lasts = {topic: unit.newest(topic) for topic in ours}
    if upto is not None:
        lasts = {topic: min(last, upto.get(topic, 0)) for topic, last in lasts.items()}
    fresh = sum(max(0, lasts[topic] - max(unit.clock[topic], clock[topic])) for topic in ours)
    if fresh > room:
        return _take_some(unit.order, unit.topics, dict(unit.clock), clock, upto, int(room))
    for topic in ours:
        clock[topic] = max(clock[topic], lasts[topic])
    return fresh


def _take_some(
    order: bytes, topics: tuple[str, ...], at: Entries, clock: Entries, upto: Entries | None, room: int
) -> int:
    """The same, of a bundle that is cut."""
    taken = 0
    for i in order:
        topic = topics[i]
        at[topic] += 1
        wanted = topic in clock and at[topic] > clock[topic]
        if wanted and (upto is None or at[topic] <= upto.get(topic, 0)):
            clock[topic] = at[topic]
            taken += 1
            if taken == room:
                break
    return taken


def _size(unit: Unit) -> int:
    return EVENT_BYTES + len(unit.publication.body) if isinstance(unit, Stamped) else unit.size


def slices(planned: Planned, names: tuple[str, ...], tasks: int) -> Iterator[Slice]:
    """The rows in pieces of about equal size, one behind the other in the order: each is a task for Spark."""
    total = sum(piece.events for piece in planned.pieces)
    share = min(SLICE_EVENTS_MAX, max(SLICE_EVENTS_MIN, -(-total // tasks)))
    made: Slice | None = None
    after = -1  # the position behind the piece before, if all of it is wanted
    for piece in planned.pieces:
        if (
            made is None
            or made.count + piece.events > share + SLICE_EVENTS_MIN // 2
            or made.size > SLICE_BYTES_MAX
        ):
            if made is not None:
                yield made
            made, after = Slice(names, [], planned.start.clock, planned.end.clock), -1
        lane, sequence = piece.place
        last = made.runs[-1] if made.runs else None
        if last is not None and (last.lane, last.last + 1, after) == (lane, sequence, piece.position):
            last.last = sequence
        else:
            made.runs.append(Run(lane, sequence, sequence, piece.position))
        after = piece.position + piece.events
        made.count += piece.events
        made.size += piece.size
    if made is not None:
        yield made
