"""Normal forms written out again: the text that parses to the same, and that a hash is made of."""

from __future__ import annotations

import json
import re
from typing import Any

from unisono.engines.filters import cuts as lines
from unisono.engines.filters.constraint import ABSENT, BOOLEAN, EXISTS, OTHER, TRUE, Constraint
from unisono.engines.filters.cuts import ALL_NUMBERS, ALL_STRINGS, Cut, Cuts
from unisono.engines.filters.strings import Strings
from unisono.engines.filters.tokens import KEYWORDS

_PLAIN = re.compile(r"[^\W\d]\w*(?:\.\w+)*")


def show_conjunction(conjunction: dict[str, Constraint]) -> str:
    """What must hold together, by name."""
    if not conjunction:
        return "true"
    return " and ".join(
        _grouped(show_constraint(name, wanted)) for name, wanted in sorted(conjunction.items())
    )


def show_constraint(name: str, constraint: Constraint) -> list[str]:
    """What an attribute may be: alternatives, of which none has an `or` outside of parentheses."""
    name = show_name(name)
    if constraint == EXISTS:
        return [f"exists {name}"]
    if constraint.flags & ABSENT and constraint.flags & OTHER and (rest := constraint.opposite()):
        return [f"not {_grouped(_alternatives(name, rest), always=True)}"]
    return _alternatives(name, constraint)


def show_name(name: str) -> str:
    """A name, in backquotes if it needs them."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS else f"`{name}`"


def show_value(value: Any) -> str:
    """A value as it is written in a filter."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value).lower()


def _alternatives(name: str, constraint: Constraint) -> list[str]:
    flags, strings = constraint.flags, constraint.strings
    found: list[str] = []
    if flags & ABSENT:
        found.append(f"not exists {name}")
    if flags & OTHER:
        found.append(f"{name} is other")
    numbers, singles = _pieces(name, constraint.numbers, ALL_NUMBERS, "number")
    if flags & BOOLEAN == BOOLEAN:
        found.append(f"{name} is boolean")
    elif flags & BOOLEAN:
        singles = [flags & TRUE == TRUE, *singles]
    if strings.has_patterns:
        found += [*numbers, *_listed(name, singles), _patterned(name, strings)]
    else:
        texts, members = _pieces(name, strings.cuts, ALL_STRINGS, "string")
        found += [*numbers, *texts, *_listed(name, singles + members)]
    return found


def _patterned(name: str, strings: Strings) -> str:
    """Everything that is said of strings, to hold together."""
    parts: list[str] = []
    if strings.cuts != ALL_STRINGS:
        pieces, members = _pieces(name, strings.cuts, ALL_STRINGS, "string")
        parts.append(_grouped([*pieces, *_listed(name, members)]))
    elif not strings.suffix and not strings.contains:
        parts.append(f"{name} is string")
    if strings.suffix:
        parts.append(f"{name} ends with {show_value(strings.suffix)}")
    parts += [f"{name} contains {show_value(part)}" for part in strings.contains]
    parts += [f"not {name} ends with {show_value(part)}" for part in strings.not_suffixes]
    parts += [f"not {name} contains {show_value(part)}" for part in strings.not_contains]
    return " and ".join(parts)


def _pieces(name: str, cuts: Cuts, everything: Cuts, kind: str) -> tuple[list[str], list[Any]]:
    """The pieces of a line, and its single values."""
    if cuts == everything:
        return [f"{name} is {kind}"], []
    gaps = lines.holes(cuts, everything)
    if gaps and len(gaps) == 1:
        return [f"{name} != {show_value(gaps[0])}"], []
    pieces: list[str] = []
    singles: list[Any] = []
    for low, high in lines.intervals(cuts):
        if high is not None and low[0] == high[0]:
            singles.append(low[0])
        else:
            pieces.append(_piece(name, low, high, everything[0]))
    return pieces, singles


def _piece(name: str, low: Cut, high: Cut | None, bottom: Cut) -> str:
    above = f"{name} {'>' if low[1] else '>='} {show_value(low[0])}" if low != bottom else ""
    if high is None:
        return above
    below = f"{name} {'<=' if high[1] else '<'} {show_value(high[0])}"
    if not above:
        return below
    if isinstance(low[0], str) and low[1] == high[1] == 0 and lines.successor(low[0]) == high[0]:
        return f"{name} starts with {show_value(low[0])}"
    if low[1] == 0 and high[1] == 1:
        return f"{name} between {show_value(low[0])} and {show_value(high[0])}"
    return f"{above} and {below}"


def _listed(name: str, values: list[Any]) -> list[str]:
    if not values:
        return []
    if len(values) == 1:
        return [f"{name} == {show_value(values[0])}"]
    return [f"{name} in [{', '.join(map(show_value, values))}]"]


def _grouped(alternatives: list[str], *, always: bool = False) -> str:
    if len(alternatives) == 1 and not (always and " and " in alternatives[0]):
        return alternatives[0]
    return f"({' or '.join(alternatives)})"
