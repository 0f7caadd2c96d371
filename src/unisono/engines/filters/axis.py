"""The numbers, or the strings, of one attribute as a line that is cut into cells, and which rows want which of them.

The bounds of cells are quantiles of the ends of what rows want, taken again when there are twice as many rows. Rows
that want little of the line are in the posting of each cell that they touch. Rows that want much of it are seats in
the bitmaps (`bitmaps.py`): neighbouring cells make a group, and each group has a bitmap of the seats that touch it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unisono.engines.filters.cuts import Cuts, intervals
from unisono.engines.filters.postings import Posting
from unisono.engines.filters.rows import Floats, Line, Words

CELLS_MAX = 512
GROUPS_MAX = 64
ROWS_PER_CELL = 4  # so many rows make it worth to have one more cell
ROWS_MIN = 64  # with fewer rows one cell will do

# Of events, about: before there are cells to tell.
HALF_SHARE = 0.5
RANGE_SHARE = 0.25
PREFIX_SHARE = 0.02

Bits: TypeAlias = NDArray[np.uint8]

# Where being found in a cell does not say that the value is wanted: nowhere (bounds of the row say it), in cells that
# are not wanted as a whole, or everywhere.
Unsettled: TypeAlias = Literal["nowhere", "edges", "everywhere"]


class Axis:
    """Who wants a value: the rows of `cells[bisect_right(bounds, value)]`, and the seats of `maps[...]` of the same."""

    __slots__ = (
        "_bits",
        "_grown",
        "_mapped",
        "_posted",
        "_postings",
        "bounds",
        "cells",
        "maps",
        "missing",
        "place",
    )

    def __init__(self) -> None:
        self.bounds: list[Any] = []
        self.cells: list[Floats | None] = [None]  # what is in the postings
        self.maps: list[Words] = []  # by cell; empty while nobody has a seat
        self.missing: Words | None = None  # of those who want nothing of this line
        self.place = -1  # among the axes that have bitmaps
        self._bits: Bits = np.empty((0, 0), np.uint8)  # by group, and at the end `missing`
        self._postings = [Posting()]
        self._posted: dict[int, tuple[Line, Cuts, Unsettled]] = {}
        self._mapped: dict[int, Cuts] = {}  # by seat
        self._grown = ROWS_MIN

    def share(self, cuts: Cuts) -> float:
        """About how much of the line a set has, as far as its cells can tell."""
        if self.bounds:
            return sum(last - first + 1 for first, last in self._touched(cuts)) / len(self.cells)
        if len(cuts) % 2:
            return HALF_SHARE
        return PREFIX_SHARE if isinstance(cuts[0][0], str) else RANGE_SHARE

    def post(self, line: Line, cuts: Cuts, unsettled: Unsettled) -> None:
        """A row that wants little."""
        self._posted[line[0]] = line, cuts, unsettled
        if not self._cut_again():
            self._enter(line[0])

    def unpost(self, row: int) -> None:
        """Take out a row that was posted."""
        _, cuts, _ = self._posted.pop(row)
        for cell in self._cells_of(cuts):
            self._postings[cell].remove(row)
            self.cells[cell] = self._postings[cell].lines

    def map(self, seat: int, cuts: Cuts) -> None:
        """A seat that wants much; it must be within the bitmaps."""
        self._mapped[seat] = cuts
        if not self._cut_again():
            at, bit = divmod(seat, 8)
            column = self._bits[:, at]
            column &= 255 - (1 << bit)
            for first, last in self._groups_of(cuts):
                column[first : last + 1] |= 1 << bit

    def unmap(self, seat: int) -> None:
        """A seat that wants nothing of this line any more."""
        del self._mapped[seat]
        at, bit = divmod(seat, 8)
        self._bits[:, at] |= 1 << bit

    def widen(self, size: int) -> None:
        """Bitmaps of so many bytes: seats of which nothing is wanted here have their bit in all of them."""
        wider = np.full((self._groups + 1, size), 255, np.uint8)
        if self.maps:
            wider[:, : self._bits.shape[1]] = self._bits
        self._show(wider)

    def drop_maps(self) -> None:
        """No more bitmaps."""
        assert not self._mapped, "nobody is in them"
        self._bits, self.maps, self.missing, self.place = np.empty((0, 0), np.uint8), [], None, -1

    @property
    def is_mapped(self) -> bool:
        """Whether somebody is in the bitmaps."""
        return bool(self._mapped)

    @property
    def nbytes(self) -> int:
        """The memory of its bitmaps."""
        return self._bits.nbytes

    def _touched(self, cuts: Cuts) -> list[tuple[int, int]]:
        """The first and the last cell of each piece of a set; a cell begins with its bound."""
        found = []
        for low, high in intervals(cuts):
            first = bisect_right(self.bounds, low[0])
            last = len(self.bounds)
            if high is not None:
                last = max(first, (bisect_right if high[1] else bisect_left)(self.bounds, high[0]))
            found.append((first, last))
        return found

    def _cells_of(self, cuts: Cuts) -> Iterable[int]:
        touched = self._touched(cuts)
        if len(touched) == 1:
            return range(touched[0][0], touched[0][1] + 1)
        return {cell for first, last in touched for cell in range(first, last + 1)}

    def _groups_of(self, cuts: Cuts) -> list[tuple[int, int]]:
        size = self._group_size
        return [(first // size, last // size) for first, last in self._touched(cuts)]

    @property
    def _group_size(self) -> int:
        return -(-len(self.cells) // GROUPS_MAX)

    @property
    def _groups(self) -> int:
        return -(-len(self.cells) // self._group_size)

    def _enter(self, row: int) -> None:
        line, cuts, unsettled = self._posted[row]
        for cell in self._cells_of(cuts):
            is_settled = unsettled == "nowhere" or (unsettled == "edges" and self._fills(cell, cuts))
            self._postings[cell].add(line, is_settled=is_settled)
            self.cells[cell] = self._postings[cell].lines

    def _fills(self, cell: int, cuts: Cuts) -> bool:
        """Whether a set has all of a cell; of the first and the last it is not asked."""
        if cell == 0 or cell == len(self.bounds):
            return False
        begin, end = (self.bounds[cell - 1], 0), (self.bounds[cell], 0)
        return any(low <= begin and (high is None or high >= end) for low, high in intervals(cuts))

    def _cut_again(self) -> bool:
        """Choose the cells anew, with whoever came last, if there are twice as many rows; say whether it was done."""
        count = len(self._posted) + len(self._mapped)
        if count <= self._grown:
            return False
        self._grown = 2 * count
        wanted = [*(cuts for _, cuts, _ in self._posted.values()), *self._mapped.values()]
        ends = [value for cuts in wanted for value, _ in cuts]
        self.bounds = sorted(set(ends))
        if len(self.bounds) >= CELLS_MAX:
            cells = min(CELLS_MAX, count // ROWS_PER_CELL)
            ends.sort()
            self.bounds = sorted({ends[i * len(ends) // cells] for i in range(1, cells)})
        self._postings = [Posting() for _ in range(len(self.bounds) + 1)]
        self.cells = [None] * len(self._postings)
        for row in self._posted:
            self._enter(row)
        if self._mapped:
            self._show(self._bitmaps())
        return True

    def _bitmaps(self) -> Bits:
        seats, firsts, lasts = np.array(
            [(seat, *piece) for seat, cuts in self._mapped.items() for piece in self._groups_of(cuts)],
            np.intp,
        ).T
        groups = self._groups
        bits = np.empty((groups + 1, self._bits.shape[1]), np.uint8)
        wanted = np.ones(self._bits.shape[1] * 8, np.bool_)
        for group in range(groups + 1):
            wanted[seats] = False
            if group < groups:
                wanted[seats[(firsts <= group) & (group <= lasts)]] = True
            bits[group] = np.packbits(wanted, bitorder="little")
        return bits

    def _show(self, bits: Bits) -> None:
        self._bits = bits
        words = bits.view(np.uint64)
        size = self._group_size
        self.maps = [words[cell // size] for cell in range(len(self.cells))]
        self.missing = words[-1]
