"""The rest of each conjunction in dense arrays: bounds that many candidates are held against at once.

A row is one conjunction. Up to three of its constraints are bounds on numbers, on booleans, or on the code of a
string that some filter names. They are checked one after the other; who fails one is not asked the next. The first
bounds of a row travel with its number, as a line of four floats: row, slot, lowest, highest. So the first check, which
most candidates fail, reads memory in order. A value is found by its slot: one for the numbers of an attribute, one
for its codes, one for its booleans. What a slot has no value for is NaN, which no bounds accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan, nextafter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unisono.engines.filters.cuts import Cuts

COLUMNS = 3
EXACT_MAX = 2**53  # integers up to here are floats without loss
Bounds: TypeAlias = tuple[int, float, float]  # slot, lowest, highest
Line: TypeAlias = tuple[int, int, float, float]  # row, and its first bounds
Floats: TypeAlias = NDArray[np.float64]
Candidates: TypeAlias = NDArray[np.intp]
ANY: Bounds = (0, -inf, inf)  # slot 0 always has a value


class Hand:
    """What is known of the few events at hand: candidates, and values in slots, those of each event in a block."""

    __slots__ = ("_width", "base", "candidates", "counts", "highs", "lines", "slots", "values")

    def __init__(self, width: int) -> None:
        self._width = width
        self.base = 0  # where the slots of the present event begin
        self.candidates: list[Floats] = []
        self.lines = 0
        self.counts: list[int] = []  # candidates of each event
        self.slots: list[int] = []
        self.values: list[float] = []
        self.highs: dict[
            int, float
        ] = {}  # of slots whose number is no float: it lies between the value and this

    def round(self, slot: int, number: int) -> float:
        """The float below a number that is none; the one above is noted."""
        low, self.highs[self.base + slot] = between_floats(number)
        return low

    def end_event(self, first: int) -> None:
        """All candidates from the first on belong to the present event; what comes then belongs to the next."""
        count = sum(map(len, self.candidates[first:]))
        self.counts.append(count)
        self.lines += count
        self.base += self._width

    def is_rounded(self, event: int) -> bool:
        """Whether bounds can only say who might match an event."""
        return any(slot // self._width == event for slot in self.highs)


class Rows:
    """Bounds of rows, and the values of the event at hand."""

    def __init__(self) -> None:
        self._slots = [np.zeros(64, np.intp) for _ in range(1, COLUMNS)]
        self._bounds = [np.zeros((64, 2)) for _ in range(1, COLUMNS)]
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
        """A row with at most three bounds, the narrowest first; as the line under which it is to be entered."""
        if self._free:
            row = self._free.pop()
        else:
            row, self._used = self._used, self._used + 1
            if row == len(self._slots[0]):
                self._slots = [np.concatenate((column, np.zeros_like(column))) for column in self._slots]
                self._bounds = [np.concatenate((column, np.zeros_like(column))) for column in self._bounds]
        padded = [*bounds, *[ANY] * COLUMNS]
        for column in range(1, COLUMNS):
            slot, low, high = padded[column]
            self._slots[column - 1][row] = slot
            self._bounds[column - 1][row] = low, high
        return row, *padded[0]

    def remove(self, row: int) -> None:
        """Free a row, which nobody must name as a candidate any more."""
        self._free.append(row)

    @property
    def width(self) -> int:
        """Slots of an event."""
        return self._width

    def passing(self, hand: Hand) -> tuple[Candidates, list[int]]:
        """The candidates, as they are written in their lines, whose bounds accept; and how many of each event."""
        events = len(hand.counts)
        below = self._filled(events, hand)
        above = below
        if hand.highs:
            above = below.copy()
            above[list(hand.highs)] = list(hand.highs.values())
        lines = np.concatenate(hand.candidates)
        bases = np.arange(0, events * self._width, self._width).repeat(hand.counts)
        fits = _fits(lines[:, 1].astype(np.intp) + bases, lines[:, 2], lines[:, 3], below, above)
        found, bases = lines[:, 0].compress(fits).astype(np.intp), bases.compress(fits)
        are_plain = found.min(initial=0) >= 0
        for slots, bounds_of in zip(self._slots, self._bounds, strict=True):
            rows = found if are_plain else np.maximum(found, ~found)
            bounds = bounds_of.take(rows, axis=0)
            fits = _fits(slots.take(rows) + bases, bounds[:, 0], bounds[:, 1], below, above)
            found, bases = found.compress(fits), bases.compress(fits)
        return found, np.bincount(bases // self._width, minlength=events).tolist()

    def _filled(self, events: int, hand: Hand) -> Floats:
        values = np.full(events * self._width, nan)
        values[:: self._width] = 0.0
        values[hand.slots] = hand.values
        return values


def _fits(slots: Candidates, lows: Floats, highs: Floats, below: Floats, above: Floats) -> NDArray[np.bool_]:
    """Whose bounds have something in common with the value of their slot, which lies between `below` and `above`."""
    least = below.take(slots)
    fits = (least if above is below else above.take(slots)) >= lows
    fits &= least <= highs
    return fits


def number_bounds(cuts: Cuts) -> tuple[float, float, bool]:
    """The floats between which a set of numbers lies, and whether it is all of them."""
    (first, side), last = cuts[0], cuts[-1]
    low, is_exact = _rounded(first, down=True)
    low = nextafter(low, inf) if side and is_exact else low
    if len(cuts) % 2:
        return low, inf, is_exact and len(cuts) == 1
    high, is_exact_too = _rounded(last[0], down=False)
    high = nextafter(high, -inf) if not last[1] and is_exact_too else high
    return low, high, is_exact and is_exact_too and len(cuts) == 2


def between_floats(number: int | float) -> tuple[float, float]:
    """The floats between which a number lies: itself, unless it is an integer that floats have not."""
    if isinstance(number, float) or -EXACT_MAX <= number <= EXACT_MAX:
        return float(number), float(number)
    return _rounded(number, down=True)[0], _rounded(number, down=False)[0]


def _rounded(number: int | float, *, down: bool) -> tuple[float, bool]:
    """A float that is not above (not below) a number, and whether it is the number."""
    try:
        value = float(number)
    except OverflowError:
        value = inf if number > 0 else -inf
    if value == number:
        return value, True
    return nextafter(value, -inf if down else inf), False
