"""Rows that want much of several attributes, as bitmaps: one step of the processor looks at 64 of them.

A row has a seat: a bit in every bitmap. Each axis has a bitmap per group of its cells, and one for events without a
value on it; in it are the seats of those who may want such a value, and of all who want nothing of the axis. So who
could match an event is what the bitmaps of its cells have in common. Bitmaps take
`AXES_MAX * (GROUPS_MAX + 1) / 8` bytes per seat, and no more: what rows want of further axes is held against their
bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unisono.engines.filters.axis import Axis, Bits
from unisono.engines.filters.cuts import Cuts
from unisono.engines.filters.rows import Candidates, Words

AXES_MAX = 32
SEATS_MIN = 512
GROWTH = 8  # bitmaps grow by one part of so many
NOBODY: Candidates = np.empty(0, np.intp)


class Bitmaps:
    """The seats of rows, the axes that have bitmaps, and which rows the bitmaps of an event have in common."""

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self._taken: Bits = np.zeros(SEATS_MIN // 8, np.uint8)
        self._rows: Candidates = np.zeros(SEATS_MIN, np.intp)  # by seat
        self._seats: dict[int, tuple[int, list[Axis]]] = {}
        self._free = list(range(SEATS_MIN))[::-1]

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def room(self) -> int:
        """How many more axes may have bitmaps."""
        return AXES_MAX - len(self.axes)

    @property
    def nbytes(self) -> int:
        """The memory of all bitmaps."""
        return sum(axis.nbytes for axis in self.axes)

    def add(self, row: int, wanted: Sequence[tuple[Axis, Cuts]]) -> None:
        """A row that wants this of these axes, at least one."""
        if not self._free:
            self._widen()
        seat = self._free.pop()
        for axis, cuts in wanted:
            if axis.place < 0:
                assert len(self.axes) < AXES_MAX, "room was asked for"
                axis.place = len(self.axes)
                self.axes.append(axis)
                axis.widen(len(self._taken))
            axis.map(seat, cuts)
        self._seats[row] = seat, [axis for axis, _ in wanted]
        self._rows[seat] = row
        self._taken[seat // 8] |= 1 << seat % 8

    def remove(self, row: int) -> None:
        """Take out a row that is in."""
        seat, axes = self._seats.pop(row)
        for axis in axes:
            axis.unmap(seat)
            if not axis.is_mapped:
                last = self.axes.pop()
                if last is not axis:
                    self.axes[axis.place], last.place = last, axis.place
                axis.drop_maps()
        self._taken[seat // 8] &= 255 - (1 << seat % 8)
        self._free.append(seat)

    def maps_missing(self) -> list[Words]:
        """The bitmaps of an event that has no value on any axis, by the place of the axis."""
        return [axis.missing for axis in self.axes if axis.missing is not None]

    def candidates(self, maps_of: Sequence[list[Words]]) -> tuple[Candidates, Candidates]:
        """Pairs of a row and an event that it could match, in no order; events are given by their bitmaps."""
        if not self._seats:
            return NOBODY, NOBODY
        taken = self._taken.view(np.uint64)
        common = np.empty((len(maps_of), len(taken)), np.uint64)
        both = np.bitwise_and
        for left, maps in zip(common, maps_of, strict=True):
            both(taken, maps[0], left)
            for one in maps[1:]:
                both(left, one, left)
        words, bits = _bits_of(common.reshape(-1))
        events = words // len(taken)
        return self._rows.take(((words - events * len(taken)) << 6) + bits), events

    def _widen(self) -> None:
        """More seats; bitmaps are whole words."""
        seats = len(self._rows)
        more = max(SEATS_MIN, seats // GROWTH // 64 * 64)
        self._rows = np.concatenate((self._rows, np.zeros(more, np.intp)))
        self._taken = np.concatenate((self._taken, np.zeros(more // 8, np.uint8)))
        self._free = list(range(seats, seats + more))[::-1]
        for axis in self.axes:
            axis.widen(len(self._taken))


def _bits_of(words: Words) -> tuple[Candidates, Candidates]:
    """Where the bits are: words that have some, and which; one bit of each word in every round."""
    places = (words != 0).nonzero()[0]
    left = words.take(places)
    found, bits = [], []
    while len(places):
        lowest = left & -left
        found.append(places)
        bits.append(lowest)
        left ^= lowest
        more = left != 0
        places, left = places.compress(more), left.compress(more)
    if not found:
        return places, places
    # A power of two is a float without loss, and its exponent says which.
    return np.concatenate(found), np.frexp(np.concatenate(bits).astype(np.float64))[1] - 1
