"""Sets of strings: a piece of the line of all strings, and what their members contain, end with, or do not.

Prefixes and ranges are cuts of the line. `contains` and `ends with` are not: they are kept beside the cuts, each only
if the others do not imply it. What is found out here is sound: `is_within` may miss, and never errs.
"""

from __future__ import annotations

import msgspec

from unisono.engines.filters import cuts as lines
from unisono.engines.filters.cuts import ALL_STRINGS, NOTHING, Cuts


class Strings(msgspec.Struct, frozen=True):
    """The strings inside the cuts of which all of this is true."""

    cuts: Cuts = NOTHING
    suffix: str = ""
    contains: tuple[str, ...] = ()
    not_suffixes: tuple[str, ...] = ()
    not_contains: tuple[str, ...] = ()

    def has(self, value: str) -> bool:
        """Whether a string belongs to the set."""
        return lines.holds(self.cuts, value) and (not self.has_patterns or self._fits(value))

    @property
    def has_patterns(self) -> bool:
        """Whether cuts alone do not say it."""
        return bool(self.suffix or self.contains or self.not_suffixes or self.not_contains)

    def _fits(self, value: str) -> bool:
        return (
            value.endswith(self.suffix)
            and all(part in value for part in self.contains)
            and not value.endswith(self.not_suffixes)
            and not any(part in value for part in self.not_contains)
        )

    def both(self, other: Strings) -> Strings:
        """The strings of both sets."""
        cuts = lines.intersection(self.cuts, other.cuts)
        if not self.has_patterns and not other.has_patterns:
            return Strings(cuts) if cuts else NO_STRINGS
        short, long = sorted((self.suffix, other.suffix), key=len)
        if not long.endswith(short):
            return NO_STRINGS
        return _settled(
            Strings(
                cuts,
                long,
                self.contains + other.contains,
                self.not_suffixes + other.not_suffixes,
                self.not_contains + other.not_contains,
            )
        )

    def either(self, other: Strings) -> Strings | None:
        """The strings of both sets together, if that is a set of this kind."""
        if self.is_within(other):
            return other
        if other.is_within(self):
            return self
        if msgspec.structs.replace(self, cuts=other.cuts) == other:
            return msgspec.structs.replace(self, cuts=lines.union(self.cuts, other.cuts))
        return None

    def opposite(self) -> Strings | None:
        """All other strings, if that is a set of this kind."""
        if not self.has_patterns:
            return Strings(lines.complement(self.cuts, ALL_STRINGS))
        patterns = len(self.contains) + len(self.not_suffixes) + len(self.not_contains) + bool(self.suffix)
        if patterns > 1 or self.cuts != ALL_STRINGS:
            return None
        return Strings(
            ALL_STRINGS,
            "".join(self.not_suffixes),
            self.not_contains,
            (self.suffix,) if self.suffix else (),
            self.contains,
        )

    def is_within(self, other: Strings) -> bool:
        """Whether every string of this set is in the other; sound, not complete."""
        if not self.cuts or self == other:
            return True
        if not other.cuts:
            return False
        if not other.has_patterns:
            return lines.is_within(self.cuts, other.cuts)
        if (members := lines.values(self.cuts)) is not None:
            return all(other.has(member) for member in members)
        return (
            lines.is_within(self.cuts, other.cuts)
            and self.suffix.endswith(other.suffix)
            and all(self._must_contain(part) for part in other.contains)
            and all(self._cannot_end_with(part) for part in other.not_suffixes)
            and all(any(bad in part for bad in self.not_contains) for part in other.not_contains)
        )

    def _must_contain(self, part: str) -> bool:
        known = (self.suffix, shared_prefix(self.cuts), *self.contains)
        return any(part in text for text in known)

    def _cannot_end_with(self, part: str) -> bool:
        if self.suffix and not part.endswith(self.suffix) and not self.suffix.endswith(part):
            return True
        return part.endswith(self.not_suffixes) or any(bad in part for bad in self.not_contains)


NO_STRINGS = Strings()
EVERY_STRING = Strings(ALL_STRINGS)


def shared_prefix(cuts: Cuts) -> str:
    """What all strings inside the cuts begin with, as far as it can be seen."""
    if not cuts or len(cuts) % 2:
        return ""
    low: str = cuts[0][0]
    high, side = cuts[-1]
    length = next(
        (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high))
    )
    shared, longer = low[:length], low[: length + 1]
    return longer if side == 0 and longer != shared and lines.successor(longer) == high else shared


def _settled(found: Strings) -> Strings:
    """The one way to write a set down: without what the rest implies; the empty set if it contradicts itself."""
    if (members := lines.values(found.cuts)) is not None:
        return Strings(lines.points([member for member in members if found.has(member)]))
    suffix, prefix = found.suffix, shared_prefix(found.cuts)
    not_contains = tuple(sorted(_shortest(found.not_contains)))
    if any(bad in part for bad in not_contains for part in (suffix, prefix, *found.contains)):
        return NO_STRINGS
    if suffix and suffix.endswith(found.not_suffixes):
        return NO_STRINGS
    contains = [part for part in _longest(found.contains) if part not in suffix and part not in prefix]
    not_suffixes = [
        part
        for part in _shortest_ends(found.not_suffixes)
        if (not suffix or part.endswith(suffix)) and not any(bad in part for bad in not_contains)
    ]
    return Strings(found.cuts, suffix, tuple(sorted(contains)), tuple(sorted(not_suffixes)), not_contains)


def _shortest(parts: tuple[str, ...]) -> list[str]:
    """Without those that contain another."""
    kept: list[str] = []
    for part in sorted(set(parts), key=len):
        if not any(short in part for short in kept):
            kept.append(part)
    return kept


def _longest(parts: tuple[str, ...]) -> list[str]:
    """Without those that another contains."""
    kept: list[str] = []
    for part in sorted(set(parts), key=len, reverse=True):
        if not any(part in long for long in kept):
            kept.append(part)
    return kept


def _shortest_ends(parts: tuple[str, ...]) -> list[str]:
    """Without those that end with another."""
    kept: list[str] = []
    for part in sorted(set(parts), key=len):
        if not part.endswith(tuple(kept)):
            kept.append(part)
    return kept
