"""Clocks of pieces that name only what has changed since the piece before on the same topic.

A piece of a bundle carries a clock with an entry for every topic of its group. Where groups are wide that is more than the
events themselves, and most of it was the same in the piece before. So a node sends every clock in full now and then,
and in between what has changed. Whoever missed a piece cannot know the clocks after it until the next full one: it is
told of them as of a heartbeat, and asks for the events as for any that it missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unisono.model.bundles import DeltaBundle, StampedBundle
from unisono.model.errors import FrameError
from unisono.model.frames import Heartbeat
from unisono.model.memo import Memo

NARROW = 16  # topics: shorter clocks are always in full
FULL_EVERY = 64  # pieces of a topic
ENTRIES_SHARED = 65_536  # of clocks that subscriptions of one process share once they are whole


class _Sent(NamedTuple):
    epoch: int
    at: int
    clock: dict[str, int]
    since_full: int


class Shortener:
    """A node's side: what was said last on each topic."""

    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}

    def shorten(self, piece: StampedBundle) -> StampedBundle | DeltaBundle:
        """A piece as it is sent."""
        if len(piece.clock) <= NARROW or len(piece.parts) != 1:
            return piece
        topic = piece.parts[0].topic
        before = self._sent.get(topic)
        is_next = (
            before is not None
            and before.epoch == piece.epoch
            and before.since_full < FULL_EVERY
            and before.clock.keys() == piece.clock.keys()
            and piece.index > before.at
        )
        since_full = before.since_full + 1 if before is not None and is_next else 0
        self._sent[topic] = _Sent(piece.epoch, piece.index, piece.clock, since_full)
        if before is None or not is_next:
            return piece
        changed = {x: n for x, n in piece.clock.items() if n != before.clock[x] or x == topic}
        return DeltaBundle(before.at, changed, msgspec.structs.replace(piece, clock={}))

    def forget(self, topics: Iterable[str]) -> None:
        """Somebody new listens: say everything next time."""
        for topic in topics:
            self._sent.pop(topic, None)


class Lengthener:
    """A client's side: the last clock of each topic that was heard in full, or could be completed."""

    def __init__(self) -> None:
        self._epoch = -1  # the newest that was heard of; nobody goes on with the clocks of those before
        self._heard: dict[tuple[str, str], tuple[int, dict[str, int]]] = {}  # by node and topic

    def lengthen(self, note: StampedBundle | DeltaBundle) -> StampedBundle | Heartbeat:
        """A piece with its whole clock, or that there is one; FrameError if it makes no sense."""
        piece = note if isinstance(note, StampedBundle) else note.piece
        if len(piece.parts) != 1:
            return _sound(piece)
        topic = piece.parts[0].topic
        key = (piece.node, topic)
        if isinstance(note, DeltaBundle):
            before = self._heard.get(key) if piece.epoch == self._epoch else None
            if before is None or before[0] != note.since:
                return Heartbeat(topic, piece.epoch, note.changed.get(topic, 0) + piece.count(topic))
            piece = _completed(note, before[1])
        if len(piece.clock) > NARROW:
            self._remember(key, piece)
        return piece

    def _remember(self, key: tuple[str, str], piece: StampedBundle) -> None:
        if piece.epoch > self._epoch:
            self._epoch = piece.epoch
            self._heard.clear()
        if piece.epoch == self._epoch:
            self._heard[key] = (piece.index, piece.clock)


def _completed(note: DeltaBundle, before: dict[str, int]) -> StampedBundle:
    """The same object for all who complete the same note with the same clock."""
    name = (id(note), id(before))
    if (known := _whole.get(name)) is None:
        if not note.changed.keys() <= before.keys():
            raise FrameError("a clock that names topics which the one before does not")
        made = _sound(msgspec.structs.replace(note.piece, clock=before | note.changed))
        known = (made, note, before)  # all of it: so nobody else has their ids
        _whole.put(name, known, len(made.clock))
    return known[0]


def _sound(piece: StampedBundle) -> StampedBundle:
    if not piece.is_sound:
        raise FrameError("notifications with a bundle that is none")
    return piece


_whole: Memo[tuple[int, int], tuple[StampedBundle, DeltaBundle, dict[str, int]]] = Memo(64, ENTRIES_SHARED)
