"""Something that several want and that is made once: the newest are remembered, as far as they fit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """At most so many things, of at most so much weight; the newest one is always kept."""

    def __init__(self, count_max: int, weight_max: int) -> None:
        self._count_max = count_max
        self._weight_max = weight_max
        self._weight = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """What was made, if it is remembered."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Remember what was made, instead of what was remembered by this key."""
        _, before = self._kept.pop(key, (None, 0))
        self._kept[key] = (value, weight)
        self._weight += weight - before
        while len(self._kept) > self._count_max or (self._weight > self._weight_max and len(self._kept) > 1):
            _, (_, gone) = self._kept.popitem(last=False)
            self._weight -= gone

    def __len__(self) -> int:
        return len(self._kept)
