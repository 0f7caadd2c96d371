"""Sets of rows of the index, in dense arrays that grow and shrink.

A row in a posting whose access is not settled by being there is written as its complement, `~row`: whoever finds it
has to ask the constraint under which it is entered.
"""

from __future__ import annotations

import numpy as np

from unisono.engines.filters.rows import Candidates


class Posting:
    """A set of rows, without order. `rows` is None while it is empty."""

    __slots__ = ("_count", "_rows", "rows")

    def __init__(self) -> None:
        self._rows: Candidates | None = None
        self._count = 0
        self.rows: Candidates | None = None  # not to be kept

    def add(self, row: int, *, is_settled: bool = True) -> None:
        """Put in a row that is not in yet."""
        if self._rows is None:
            self._rows = np.empty(2, np.intp)
        elif self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.empty_like(self._rows)))
        self._rows[self._count] = row if is_settled else ~row
        self._count += 1
        self.rows = self._rows[: self._count]

    def remove(self, row: int) -> None:
        """Take out a row that is in; the last one takes its place."""
        assert self._rows is not None, "what is taken out is in"
        rows = self._rows[: self._count]
        at = int(((rows == row) | (rows == ~row)).nonzero()[0][0])
        self._count -= 1
        self._rows[at] = self._rows[self._count]
        if self._count < len(self._rows) // 4:
            self._rows = self._rows[: len(self._rows) // 2].copy()
        self.rows = self._rows[: self._count] if self._count else None
