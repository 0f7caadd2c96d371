"""What is known of each conjunction in dense arrays: bounds that many candidates are held against at once.

A row is one conjunction. Up to three of its constraints are bounds on numbers, on booleans, on how a string begins, or
on the code of a string that some filter names. A value is found by its slot: one for the numbers of an attribute, one
for each other kind. What a slot has no value for is NaN, which no bounds accept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unisono.engines.filters.bounds import between_floats

COLUMNS = 3
LINE_FLOATS = 8  # lowest, highest, and (two to a float) slots: what processors fetch at once
Bounds: TypeAlias = tuple[int, float, float]  # slot, lowest, highest
Floats: TypeAlias = NDArray[np.float64]
Line: TypeAlias = tuple[int, int, float, float]  # row, and its first bounds
Words: TypeAlias = NDArray[np.uint64]  # of bitmaps
Candidates: TypeAlias = NDArray[np.intp]
ANY: Bounds = (0, -inf, inf)  # slot 0 always has a value


class Hand:
    """What is known of the few events at hand: their values in slots, who is posted for them, their bitmaps."""

    __slots__ = ("_blank", "_missing", "counts", "events", "highs", "lines", "maps", "posted", "values")

    def __init__(self, width: int, missing: list[Words]) -> None:
        self._blank = [0.0] + [nan] * (width - 1)
        self._missing = missing
        self.events: list[Mapping[str, Any]] = []
        self.values: list[list[float]] = []  # by slot, of each event
        self.posted: list[Floats] = []
        self.counts: list[int] = []  # posted lines of each event
        self.lines = 0
        self.maps: list[list[Words]] = []  # by the place of the axis, of each event
        # Of slots (of an event) whose number is no float: it lies between the value and this.
        self.highs: dict[tuple[int, int], float] = {}

    def begin_event(self, attributes: Mapping[str, Any]) -> tuple[list[float], list[Words]]:
        """Places for the values and the bitmaps of one more event."""
        values, maps = self._blank.copy(), self._missing.copy()
        self.events.append(attributes)
        self.values.append(values)
        self.maps.append(maps)
        return values, maps

    def end_event(self, first: int) -> None:
        """All that is posted from the first on is posted for the event that was begun last."""
        count = sum(map(len, self.posted[first:]))
        self.counts.append(count)
        self.lines += count

    def round(self, slot: int, number: int) -> float:
        """The float below a number that is none; the one above is noted."""
        low, self.highs[len(self.values) - 1, slot] = between_floats(number)
        return low

    def is_rounded(self, event: int) -> bool:
        """Whether bounds can only say who might match an event."""
        return any(of == event for of, _ in self.highs)


class Slots:
    """The values of the events at hand: each lies between `below` and `above`, which are mostly the same."""

    def __init__(self, hand: Hand) -> None:
        self.below = self.above = np.array(hand.values)
        self.width = self.below.shape[1]
        if hand.highs:
            self.above = self.below.copy()
            for place, value in hand.highs.items():
                self.above[place] = value

    def fit(self, slots: Candidates, lows: Floats, highs: Floats) -> NDArray[np.bool_]:
        """Which bounds have something in common with the value of their slot."""
        least = self.below.take(slots)
        fits: NDArray[np.bool_] = (least if self.above is self.below else self.above.take(slots)) >= lows
        fits &= least <= highs
        return fits


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

    def add(self, bounds: Sequence[Bounds]) -> Line:
        """A row with at most three bounds, the narrowest first; as the line under which it is to be posted."""
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
        return row, slots[0], lows[0], highs[0]

    def remove(self, row: int) -> None:
        """Free a row, which nobody must name as a candidate any more."""
        self._free.append(row)

    @property
    def width(self) -> int:
        """Slots of an event."""
        return self._width

    def passing(self, slots: Slots, found: Candidates, events: Candidates) -> tuple[Candidates, Candidates]:
        """The candidates, as they are written, whose bounds accept their events; and the events."""
        lines = self._lines.take(np.maximum(found, ~found), axis=0)
        fits = slots.fit(
            lines.view(np.int32)[:, -COLUMNS:] + (events * slots.width)[:, None],
            lines[:, :COLUMNS],
            lines[:, COLUMNS : 2 * COLUMNS],
        )
        passes = fits[:, 0] & fits[:, 1] & fits[:, 2]
        return found.compress(passes), events.compress(passes)


def posted(slots: Slots, hand: Hand) -> tuple[Candidates, Candidates]:
    """Pairs of a row, as it is written, and an event for which it is posted, if its first bounds accept it."""
    lines = np.concatenate(hand.posted)
    events = np.arange(len(hand.counts)).repeat(hand.counts)
    fits = slots.fit(lines[:, 1].astype(np.intp) + events * slots.width, lines[:, 2], lines[:, 3])
    return lines[:, 0].compress(fits).astype(np.intp), events.compress(fits)
