"""What is known of each conjunction in dense arrays: bounds that many candidates are held against at once.

A row is one conjunction. Up to three of its constraints are bounds on numbers, on booleans, on how a string begins, or
on the code of a string that some filter names. A value is found by its slot: one for the numbers of an attribute, one
for each other kind. What a slot has no value for is NaN, which no bounds accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unisono.engines.filters.bounds import between_floats

COLUMNS = 3
LINE_FLOATS = 8  # lowest, highest, and (two to a float) slots: what processors fetch at once
Bounds: TypeAlias = tuple[int, float, float]  # slot, lowest, highest
Floats: TypeAlias = NDArray[np.float64]
Candidates: TypeAlias = NDArray[np.intp]
ANY: Bounds = (0, -inf, inf)  # slot 0 always has a value


class Hand:
    """What is known of the few events at hand: who was posted for them, and their values in slots."""

    __slots__ = ("_blank", "counts", "highs", "posted", "values")

    def __init__(self, width: int) -> None:
        self._blank = [0.0] + [nan] * (width - 1)
        self.posted: list[Candidates] = []
        self.counts: list[int] = []  # posted rows of each event
        self.values: list[list[float]] = []  # by slot, of each event
        # Of slots (of an event) whose number is no float: it lies between the value and this.
        self.highs: dict[tuple[int, int], float] = {}

    def begin_event(self) -> list[float]:
        """A place for the values of one more event."""
        values = self._blank.copy()
        self.values.append(values)
        return values

    def round(self, slot: int, number: int) -> float:
        """The float below a number that is none; the one above is noted."""
        low, self.highs[len(self.values) - 1, slot] = between_floats(number)
        return low

    def is_rounded(self, event: int) -> bool:
        """Whether bounds can only say who might match an event."""
        return any(of == event for of, _ in self.highs)


class Rows:
    """Bounds of rows: a line of memory for each, which is fetched at once."""

    def __init__(self) -> None:
        self._lines = np.zeros((64, LINE_FLOATS))
        self._width = 1  # slots of an event
        self._free_slots: list[int] = []
        self._free: list[int] = []
        self._used = 0

    def add_slot(self) -> int:
        """A place for one more value of events."""
        if self._free_slots:
            return self._free_slots.pop()
        self._width += 1
        return self._width - 1

    def remove_slot(self, slot: int) -> None:
        """Give a place back that no row looks at any more."""
        self._free_slots.append(slot)

    def add(self, bounds: Sequence[Bounds]) -> int:
        """A row with at most three bounds."""
        if self._free:
            row = self._free.pop()
        else:
            row, self._used = self._used, self._used + 1
            if row == len(self._lines):
                self._lines = np.concatenate((self._lines, np.zeros_like(self._lines)))
        slots, lows, highs = zip(*bounds, *[ANY] * (COLUMNS - len(bounds)), strict=True)
        line = self._lines[row]
        line[:COLUMNS], line[COLUMNS : 2 * COLUMNS] = lows, highs
        line.view(np.int32)[-COLUMNS:] = slots
        return row

    def remove(self, row: int) -> None:
        """Free a row, which nobody must name as a candidate any more."""
        self._free.append(row)

    @property
    def width(self) -> int:
        """Slots of an event."""
        return self._width

    def passing(self, hand: Hand, found: Candidates, events: Candidates) -> tuple[Candidates, Candidates]:
        """The candidates, as they are written, whose bounds accept their events; and the events."""
        below = np.array(hand.values)
        above = below
        if hand.highs:
            above = below.copy()
            for place, value in hand.highs.items():
                above[place] = value
        rows = np.maximum(found, ~found) if hand.posted else found
        lines = self._lines.take(rows, axis=0)
        slots = lines.view(np.int32)[:, -COLUMNS:] + (events * self._width)[:, None]
        least = below.take(slots)
        fits = (least if above is below else above.take(slots)) >= lines[:, :COLUMNS]
        fits &= least <= lines[:, COLUMNS : 2 * COLUMNS]
        passes = fits[:, 0] & fits[:, 1] & fits[:, 2]
        return found.compress(passes), events.compress(passes)
