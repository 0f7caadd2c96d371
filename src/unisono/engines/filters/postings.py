"""Who could match a value: rows of the index by value and by range, in dense arrays that grow and shrink.

A row in a posting whose access is not settled by being there is written as its complement, `~row`: whoever finds it
has to ask the constraint under which it is entered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Literal, TypeAlias

import numpy as np

from unisono.engines.filters.cuts import Cut, Cuts
from unisono.engines.filters.rows import Floats, Line

NUMBER_CELLS_MAX = 32  # ranges of numbers are wide, mostly: more cells would hold them more often
STRING_CELLS_MAX = 512  # ranges of strings are prefixes, mostly
WIDE_MIN = 16  # a range that touches more cells is kept apart
ROWS_PER_CELL = 4  # so many ranges make it worth to have one more cell
ROWS_MIN = 64  # with fewer ranges one cell will do

# Of events, about: before there are cells to tell.
HALF_SHARE = 0.5
RANGE_SHARE = 0.25
PREFIX_SHARE = 0.06

# Where being found in a cell does not say that the value is in the range: nowhere (bounds of the row say it),
# in cells that the range does not fill, or everywhere.
Unsettled: TypeAlias = Literal["nowhere", "edges", "everywhere"]


class Posting:
    """A set of rows, each with its first bounds, without order. `lines` is None while it is empty."""

    __slots__ = ("_count", "_lines", "lines")

    def __init__(self) -> None:
        self._lines: Floats | None = None
        self._count = 0
        self.lines: Floats | None = None  # not to be kept

    def add(self, line: Line, *, is_settled: bool = True) -> None:
        """Put in a row that is not in yet."""
        if self._lines is None:
            self._lines = np.empty((2, 4))
        elif self._count == len(self._lines):
            self._lines = np.concatenate((self._lines, np.empty_like(self._lines)))
        self._lines[self._count] = line if is_settled else (~line[0], *line[1:])
        self._count += 1
        self.lines = self._lines[: self._count]

    def remove(self, row: int) -> None:
        """Take out a row that is in; the last one takes its place."""
        assert self._lines is not None, "what is taken out is in"
        rows = self._lines[: self._count, 0]
        at = int(np.flatnonzero((rows == row) | (rows == ~row))[0])
        self._count -= 1
        self._lines[at] = self._lines[self._count]
        if self._count < len(self._lines) // 4:
            self._lines = self._lines[: len(self._lines) // 2].copy()
        self.lines = self._lines[: self._count] if self._count else None


class Ranges:
    """Rows that want a value of a range. The axis is cut into cells; a row is in each cell that its range touches.

    The bounds of cells are quantiles of the bounds of ranges, taken again when there are twice as many ranges. A row
    whose range touches many of the cells is kept apart, in `wide`, and so is only once in memory. The rows that want
    a value are in `cells[bisect_right(bounds, value)]` and in `wide`.
    """

    __slots__ = ("_grown", "_postings", "_rows", "_wide", "bounds", "cells", "cells_max", "wide")

    def __init__(self, cells_max: int) -> None:
        self.cells_max = cells_max
        self.bounds: list[Any] = []
        self.cells: list[Floats | None] = [None]  # what is in the postings
        self.wide: Floats | None = None
        self._postings = [Posting()]
        self._wide = Posting()
        self._rows: dict[int, tuple[Line, Cut, Cut | None, Unsettled]] = {}
        self._grown = ROWS_MIN

    def share(self, cuts: Cuts) -> float:
        """About how much of the axis a set spans, as far as its cells can tell."""
        low, high = _span(cuts)
        if not self.bounds:
            return HALF_SHARE if high is None else PREFIX_SHARE if isinstance(high[0], str) else RANGE_SHARE
        first, last = self._touched(low, high)
        return (last - first + 1) / len(self.cells)

    def add(self, line: Line, cuts: Cuts, unsettled: Unsettled) -> None:
        """A row that wants a value of this set."""
        row = line[0]
        self._rows[row] = line, *_span(cuts), unsettled
        if len(self._rows) > self._grown:
            self._cut_again()
        else:
            self._enter(row)

    def remove(self, row: int) -> None:
        """Take out a row that is in."""
        _, low, high, _ = self._rows.pop(row)
        first, last = self._touched(low, high)
        if self._is_wide(first, last):
            self._wide.remove(row)
            self.wide = self._wide.lines
            return
        for cell in range(first, last + 1):
            self._postings[cell].remove(row)
            self.cells[cell] = self._postings[cell].lines

    def _touched(self, low: Cut, high: Cut | None) -> tuple[int, int]:
        """The first and the last cell of a range; a cell begins with its bound."""
        first = bisect_right(self.bounds, low[0])
        if high is None:
            return first, len(self.bounds)
        return first, max(first, (bisect_right if high[1] else bisect_left)(self.bounds, high[0]))

    def _is_wide(self, first: int, last: int) -> bool:
        return last - first + 1 > max(1, min(WIDE_MIN, len(self.cells) // 2))

    def _enter(self, row: int) -> None:
        line, low, high, unsettled = self._rows[row]
        first, last = self._touched(low, high)
        if self._is_wide(first, last):
            self._wide.add(line, is_settled=unsettled == "nowhere")
            self.wide = self._wide.lines
            return
        for cell in range(first, last + 1):
            is_settled = unsettled == "nowhere" or (unsettled == "edges" and self._fills(cell, low, high))
            self._postings[cell].add(line, is_settled=is_settled)
            self.cells[cell] = self._postings[cell].lines

    def _fills(self, cell: int, low: Cut, high: Cut | None) -> bool:
        """Whether a range has all of a cell; of the first and the last it is not asked."""
        if cell == 0 or cell == len(self.bounds):
            return False
        return low <= (self.bounds[cell - 1], 0) and (high is None or high >= (self.bounds[cell], 0))

    def _cut_again(self) -> None:
        self._grown = 2 * len(self._rows)
        ends = [end[0] for _, low, high, _ in self._rows.values() for end in (low, high) if end is not None]
        self.bounds = sorted(set(ends))
        if len(self.bounds) >= self.cells_max:
            cells = min(self.cells_max, len(self._rows) // ROWS_PER_CELL)
            ends.sort()
            self.bounds = sorted({ends[i * len(ends) // cells] for i in range(1, cells)})
        self._postings = [Posting() for _ in range(len(self.bounds) + 1)]
        self.cells = [None] * len(self._postings)
        self._wide = Posting()
        for row in self._rows:
            self._enter(row)


def _span(cuts: Cuts) -> tuple[Cut, Cut | None]:
    """Where a set begins and ends; None: it has no end."""
    return cuts[0], None if len(cuts) % 2 else cuts[-1]
