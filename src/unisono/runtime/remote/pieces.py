"""Pieces of bundles on their way: what they have in common is written once and read once, and wide clocks are short.

A piece carries the events of one topic, and of its whole bundle the order and a clock with an entry for every topic of the
group. Where groups are wide that is far more than the events, and it is the same for every piece of the bundle. So it
is a *head*, which a node writes once for all pieces, and a client reads once, whoever of its subscriptions hears it.

Most of a wide clock may be as it was in the piece before on the same topic. So a node writes it whole now and then, and
in between only what has changed. Whoever missed a piece cannot know the clocks after it until the next whole one: it is
told of them as of a heartbeat, and asks for the events as for any that it missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unisono.model.bundles import Part, StampedBundle
from unisono.model.errors import FrameError
from unisono.model.frames import Heartbeat
from unisono.model.memo import Memo

NARROW = 16  # topics: shorter clocks are always whole
FULL_EVERY = 64  # pieces of a topic
HEADS_SHARED, HEAD_BYTES_SHARED = 64, 1024 * 1024  # that were read
ENTRIES_SHARED = 65_536  # of clocks that subscriptions of one process share once they are whole
PIECES_SHARED, PIECE_BYTES_SHARED = 1024, 1024 * 1024  # with such clocks


class Piece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    """A piece as it travels."""

    head: bytes  # its bundle without any part
    part: Part
    since: int = 0  # its clock names only what has changed since the piece with this index; 0: it is whole


class Delta(NamedTuple):
    """A piece that was read, and whose clock is not whole."""

    since: int
    changed: dict[str, int]  # always with the topic's own number
    piece: StampedBundle  # without a clock


class _Head(NamedTuple):
    """What was read of a bundle without any part."""

    bundle: StampedBundle
    has_sound_clock: bool  # it may be whole
    counts: dict[str, int]  # events of each topic


class _Said(NamedTuple):
    epoch: int
    at: int
    clock: dict[str, int]
    since_full: int


class Shortener:
    """A node's side: what was said last on each topic."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}
        self._bundle = (-1, -1)  # the newest of which something was said: epoch and index
        self._heads: dict[int, tuple[bytes, int]] = {}  # of that one, by what their clocks should go on from

    def shorten(self, piece: StampedBundle) -> Piece:
        """A piece as it is sent."""
        (part,) = piece.parts
        if self._bundle != (piece.epoch, piece.index):
            self._bundle, self._heads = (piece.epoch, piece.index), {}
        if len(piece.clock) <= NARROW:
            return Piece(self._head(piece, None)[0], part)
        before = self._said.get(part.topic)
        if before is not None and (
            before.epoch != piece.epoch or before.since_full >= FULL_EVERY or piece.index <= before.at
        ):
            before = None
        head, since = self._head(piece, before)
        since_full = before.since_full + 1 if before is not None and since else 0
        self._said[part.topic] = _Said(piece.epoch, piece.index, piece.clock, since_full)
        return Piece(head, part, since)

    def _head(self, piece: StampedBundle, before: _Said | None) -> tuple[bytes, int]:
        """What a piece has in common with others that go on from the same one, and whether its clock does: from which."""
        since = 0 if before is None else before.at
        if (known := self._heads.get(since)) is not None:
            return known
        if before is None:
            known = _encoder.encode(msgspec.structs.replace(piece, parts=())), 0
        else:
            clock, former = piece.clock, before.clock
            changed = {x: n for x, n in clock.items() if n != former.get(x)}
            if len(changed) == len(clock) or former.keys() != clock.keys():
                known = self._head(piece, None)
            else:
                known = _encoder.encode(msgspec.structs.replace(piece, parts=(), clock=changed)), since
        self._heads[since] = known
        return known

    def forget(self, topics: Iterable[str]) -> None:
        """Somebody new listens: say everything next time."""
        for topic in topics:
            self._said.pop(topic, None)


def read(note: Piece) -> StampedBundle | Delta:
    """A piece that came; FrameError if it makes no sense."""
    head, has_sound_clock, counts = _read_head(note.head)
    piece = StampedBundle(
        head.publisher,
        head.incarnation,
        head.first,
        head.steps,
        head.order,
        (note.part,),
        head.epoch,
        head.node,
        head.index,
        {} if note.since else head.clock,
        head.groups,
        head.topics,
    )
    if not note.part.is_sound(counts.get(note.part.topic, 0)) or not (note.since or has_sound_clock):
        raise FrameError(NO_BUNDLE)
    return Delta(note.since, head.clock, piece) if note.since else piece


def _read_head(data: bytes) -> _Head:
    """The same for all who read the same."""
    known = _heads.get(data)
    if known is None:
        try:
            head = _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FrameError(f"{NO_BUNDLE}: {error}") from None
        if head.parts or not head.has_sound_order:
            raise FrameError(NO_BUNDLE)
        counts = {topic: head.order.count(i) for i, topic in enumerate(head.topics)}
        known = _Head(head, head.has_sound_clock, counts)
        _heads.put(data, known, len(data))
    return known


class Lengthener:
    """A client's side: the last clock of each topic that was heard in full, or could be completed."""

    def __init__(self) -> None:
        self._epoch = -1  # the newest that was heard of; nobody goes on with the clocks of those before
        self._heard: dict[tuple[str, str], tuple[int, dict[str, int]]] = {}  # by node and topic

    def lengthen(self, note: StampedBundle | Delta) -> StampedBundle | Heartbeat:
        """A piece with its whole clock, or that there is one; FrameError if it makes no sense."""
        piece = note if isinstance(note, StampedBundle) else note.piece
        topic = piece.parts[0].topic
        key = (piece.node, topic)
        if isinstance(note, Delta):
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


def _completed(note: Delta, before: dict[str, int]) -> StampedBundle:
    """The same object for all who complete the same note with the same clock."""
    name = (id(note), id(before))
    if (known := _whole.get(name)) is None:
        made = msgspec.structs.replace(note.piece, clock=_merged(note.changed, before))
        if not made.has_sound_clock:
            raise FrameError(NO_BUNDLE)
        known = (made, note, before)  # all of it: so nobody else has their ids
        _whole.put(name, known, len(made.parts[0].payloads))
    return known[0]


def _merged(changed: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    """The same object for all pieces whose clocks have changed alike."""
    name = (id(changed), id(before))
    if (known := _clocks.get(name)) is None:
        if not changed.keys() <= before.keys():
            raise FrameError("a clock that names topics which the one before does not")
        known = (before | changed, changed, before)
        _clocks.put(name, known, len(before))
    return known[0]


NO_BUNDLE = "notifications with a bundle that is none"
_Clock = dict[str, int]
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[StampedBundle] = msgspec.msgpack.Decoder(StampedBundle)
_heads: Memo[bytes, _Head] = Memo(HEADS_SHARED, HEAD_BYTES_SHARED)
_clocks: Memo[tuple[int, int], tuple[_Clock, _Clock, _Clock]] = Memo(64, ENTRIES_SHARED)
_whole: Memo[tuple[int, int], tuple[StampedBundle, Delta, _Clock]] = Memo(PIECES_SHARED, PIECE_BYTES_SHARED)
