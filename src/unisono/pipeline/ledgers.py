"""What a subscription remembers of all it was handed, small enough to be carried from run to run."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from unisono.pipeline.columns import Bools, Ints

_PAGE = 4096  # n of an author that are kept, and forgotten, together
_NEVER = -(1 << 62)


class Ranges:
    """A set of numbers as ranges: one range for each topic, unless there are gaps."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []  # first and last, ascending, never touching

    def add(self, numbers: Ints) -> None:
        """Take in numbers in any order."""
        if not len(numbers):
            return
        steps = np.diff(numbers)
        if len(steps) and steps.min() < 0:
            numbers = np.sort(numbers)
            steps = np.diff(numbers)
        breaks = np.flatnonzero(steps > 1)
        firsts = numbers[np.concatenate(([0], breaks + 1))]
        lasts = numbers[np.concatenate((breaks, [len(numbers) - 1]))]
        self._merge(list(zip(firsts.tolist(), lasts.tolist(), strict=True)))

    def union(self, other: Ranges) -> None:
        """Take in all of another set."""
        self._merge(other.ranges)

    def _merge(self, new: list[tuple[int, int]]) -> None:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(self.ranges + new) if self.ranges else new:
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        self.ranges = merged

    def without(self, other: Ranges, above: int, to: int | None) -> list[tuple[int, int]]:
        """The ranges of numbers here, above one and up to another, that `other` lacks."""
        left: list[tuple[int, int]] = []
        for first, last in self.ranges:
            at, end = max(first, above + 1), last if to is None else min(last, to)
            for f, t in other.ranges[max(0, bisect_right(other.ranges, (at, at)) - 1) :]:
                if t < at:
                    continue
                if f > end:
                    break
                if f > at:
                    left.append((at, f - 1))
                at = t + 1
            if at <= end:
                left.append((at, end))
        return left

    def forget(self) -> None:
        """Keep the last range."""
        del self.ranges[:-1]

    @property
    def last(self) -> int:
        """The largest number, 0 if there is none."""
        return self.ranges[-1][1] if self.ranges else 0


class Seen:
    """Which events of one author came: a bit for each n, in pages."""

    def __init__(self) -> None:
        self._pages: dict[int, Bools] = {}
        self._lowest = _NEVER  # pages below it were forgotten

    def repeats(self, n: Ints) -> Bools:
        """Which of these were there before, earlier ones of the same call included; remembers them all.

        What was forgotten is not called repeated.
        """
        before = np.zeros(len(n), dtype=np.bool_)
        pages, places = n // _PAGE, n % _PAGE
        for page in _values(pages):
            if page < self._lowest:
                continue
            flags = self._pages.get(page)
            if flags is None:
                flags = self._pages[page] = np.zeros(_PAGE, dtype=np.bool_)
            mine = np.flatnonzero(pages == page)
            before[mine] = flags[places[mine]]
            flags[places[mine]] = True
        ordered = np.sort(n)
        if (ordered[1:] == ordered[:-1]).any():
            _, firsts = np.unique(n, return_index=True)
            again = np.ones(len(n), dtype=np.bool_)
            again[firsts] = False
            before |= again & (pages >= self._lowest)
        return before

    def forget(self, kept: int) -> int:
        """Keep the pages of about the last `kept` n; the first n that is still remembered."""
        if self._pages:
            self._lowest = max(self._lowest, max(self._pages) - kept // _PAGE)
            for page in [p for p in self._pages if p < self._lowest]:
                del self._pages[page]
        return self._lowest * _PAGE

    def __getstate__(self) -> tuple[int, dict[int, bytes]]:
        return self._lowest, {page: np.packbits(flags).tobytes() for page, flags in self._pages.items()}

    def __setstate__(self, state: tuple[int, dict[int, bytes]]) -> None:
        self._lowest, packed = state
        self._pages = {
            page: np.unpackbits(np.frombuffer(bits, dtype=np.uint8)).astype(np.bool_)
            for page, bits in packed.items()
        }


def _values(pages: Ints) -> list[int]:
    """The pages that occur; mostly one, or a few next to each other."""
    if not len(pages):
        return []
    low, high = int(pages.min()), int(pages.max())
    if high - low < 2:
        return [*range(low, high + 1)]
    found: list[int] = np.unique(pages).tolist()
    return found
