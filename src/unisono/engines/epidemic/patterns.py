"""What the dispatcher needs to know of filters, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value]
Key: TypeAlias = bytes  # eight bytes that stand for a pattern on the wire


class Pattern(Protocol):
    """A predicate over the attributes of events, such as `unisono.engines.filters.Filter`."""

    @property
    def text(self) -> str:
        """What travels and is parsed again."""
        ...

    @property
    def hash(self) -> Key:
        """Eight bytes, equal for equal texts, everywhere and always."""
        ...

    def matches(self, attributes: Attributes) -> bool:
        """Whether an event with these attributes is wanted."""
        ...

    def covers(self, other: Any) -> bool:
        """Whether everything that the other one wants is wanted here too; False if that is not certain."""
        ...


Parser: TypeAlias = Callable[[str], Pattern]  # raises ValueError


class Index(Protocol):
    """Finds the patterns that an event matches."""

    def add(self, pattern: Pattern) -> None:
        """Take a pattern in."""
        ...

    def discard(self, pattern: Pattern) -> None:
        """Forget a pattern."""
        ...

    def matching(self, attributes: Attributes) -> set[Key]:
        """The keys of all patterns that match."""
        ...


class PlainIndex:
    """Tries one pattern after the other."""

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        self._patterns = {pattern.hash: pattern for pattern in patterns}

    def add(self, pattern: Pattern) -> None:
        """Take a pattern in."""
        self._patterns[pattern.hash] = pattern

    def discard(self, pattern: Pattern) -> None:
        """Forget a pattern."""
        self._patterns.pop(pattern.hash, None)

    def matching(self, attributes: Attributes) -> set[Key]:
        """The keys of all patterns that match."""
        return {key for key, pattern in self._patterns.items() if pattern.matches(attributes)}
