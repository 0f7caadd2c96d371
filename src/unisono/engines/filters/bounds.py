"""Sets of numbers and of strings as the floats between which they lie.

Strings become numbers of the same order by their first bytes: so how a string begins is held against bounds as well.
"""

from __future__ import annotations

from math import inf, nextafter

from unisono.engines.filters.cuts import Cuts

EXACT_MAX = 2**53  # integers up to here are floats without loss
HEAD_BYTES = 6  # of a string; as an integer they are a float without loss


def number_bounds(cuts: Cuts) -> tuple[float, float, bool]:
    """The floats between which a set of numbers lies, and whether it is all of them."""
    (first, side), last = cuts[0], cuts[-1]
    low, is_exact = _rounded(first, down=True)
    low = nextafter(low, inf) if side and is_exact else low
    if len(cuts) % 2:
        return low, inf, is_exact and len(cuts) == 1
    high, is_exact_too = _rounded(last[0], down=False)
    high = nextafter(high, -inf) if not last[1] and is_exact_too else high
    return low, high, is_exact and is_exact_too and len(cuts) == 2


def head(text: str) -> float:
    """The first bytes of a string as a number: no string has a higher one than those after it."""
    start = text[:HEAD_BYTES].encode("utf-8", "surrogatepass")[:HEAD_BYTES]
    return float(int.from_bytes(start.ljust(HEAD_BYTES, b"\0"), "big"))


def string_bounds(cuts: Cuts) -> tuple[float, float, bool]:
    """The heads between which those of a set of strings lie, and whether all strings between them are in the set."""
    low, is_exact = _head_of_cut(*cuts[0])
    if len(cuts) % 2:
        return low, inf, is_exact and len(cuts) == 1
    high, is_exact_too = _head_of_cut(*cuts[-1])
    return low, high - 1 if is_exact_too else high, is_exact and is_exact_too and len(cuts) == 2


def _head_of_cut(text: str, side: int) -> tuple[float, bool]:
    """The lowest head of strings after a cut, and whether all strings before it have lower ones."""
    is_whole = len(text.encode("utf-8", "surrogatepass")) <= HEAD_BYTES and not text.endswith("\0")
    return head(text), is_whole and not side


def between_floats(number: int | float) -> tuple[float, float]:
    """The floats between which a number lies: itself, unless it is an integer that floats have not."""
    if isinstance(number, float) or -EXACT_MAX <= number <= EXACT_MAX:
        return float(number), float(number)
    return _rounded(number, down=True)[0], _rounded(number, down=False)[0]


def _rounded(number: int | float, *, down: bool) -> tuple[float, bool]:
    """A float that is not above (not below) a number, and whether it is the number."""
    try:
        value = float(number)
    except OverflowError:
        value = inf if number > 0 else -inf
    if value == number:
        return value, True
    return nextafter(value, -inf if down else inf), False
