"""Random filters and events, for tests and for `make fuzz-filters`: each text with what it means, said another way.

What a text means is computed here from Python's own comparisons, without cuts, normal forms or indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeAlias

Meaning: TypeAlias = Callable[[Mapping[str, Any]], bool]

NAMES = ("a", "b", "c", "d.e", "d.f.g", "`odd name`", "`in`")
NUMBERS = (-1e300, -3, -2.5, -1, 0, 0.5, 1, 2, 3.0, 2**53, 2**53 + 1, 2**62, 5e-324)
LETTERS = "abAB\U0010ffff\ud7ffé"
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda x, y: bool(x == y),
    "!=": lambda x, y: bool(x != y),
    "<": lambda x, y: bool(x < y),
    "<=": lambda x, y: bool(x <= y),
    ">": lambda x, y: bool(x > y),
    ">=": lambda x, y: bool(x >= y),
}
PATTERNS: dict[str, Callable[[str, str], bool]] = {
    "starts with": str.startswith,
    "ends with": str.endswith,
    "contains": lambda text, part: part in text,
}
NOISE = (
    "(",
    ")",
    "[",
    "]",
    "and",
    "or",
    "not",
    "==",
    "=",
    '"',
    "'",
    "`",
    "\\",
    "1e999",
    "-",
    ",",
    "\n",
    "\0",
    "𝟙",
)
NOISE_MORE = (
    "__import__('os')",
    "{}",
    "9" * 30,
    "1_0",
    ".",
    "exists",
    "is",
    "between",
    "\u2028",
    "%s",
    "\ud800",
)


def kind_of(value: Any) -> str:
    """The kind of a value, as filters see it."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number" if value == value else "other"
    return "string" if isinstance(value, str) else "other"


class Maker:
    """Makes filters and events out of a source of chances."""

    def __init__(self, chances: Random) -> None:
        self._chances = chances

    def filter(self, depth: int = 3) -> tuple[str, Meaning]:
        """A text that parses (unless it can never be true, or is too large), and what it means."""
        choice = self._chances.randrange(6) if depth else 0
        if choice < 3:
            return self.predicate()
        if choice == 3:
            text, meaning = self.filter(depth - 1)
            return f"not ({text})", lambda event: not meaning(event)
        (left, one), (right, two) = self.filter(depth - 1), self.filter(depth - 1)
        if choice == 4:
            return f"({left}) and ({right})", lambda event: one(event) and two(event)
        return f"({left}) or ({right})", lambda event: one(event) or two(event)

    def predicate(self) -> tuple[str, Meaning]:
        """One predicate on one attribute."""
        written = self._chances.choice(NAMES)
        text, test = self._test()

        def meaning(event: Mapping[str, Any]) -> bool:
            is_there, value = look_up(event, written.strip("`"))
            return is_there and test(value)

        return f"{written} {text}", meaning

    def _test(self) -> tuple[str, Callable[[Any], bool]]:
        chances = self._chances
        match chances.randrange(6):
            case 0:
                return "exists", lambda value: True
            case 1:
                kind = chances.choice(("number", "string", "boolean", "other"))
                return f"is {kind}", lambda value: kind_of(value) == kind
            case 2:
                word, part = chances.choice(list(PATTERNS)), self.string()
                fits = PATTERNS[word]
                return f"{word} {_quoted(part)}", lambda value: isinstance(value, str) and fits(value, part)
            case 3:
                listed = [self.value() for _ in range(chances.randint(1, 4))]
                written = ", ".join(map(_written, listed))
                return f"in [{written}]", lambda value: any(_same(value, one) for one in listed)
            case 4:
                low, high = sorted(self._bounds())
                return (
                    f"between {_written(low)} and {_written(high)}",
                    lambda value: kind_of(value) == kind_of(low) and low <= value <= high,
                )
            case _:
                sign, bound = chances.choice(list(SIGNS)), self.value()
                if isinstance(bound, bool):
                    sign = chances.choice(("==", "!="))
                compare = SIGNS[sign]
                return (
                    f"{sign} {_written(bound)}",
                    lambda value: kind_of(value) == kind_of(bound) and compare(value, bound),
                )

    def _bounds(self) -> list[Any]:
        draw = self.string if self._chances.random() < 0.5 else self.number
        return [draw(), draw()]

    def value(self) -> Any:
        """A value that can be written in a filter."""
        chance = self._chances.randrange(5)
        return self.number() if chance < 2 else self.string() if chance < 4 else self._chances.random() < 0.5

    def number(self) -> int | float:
        """One of few numbers, so that they meet."""
        return self._chances.choice(NUMBERS)

    def string(self) -> str:
        """A short string of few letters."""
        return "".join(self._chances.choice(LETTERS) for _ in range(self._chances.randrange(4)))

    def event(self) -> dict[str, Any]:
        """Attributes, some nested, some of kinds that can only exist."""
        event: dict[str, Any] = {
            name.strip("`"): self._any() for name in NAMES if self._chances.random() < 0.7
        }
        if self._chances.random() < 0.4:
            event["d"] = {"e": self._any(), "f": {"g": self._any()}, 3: 1}
        return event

    def _any(self) -> Any:
        if self._chances.random() < 0.1:
            return self._chances.choice(
                (None, [1], float("nan"), float("inf"), -float("inf"), b"a", {}, 10**400)
            )
        value = self.value()
        return value + 1 if value == 2**53 and self._chances.random() < 0.5 else value

    def garbage(self) -> str:
        """A text that was a filter, with some of it changed, doubled or cut out."""
        text = self.filter()[0]
        for _ in range(self._chances.randint(1, 4)):
            at = self._chances.randrange(len(text) + 1)
            noise = self._chances.choice(NOISE + NOISE_MORE)
            text = text[:at] + noise + text[at + self._chances.randrange(4) :]
        return text


def look_up(event: Mapping[str, Any], name: str) -> tuple[bool, Any]:
    """Whether an event has an attribute, and its value: under the whole name, or nested."""
    if name in event:
        return True, event[name]
    found: Any = event
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return False, None
        found = found[part]
    return True, found


def _same(value: Any, one: Any) -> bool:
    return kind_of(value) == kind_of(one) and bool(value == one)


def _quoted(text: str) -> str:
    return '"' + text.replace("\ud7ff", "\\ud7ff") + '"'


def _written(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else str(value).lower()
