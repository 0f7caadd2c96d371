"""Which patterns of a dispatcher an event matches: a few are asked one by one, many are found in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.engines.epidemic.patterns import Attributes, Key, Pattern, PlainIndex
from unisono.engines.filters import Filter

if TYPE_CHECKING:
    from unisono.engines.filters.index import Index

ASKED_MAX = 64  # patterns; to ask more takes longer than to look them up


class Matching:
    """Patterns that come and go, and those that match. Without NumPy there is no index, and each is asked."""

    def __init__(self) -> None:
        self._plain = PlainIndex()
        self._index: Index[Key] | None = None
        self._patterns: dict[Key, Pattern] = {}
        self._is_tried = False

    def add(self, pattern: Pattern) -> None:
        """Take a pattern in."""
        self._patterns[pattern.hash] = pattern
        if self._index is not None and isinstance(pattern, Filter):
            self._index.add(pattern.hash, pattern)
            return
        self._plain.add(pattern)
        if len(self._patterns) > ASKED_MAX and not self._is_tried:
            self._move()

    def discard(self, pattern: Pattern) -> None:
        """Forget a pattern."""
        self._patterns.pop(pattern.hash, None)
        self._plain.discard(pattern)
        if self._index is not None:
            self._index.remove(pattern.hash)

    def matching(self, attributes: Attributes) -> set[Key]:
        """The keys of all patterns that match."""
        found = self._plain.matching(attributes)
        return found if self._index is None else found.union(self._index.match(attributes))

    def _move(self) -> None:
        """From the patterns that are asked into an index."""
        self._is_tried = True
        try:
            from unisono.engines.filters.index import Index
        except ImportError:
            return
        self._index = Index()
        for pattern in list(self._patterns.values()):
            self._plain.discard(pattern)
            self.add(pattern)
