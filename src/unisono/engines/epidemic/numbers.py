"""Sets of numbers as they travel: runs, each by its distance from the one before and its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Packed: TypeAlias = tuple[int, ...]


def pack(numbers: Iterable[int]) -> Packed:
    """1 2 3 7 becomes 1 2 4 0: begin at 1 and two more, then 4 on from there and no more."""
    packed: list[int] = []
    last = 0
    for number in sorted(numbers):
        if packed and number == last + 1:
            packed[-1] += 1
        else:
            packed += (number - last, 0)
        last = number
    return tuple(packed)


def unpack(packed: Sequence[int], limit: int) -> Iterator[int]:
    """The numbers again, at most so many of them, whoever wrote them down."""
    last = 0
    for gap, more in zip(packed[::2], packed[1::2], strict=False):
        if gap < 0 or more < 0:
            return
        last += gap
        for number in range(last, last + more + 1):
            if limit <= 0:
                return
            limit -= 1
            yield number
        last += more
