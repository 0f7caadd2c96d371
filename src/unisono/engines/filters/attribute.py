"""What filters want of one attribute: which rows are entered under which of its values and ranges."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import msgspec

from unisono.engines.filters.axis import Axis, Unsettled
from unisono.engines.filters.bounds import EXACT_MAX, head
from unisono.engines.filters.constraint import ABSENT, EXISTS, Constraint, plain_value
from unisono.engines.filters.cuts import Cuts
from unisono.engines.filters.postings import Posting
from unisono.engines.filters.rows import Hand, Line, Words

VALUES_MAX = 16  # a row is entered under at most so many values
VALUES_ASSUMED = 48  # different values that an attribute is thought to have before filters name more
BOOLEAN_SHARE = 0.5  # of events, about
PRESENT_SHARE = 0.9

NUMBER, CODE, TRUTH, HEAD = range(4)  # slots of an attribute


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
        "_number_axis",
        "_numbers",
        "_present",
        "_string_axis",
        "_strings",
        "slots",
        "uses",
    )

    def __init__(self) -> None:
        self.uses = 0
        self.slots = [0, 0, 0, 0]  # 0: no row looks at it, and whatever is there will do
        self._strings: dict[str, Word] = {}
        self._numbers: dict[int | float, Word] = {}
        self._booleans = {False: Word(0), True: Word(1)}
        self._number_axis = Axis()
        self._string_axis = Axis()
        self._present = Posting()
        self._codes = 1

    def access(self, wanted: Constraint) -> Access | None:
        """How a row could be entered under this constraint; None: it also wants events without the attribute."""
        if wanted.flags & ABSENT:
            return None
        values = wanted.values()
        if values is not None and len(values) <= VALUES_MAX:
            return Access("values", min(1.0, sum(map(self._share, values))), values)
        if (part := self.part(wanted)) is None:
            return Access("present", PRESENT_SHARE, [])
        axis, cuts = part
        return Access("numbers" if axis is self._number_axis else "strings", axis.share(cuts), [])

    def part(self, wanted: Constraint) -> tuple[Axis, Cuts] | None:
        """A constraint as a part of an axis, if it wants nothing else; patterns of strings are left to be asked."""
        if wanted.flags or bool(wanted.numbers) is bool(wanted.strings.cuts):
            return None
        if wanted.numbers:
            return self._number_axis, wanted.numbers
        return self._string_axis, wanted.strings.cuts

    def enter(self, line: Line, access: Access, wanted: Constraint, *, is_bounded: bool) -> None:
        """Put a row where events find it; `is_bounded`: bounds of the row say all that the constraint says."""
        if access.way == "numbers":
            self._number_axis.post(line, wanted.numbers, "nowhere" if is_bounded else "edges")
        elif access.way == "strings":
            unsettled: Unsettled = "everywhere" if wanted.strings.has_patterns else "edges"
            self._string_axis.post(line, wanted.strings.cuts, "nowhere" if is_bounded else unsettled)
        elif access.way == "present":
            self._present.add(line, is_settled=wanted == EXISTS)
        else:
            for value in access.values:
                self.use(value).posting.add(line)

    def leave(self, row: int, access: Access) -> None:
        """Take a row out again."""
        if access.way == "numbers":
            self._number_axis.unpost(row)
        elif access.way == "strings":
            self._string_axis.unpost(row)
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

    def look_up(self, value: Any, hand: Hand, slots: list[float], maps: list[Words]) -> None:
        """Note the rows that could want a value, what bounds are held against, and the bitmaps of its axis."""
        kind = type(value)
        if kind is float and value == value:
            axis = self._number_axis
            slots[self.slots[NUMBER]] = value
            word = self._numbers.get(value) if self._numbers else None
        elif kind is str:
            axis, word = self._string_axis, self._strings.get(value)
            if word is not None:
                slots[self.slots[CODE]] = word.code
            if self.slots[HEAD]:
                slots[self.slots[HEAD]] = head(value)
        elif kind is int:
            axis, word = self._number_axis, self._numbers.get(value)
            if -EXACT_MAX <= value <= EXACT_MAX:
                slots[self.slots[NUMBER]] = value
            elif slot := self.slots[NUMBER]:
                slots[slot] = hand.round(slot, value)
        else:
            return self._look_up_other(value, hand, slots, maps)
        cell = bisect_right(axis.bounds, value)
        if axis.maps:
            maps[axis.place] = axis.maps[cell]
        if (lines := axis.cells[cell]) is not None:
            hand.posted.append(lines)
        if word is not None and (lines := word.posting.lines) is not None:
            hand.posted.append(lines)
        if (lines := self._present.lines) is not None:
            hand.posted.append(lines)
        return None

    def _look_up_other(self, value: Any, hand: Hand, slots: list[float], maps: list[Words]) -> None:
        plain = plain_value(value) if type(value) is not bool else None
        if plain is not None and plain == plain:
            return self.look_up(plain, hand, slots, maps)
        if type(value) is bool:
            slots[self.slots[TRUTH]] = value
            if (lines := self._booleans[value].posting.lines) is not None:
                hand.posted.append(lines)
        if (lines := self._present.lines) is not None:
            hand.posted.append(lines)
        return None

    def _share(self, value: Any) -> float:
        if type(value) is bool:
            return BOOLEAN_SHARE
        return 1 / (VALUES_ASSUMED + len(self._table(value)))

    def _table(self, value: Any) -> dict[Any, Word]:
        if type(value) is bool:
            return self._booleans
        return self._strings if type(value) is str else self._numbers
