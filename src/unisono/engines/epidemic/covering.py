"""Which patterns of a table cover which: looked up once when one comes, not each time that neighbours are told.

Of each pattern a few that cover it are remembered. That is enough to know it for redundant; should all of them go while
others that cover it stay, it is told though it need not be.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from unisono.engines.epidemic.patterns import Key, Pattern

ABOVE_MAX = 64  # patterns covering one that are remembered


class Covering:
    """The pairs of patterns of which one covers the other."""

    def __init__(self, above_max: int = ABOVE_MAX) -> None:
        self.above_max = above_max
        self._above: dict[Key, dict[Key, bool]] = {}  # -> whether it makes this one redundant
        self._below: dict[Key, dict[Key, None]] = {}

    def add(self, pattern: Pattern, others: Iterable[Pattern]) -> None:
        """A pattern comes to these others."""
        key = pattern.hash
        self._above[key], self._below[key] = {}, {}
        for other in others:
            is_below, is_above = other.covers(pattern), pattern.covers(other)
            if is_below:
                self._note(key, other.hash, is_equal=is_above)
            if is_above:
                self._note(other.hash, key, is_equal=is_below)

    def _note(self, below: Key, above: Key, *, is_equal: bool) -> None:
        if len(self._above[below]) < self.above_max:
            self._above[below][above] = not is_equal or above < below  # of two that say the same, one is told
            self._below[above][below] = None

    def discard(self, key: Key) -> None:
        """A pattern goes."""
        for above in self._above.pop(key):
            del self._below[above][key]
        for below in self._below.pop(key):
            del self._above[below][key]

    def is_redundant(self, key: Key, among: Container[Key]) -> bool:
        """Whether one of these wants all that a pattern wants, and is to be told in its place."""
        return any(is_told and above in among for above, is_told in self._above[key].items())

    def covers_any(self, key: Key, among: Container[Key]) -> bool:
        """Whether a pattern covers one of these."""
        return any(below in among for below in self._below.get(key, ()))

    def above(self, key: Key) -> Iterable[Key]:
        """Patterns that cover this one."""
        return self._above.get(key, ())

    def below(self, key: Key) -> Iterable[Key]:
        """Patterns that this one covers."""
        return self._below.get(key, ())

    def check(self, keys: Iterable[Key]) -> None:
        """Assert that exactly these patterns are known, and both pictures agree."""
        assert self._above.keys() == self._below.keys() == set(keys)
        pairs = {(below, above) for below, found in self._above.items() for above in found}
        assert pairs == {(below, above) for above, found in self._below.items() for below in found}
        assert all(len(found) <= self.above_max for found in self._above.values())
