"""Sets of numbers or of strings as cuts of a line.

A cut lies just before a value `(value, 0)` or just after it `(value, 1)`. A set is its cuts in order: outside before
the first, inside after it, outside after the second, and so on. So `3 <= x < 7` is `((3, 0), (7, 0))`, the single
value 5 is `((5, 0), (5, 1))`, and everything is one cut before the lowest value. There is one way to write a set
down, and every union, intersection and complement is again a set of this kind.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import Any, TypeAlias

Cut: TypeAlias = tuple[Any, int]
Cuts: TypeAlias = tuple[Cut, ...]

NOTHING: Cuts = ()
ALL_NUMBERS: Cuts = ((-inf, 0),)
ALL_STRINGS: Cuts = (("", 0),)
CODE_POINT_MAX = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)  # halves of characters, which no string that is sent has


def points(values: list[Any]) -> Cuts:
    """The set of these values."""
    return tuple((value, side) for value in sorted(set(values)) for side in (0, 1))


def prefixed(prefix: str) -> Cuts:
    """The strings that begin with a prefix lie next to each other."""
    beyond = successor(prefix)
    return ((prefix, 0),) if beyond is None else ((prefix, 0), (beyond, 0))


def successor(prefix: str) -> str | None:
    """The lowest string above everything that begins with the prefix, if there is one."""
    kept = prefix.rstrip(chr(CODE_POINT_MAX))
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(SURROGATES.stop if code in SURROGATES else code)


def holds(cuts: Cuts, value: Any) -> bool:
    """Whether the value lies inside."""
    return bisect_right(cuts, (value, 0)) & 1 == 1


def complement(cuts: Cuts, everything: Cuts) -> Cuts:
    """All that is not in the set."""
    return cuts[1:] if cuts[:1] == everything else everything + cuts


def union(left: Cuts, right: Cuts) -> Cuts:
    """What is in one of them or in both."""
    if left == right or not right:
        return left
    return _sweep(left, right, 1) if left else right


def intersection(left: Cuts, right: Cuts) -> Cuts:
    """What is in both."""
    if left == right:
        return left
    return _sweep(left, right, 2) if left and right else NOTHING


def _sweep(left: Cuts, right: Cuts, needed: int) -> Cuts:
    """Go along both lines, and cut where one comes into `needed` sets or out of them."""
    found: list[Cut] = []
    i = j = 0
    inside = False
    while i < len(left) or j < len(right):
        if j == len(right) or (i < len(left) and left[i] <= right[j]):
            cut = left[i]
            j += j < len(right) and right[j] == cut
            i += 1
        else:
            cut = right[j]
            j += 1
        if ((i & 1) + (j & 1) >= needed) is not inside:
            inside = not inside
            found.append(cut)
    return tuple(found)


def is_within(inner: Cuts, outer: Cuts) -> bool:
    """Whether all of one set is in the other."""
    return inner == outer or intersection(inner, outer) == inner


def intervals(cuts: Cuts) -> list[tuple[Cut, Cut | None]]:
    """Where each piece begins and ends; None: it does not end."""
    return [(low, cuts[i * 2 + 1] if i * 2 + 1 < len(cuts) else None) for i, low in enumerate(cuts[::2])]


def values(cuts: Cuts) -> list[Any] | None:
    """The values of a set that is nothing but single values."""
    if len(cuts) % 2 or any(low[0] != high[0] for low, high in zip(cuts[::2], cuts[1::2], strict=True)):
        return None
    return [value for value, _ in cuts[::2]]


def holes(cuts: Cuts, everything: Cuts) -> list[Any] | None:
    """The values that are missing from a set that has everything else."""
    return values(cuts[1:]) if cuts[:1] == everything else None
