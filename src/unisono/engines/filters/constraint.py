"""What a filter wants of one attribute: a set of values, and whether the attribute may be missing.

A value is a number, a string, a boolean, or something else (null, a list, a nested mapping, bytes, NaN), which can
only exist. A constraint says for each of these kinds which values are in; so what one predicate says, what its
negation says, and what several say together are all constraints.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from unisono.engines.filters import cuts as lines
from unisono.engines.filters.cuts import ALL_NUMBERS, NOTHING, Cuts
from unisono.engines.filters.strings import EVERY_STRING, NO_STRINGS, Strings

ABSENT = 1
OTHER = 2
FALSE = 4
TRUE = 8
BOOLEAN = FALSE | TRUE
ALL_FLAGS = ABSENT | OTHER | BOOLEAN


class Missing(Enum):
    """What stands for the value of an attribute that an event does not have."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


class Constraint(msgspec.Struct, frozen=True):
    """The values that an attribute may have."""

    flags: int = 0
    numbers: Cuts = NOTHING
    strings: Strings = NO_STRINGS

    def accepts(self, value: Any) -> bool:
        """Whether this value, or MISSING, is one of them."""
        kind = type(value)
        if kind is str:
            return self.strings.has(value)
        if kind is float or kind is int:
            return lines.holds(self.numbers, value) if value == value else self.flags & OTHER != 0
        if kind is bool:
            return self.flags & (TRUE if value else FALSE) != 0
        if value is MISSING:
            return self.flags & ABSENT != 0
        plain = plain_value(value)
        return self.flags & OTHER != 0 if plain is None else self.accepts(plain)

    def both(self, other: Constraint) -> Constraint:
        """The values that satisfy both."""
        return Constraint(
            self.flags & other.flags,
            lines.intersection(self.numbers, other.numbers),
            self.strings.both(other.strings),
        )

    def either(self, other: Constraint) -> Constraint | None:
        """The values that satisfy one of them, if that is a constraint."""
        strings = self.strings.either(other.strings)
        if strings is None:
            return None
        return Constraint(self.flags | other.flags, lines.union(self.numbers, other.numbers), strings)

    def opposite(self) -> Constraint | None:
        """All other values, if that is a constraint; of a single predicate it always is."""
        strings = self.strings.opposite()
        if strings is None:
            return None
        return Constraint(ALL_FLAGS & ~self.flags, lines.complement(self.numbers, ALL_NUMBERS), strings)

    def is_within(self, other: Constraint) -> bool:
        """Whether the other accepts all that this accepts; sound, not complete."""
        return (
            self.flags & ~other.flags == 0
            and lines.is_within(self.numbers, other.numbers)
            and self.strings.is_within(other.strings)
        )

    def values(self) -> list[Any] | None:
        """All values that it accepts, if it accepts nothing but some values."""
        if self.flags & (ABSENT | OTHER):
            return None
        numbers, strings = lines.values(self.numbers), lines.values(self.strings.cuts)
        if numbers is None or strings is None:
            return None
        return [
            *(value for value, flag in ((False, FALSE), (True, TRUE)) if self.flags & flag),
            *numbers,
            *strings,
        ]

    @property
    def is_empty(self) -> bool:
        """Whether no value can satisfy it."""
        return not (self.flags or self.numbers or self.strings.cuts)


ANYTHING = Constraint(ALL_FLAGS, ALL_NUMBERS, EVERY_STRING)
EXISTS = Constraint(ALL_FLAGS & ~ABSENT, ALL_NUMBERS, EVERY_STRING)
KINDS: dict[str, Constraint] = {
    "number": Constraint(0, ALL_NUMBERS),
    "string": Constraint(strings=EVERY_STRING),
    "boolean": Constraint(BOOLEAN),
    "other": Constraint(OTHER),
}


def members(values: list[Any]) -> Constraint:
    """Any of these numbers, strings and booleans."""
    numbers = [value for value in values if type(value) in (int, float)]
    flags = (TRUE if any(value is True for value in values) else 0) | (
        FALSE if any(value is False for value in values) else 0
    )
    strings = [value for value in values if type(value) is str]
    return Constraint(flags, lines.points(numbers), Strings(lines.points(strings)) if strings else NO_STRINGS)


def within(cuts: Cuts) -> Constraint:
    """The numbers, or the strings, inside the cuts."""
    if cuts and isinstance(cuts[-1][0], str):
        return Constraint(strings=Strings(cuts))
    return Constraint(numbers=cuts)


def plain_value(value: Any) -> str | int | float | None:
    """The string or number that a value of a subclass (an enumeration, for instance) is; None if it is neither."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return None
