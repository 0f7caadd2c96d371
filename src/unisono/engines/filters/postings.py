"""Sets of rows of the index, in dense arrays that grow and shrink.

The first bounds of a row are beside its number, so that most candidates are sorted out by reading memory in order. A
row whose access is not settled by being in a posting is written as its complement, `~row`: whoever finds it has to ask
the constraint under which it is entered.
"""

from __future__ import annotations

import numpy as np

from unisono.engines.filters.rows import Floats, Line


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
            self._lines = np.empty((2, len(line)))
        elif self._count == len(self._lines):
            self._lines = np.concatenate((self._lines, np.empty_like(self._lines)))
        self._lines[self._count] = line if is_settled else (~line[0], *line[1:])
        self._count += 1
        self.lines = self._lines[: self._count]

    def remove(self, row: int) -> None:
        """Take out a row that is in; the last one takes its place."""
        assert self._lines is not None, "what is taken out is in"
        rows = self._lines[: self._count, 0]
        at = int(((rows == row) | (rows == ~row)).nonzero()[0][0])
        self._count -= 1
        self._lines[at] = self._lines[self._count]
        if self._count < len(self._lines) // 4:
            self._lines = self._lines[: len(self._lines) // 2].copy()
        self.lines = self._lines[: self._count] if self._count else None
