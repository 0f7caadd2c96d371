"""A filter: parsed once, then asked of every event whether it matches."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from unisono.engines.filters.attributes import flat, prefixes
from unisono.engines.filters.constraint import MISSING
from unisono.engines.filters.limits import CONJUNCTIONS_MAX, PREDICATES_MAX, TEXT_MAX
from unisono.engines.filters.normal import Alternatives, Conjunction, Normalizer, is_within
from unisono.engines.filters.printing import show_conjunction
from unisono.engines.filters.syntax import Parser
from unisono.model.errors import FilterError

HASH_BYTES = 8
_HASHED_AS = b"unisono.filter.1"  # another normal form would have other hashes


class Filter:
    """What a subscriber wants. Two filters are equal if their normal forms are; `text` is that form written out."""

    __slots__ = ("_prefixes", "_tests", "conjunctions", "hash", "text", "warnings")

    def __init__(self, conjunctions: Alternatives, warnings: tuple[str, ...] = ()) -> None:
        self.conjunctions: tuple[Conjunction, ...] = tuple(conjunctions)
        self.text = " or ".join(sorted(map(show_conjunction, conjunctions)))
        self.hash = blake2b(self.text.encode(), digest_size=HASH_BYTES, person=_HASHED_AS).digest()
        self.warnings = warnings  # parts of the text that can never be true, each with its place
        self._tests = tuple(
            tuple((name, wanted.accepts) for name, wanted in sorted(conjunction.items()))
            for conjunction in conjunctions
        )
        self._prefixes = prefixes(name for conjunction in conjunctions for name in conjunction)

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        """Whether an event with these attributes is wanted; values may be nested mappings."""
        attributes = flat(attributes, self._prefixes)
        for tests in self._tests:
            for name, accepts in tests:
                if not accepts(attributes.get(name, MISSING)):
                    break
            else:
                return True
        return False

    def covers(self, other: Filter) -> bool:
        """Whether this matches all that the other matches: True is certain, False may only mean not found out."""
        return all(
            any(is_within(inner, outer) for outer in self.conjunctions) for inner in other.conjunctions
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"parse({self.text!r})"


def parse(text: str) -> Filter:
    """The filter that a text describes; FilterError if it describes none, or one that can never match."""
    node = Parser(text).parse()
    normalizer = Normalizer(text)
    conjunctions = normalizer.normalize(node)
    if not conjunctions:
        raise (
            normalizer.never[0] if normalizer.never else FilterError("this filter can never be true", text, 0)
        )
    predicates = sum(len(conjunction) for conjunction in conjunctions)
    if len(conjunctions) > CONJUNCTIONS_MAX or predicates > PREDICATES_MAX:
        normalizer.refuse()
    found = Filter(conjunctions, tuple(map(str, normalizer.never)))
    if len(found.text) > TEXT_MAX:
        raise FilterError(f"written as alternatives, this filter has more than {TEXT_MAX:,} characters")
    return found
