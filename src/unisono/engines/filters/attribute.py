"""What filters want of one attribute: which rows are entered under which of its values and ranges."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec

from unisono.engines.filters.constraint import (
    ABSENT,
    EXISTS,
    Constraint,
    plain_value,
)
from unisono.engines.filters.postings import NUMBER_CELLS_MAX, STRING_CELLS_MAX, Posting, Ranges
from unisono.engines.filters.rows import EXACT_MAX, Hand, Line

VALUES_MAX = 16  # a row is entered under at most so many values
VALUES_ASSUMED = 16  # different values that an attribute is thought to have before filters name more
BOOLEAN_SHARE = 0.5  # of events, about
PRESENT_SHARE = 0.9

NUMBER, CODE, TRUTH = range(3)  # slots of an attribute


class Access(msgspec.Struct, frozen=True):
    """A way to enter a row under an attribute, and the share of events that would name it, about."""

    way: str  # values, numbers, strings, present
    share: float
    values: list[Any]  # for the way of that name


class Word:
    """A value that rows name: its code, and those that are entered under it."""

    __slots__ = ("code", "posting", "uses")

    def __init__(self, code: int) -> None:
        self.code = code
        self.posting = Posting()
        self.uses = 0


class Attribute:
    """The rows that want something of one attribute."""

    __slots__ = (
        "_booleans",
        "_codes",
        "_number_ranges",
        "_numbers",
        "_present",
        "_string_ranges",
        "_strings",
        "slots",
        "uses",
    )

    def __init__(self) -> None:
        self.uses = 0
        self.slots = [0, 0, 0]  # number, code, truth; 0: no row looks at it
        self._strings: dict[str, Word] = {}
        self._numbers: dict[int | float, Word] = {}
        self._booleans = {False: Word(0), True: Word(1)}
        self._number_ranges: Ranges | None = None
        self._string_ranges: Ranges | None = None
        self._present = Posting()
        self._codes = 1

    def access(self, wanted: Constraint) -> Access | None:
        """How a row could be entered under this constraint; None: it also wants events without the attribute."""
        if wanted.flags & ABSENT:
            return None
        values = wanted.values()
        if values is not None and len(values) <= VALUES_MAX:
            return Access("values", min(1.0, sum(map(self._share, values))), values)
        if not wanted.flags and not wanted.strings.cuts:
            self._number_ranges = self._number_ranges or Ranges(NUMBER_CELLS_MAX)
            return Access("numbers", self._number_ranges.share(wanted.numbers), [])
        if not wanted.flags and not wanted.numbers:
            self._string_ranges = self._string_ranges or Ranges(STRING_CELLS_MAX)
            return Access("strings", self._string_ranges.share(wanted.strings.cuts), [])
        return Access("present", PRESENT_SHARE, [])

    def enter(self, line: Line, access: Access, wanted: Constraint, *, is_bounded: bool) -> None:
        """Put a row where events find it; `is_bounded`: bounds of the row say all that the constraint says."""
        if access.way == "numbers":
            assert self._number_ranges is not None, "access was asked for"
            self._number_ranges.add(line, wanted.numbers, "nowhere" if is_bounded else "everywhere")
        elif access.way == "strings":
            assert self._string_ranges is not None, "access was asked for"
            is_one_piece = len(wanted.strings.cuts) <= 2 and not wanted.strings.has_patterns
            self._string_ranges.add(line, wanted.strings.cuts, "edges" if is_one_piece else "everywhere")
        elif access.way == "present":
            self._present.add(line, is_settled=wanted == EXISTS)
        else:
            for value in access.values:
                self.use(value).posting.add(line)

    def leave(self, row: int, access: Access) -> None:
        """Take a row out again."""
        if access.way == "numbers":
            assert self._number_ranges is not None, "it was entered"
            self._number_ranges.remove(row)
        elif access.way == "strings":
            assert self._string_ranges is not None, "it was entered"
            self._string_ranges.remove(row)
        elif access.way == "present":
            self._present.remove(row)
        else:
            for value in access.values:
                self._table(value)[value].posting.remove(row)
                self.release(value)

    def use(self, value: Any) -> Word:
        """The word for a value that one more row names."""
        table = self._table(value)
        word = table.get(value)
        if word is None:
            self._codes += 1
            word = table[value] = Word(self._codes)
        word.uses += 1
        return word

    def release(self, value: Any) -> None:
        """One row less names the value; what nobody names is forgotten."""
        table = self._table(value)
        table[value].uses -= 1
        if not table[value].uses and table is not self._booleans:
            del table[value]

    def look_up(self, value: Any, hand: Hand) -> None:
        """Note the rows that could want a value, and what bounds are held against."""
        kind = type(value)
        if kind is str:
            word, ranges = self._strings.get(value), self._string_ranges
            if word is not None and (slot := self.slots[CODE]):
                hand.slots.append(hand.base + slot)
                hand.values.append(word.code)
        elif (kind is float or kind is int) and value == value:
            word, ranges = self._numbers.get(value) if self._numbers else None, self._number_ranges
            if slot := self.slots[NUMBER]:
                hand.slots.append(hand.base + slot)
                if kind is int and not -EXACT_MAX <= value <= EXACT_MAX:
                    hand.values.append(hand.round(slot, value))
                else:
                    hand.values.append(value)
        elif kind is bool:
            word, ranges = self._booleans[value], None
            if slot := self.slots[TRUTH]:
                hand.slots.append(hand.base + slot)
                hand.values.append(value)
        elif (plain := plain_value(value)) is not None and plain == plain:
            return self.look_up(plain, hand)
        else:
            word = ranges = None
        if word is not None and (lines := word.posting.lines) is not None:
            hand.candidates.append(lines)
        if ranges is not None:
            if (lines := ranges.cells[bisect_right(ranges.bounds, value)]) is not None:
                hand.candidates.append(lines)
            if ranges.wide is not None:
                hand.candidates.append(ranges.wide)
        if (lines := self._present.lines) is not None:
            hand.candidates.append(lines)
        return None

    def _share(self, value: Any) -> float:
        if type(value) is bool:
            return BOOLEAN_SHARE
        return 1 / (VALUES_ASSUMED + len(self._table(value)))

    def _table(self, value: Any) -> dict[Any, Word]:
        if type(value) is bool:
            return self._booleans
        return self._strings if type(value) is str else self._numbers
