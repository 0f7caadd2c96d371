"""What a subscription remembers of all it was handed, small enough to be carried from run to run."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from unisono.pipeline.columns import Bools, Ints

_FAR = 1 << 20  # an n this far beyond all others is kept in a set: nobody counts in such leaps


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

    @property
    def last(self) -> int:
        """The largest number, 0 if there is none."""
        return self.ranges[-1][1] if self.ranges else 0


class Seen:
    """Which events of one author came: a bit for each n."""

    def __init__(self) -> None:
        self._flags: Bools = np.zeros(1024, dtype=np.bool_)
        self._far: set[int] = set()

    def repeats(self, n: Ints) -> Bools:
        """Which of these were there before, earlier ones of the same call included; remembers them all."""
        if len(n) and (n.max() >= len(self._flags) or n.min() < 0):
            self._grow(int(n.max()))
            far = (n >= len(self._flags)) | (n < 0)
            if far.any():
                return self._repeats_far(n, far)
        before: Bools = self._flags[n]
        self._flags[n] = True
        ordered = np.sort(n)
        if (ordered[1:] == ordered[:-1]).any():
            _, firsts = np.unique(n, return_index=True)
            again = np.ones(len(n), dtype=np.bool_)
            again[firsts] = False
            before = before | again
        return before

    def _grow(self, n: int) -> None:
        if n < len(self._flags) * 2 + _FAR:
            flags = np.zeros(max(n + 1, len(self._flags) * 2), dtype=np.bool_)
            flags[: len(self._flags)] = self._flags
            self._flags = flags

    def _repeats_far(self, n: Ints, far: Bools) -> Bools:
        before = np.zeros(len(n), dtype=np.bool_)
        before[~far] = self.repeats(n[~far])
        for i in np.flatnonzero(far):
            before[i] = int(n[i]) in self._far
            self._far.add(int(n[i]))
        return before

    def __getstate__(self) -> tuple[int, bytes, set[int]]:
        return len(self._flags), np.packbits(self._flags).tobytes(), self._far

    def __setstate__(self, state: tuple[int, bytes, set[int]]) -> None:
        length, packed, self._far = state
        self._flags = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=length).astype(np.bool_)
