"""Which publications a manager has numbered, so that a repeated request never takes a second number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from unisono.model.bundles import Bundle, StampedBundle, is_same, ns_of
from unisono.model.frames import Sequenced
from unisono.model.runs import sequenced as answer_of

SWEEP_MIN = 64


class _Many(NamedTuple):
    """Events that were numbered together; a bundle without stamps is still being numbered."""

    first: int
    events: int
    bundle: Bundle | StampedBundle


_Unit: TypeAlias = Sequenced | _Many | None
"""What is known of one event, or of many; None: it is being numbered."""


class Seen:
    """One publisher life on one topic: what is in flight, what is finished, what may be forgotten.

    What was numbered together is remembered together, and at least `limit` events are.
    """

    __slots__ = ("_count", "_many", "_swept", "_units", "floor", "limit", "newest", "topic")

    def __init__(self, topic: str, limit: int) -> None:
        self.topic = topic
        self.limit = limit
        self.floor = 0  # everything below was acknowledged to the publisher
        self.newest = 0  # the largest that was numbered
        self._units: OrderedDict[int, _Unit] = OrderedDict()  # by the last event of each
        self._count = 0  # events in them
        self._many: list[int] = []  # those of `_units` that are many, in order
        self._swept = 0  # how many units there were when all of them were looked through

    def admit(self, n: int) -> bool:
        """Note that `n` is being numbered; False when it was before."""
        if n < self.floor or (n <= self.newest and self.knows(n)):
            return False
        self._put(n, None)
        return True

    def is_fresh(self, n: int) -> bool:
        """Whether nothing from `n` on was numbered."""
        return n > self.newest and n >= self.floor

    def admit_fresh(self, n: int) -> None:
        """Note that `n`, which is fresh, is being numbered."""
        self._units[n] = None
        self._count += 1
        self.newest = n

    def admit_many(self, bundle: Bundle, place: int) -> None:
        """Note that all events of a bundle that are on our topic, which has this place there and are fresh, are being numbered."""
        self._put_many(bundle, place)

    def finish_many(self, bundle: StampedBundle, place: int) -> None:
        """They have their stamps."""
        self._put_many(bundle, place)
        self._trim()

    def recall_many(self, bundle: StampedBundle) -> None:
        """Events of a bundle that finished in an earlier epoch."""
        self._put_many(bundle, bundle.topics.index(self.topic))

    def finish(self, sequenced: Sequenced) -> None:
        """The event has its whole stamp."""
        if sequenced.id.n >= self.floor:
            self._put(sequenced.id.n, sequenced)
            if self._count > self.limit:
                self._trim()

    def recall(self, sequenced: Sequenced) -> None:
        """An event finished in an earlier epoch."""
        n = sequenced.id.n
        if n >= self.floor:
            self._put(n, sequenced)
        self.newest = max(self.newest, n)

    def _put_many(self, bundle: Bundle | StampedBundle, place: int) -> None:
        first, last = bundle.ends(place)
        if last >= self.floor:
            self._put(last, _Many(first, bundle.order.count(place), bundle))
        self.newest = max(self.newest, last)

    def _put(self, last: int, unit: _Unit) -> None:
        if last in self._units:
            self._count -= _count(self._units[last])
            self._unlist(last, last + 1)
        if type(unit) is _Many:
            insort(self._many, last)
        self._units[last] = unit
        self._count += _count(unit)
        self.newest = max(self.newest, last)

    def knows(self, n: int) -> bool:
        """Whether `n` was numbered, now or before."""
        return n < self.floor or n in self._units or self._found(n) is not None

    def _found(self, n: int) -> _Many | None:
        """What `n` was numbered with, if it is not the last of it."""
        place = bisect_right(self._many, n)
        if place == len(self._many):
            return None
        unit = self._units[self._many[place]]
        assert type(unit) is _Many
        return unit if unit.first <= n and n in ns_of(unit.bundle, self.topic) else None

    def numbered_with(self, bundle: Bundle, place: int) -> Bundle | StampedBundle | None:
        """This very bundle, in which our topic has this place, as it is being numbered, or was, if it is not forgotten."""
        unit = self._units.get(bundle.ends(place)[1])
        return unit.bundle if type(unit) is _Many and is_same(unit.bundle, bundle) else None

    def answer(self, n: int) -> Sequenced | None:
        """What was answered for `n`, if it is finished and not forgotten."""
        if n < self.floor:
            return None
        unit = self._units.get(n) or self._found(n)
        if not isinstance(unit, _Many):
            return unit
        return answer_of(unit.bundle, self.topic, n) if isinstance(unit.bundle, StampedBundle) else None

    def forget_below(self, n: int) -> None:
        """The publisher has the answers for everything below `n`."""
        if n <= self.floor:
            return
        self.floor, units = n, self._units
        if n > self.newest:
            units.clear()
            self._many.clear()
            self._count = self._swept = 0
            return
        while units and next(iter(units)) < n:
            self._count -= _count(units.popitem(last=False)[1])
        if (
            len(units) > 2 * self._swept + SWEEP_MIN
        ):  # not each time: what came out of order hides what can go
            for last in [last for last in units if last < n]:
                self._count -= _count(units.pop(last))
            self._swept = len(units)
        self._unlist(0, n)

    def _unlist(self, first: int, end: int) -> None:
        """None of what ends from here to there is to be found any more."""
        del self._many[bisect_left(self._many, first) : bisect_left(self._many, end)]

    def _trim(self) -> None:
        while self._count > self.limit:
            last, unit = next(iter(self._units.items()))
            if unit is None or (type(unit) is _Many and isinstance(unit.bundle, Bundle)):
                return  # it has no answer yet
            if self._count - _count(unit) < self.limit:
                return
            del self._units[last]
            self._unlist(last, last + 1)
            self._count -= _count(unit)
            self.floor = max(self.floor, last + 1)

    def copy(self) -> Seen:
        """An independent twin."""
        twin = Seen(self.topic, self.limit)
        twin.floor, twin.newest = self.floor, self.newest
        twin._units, twin._count = self._units.copy(), self._count
        twin._many, twin._swept = list(self._many), self._swept
        return twin

    def state(self) -> Hashable:
        """Equal for windows that answer alike."""
        return (self.floor, tuple((last, _state(unit)) for last, unit in self._units.items()), self.newest)


def _count(unit: _Unit) -> int:
    return unit.events if type(unit) is _Many else 1


def _state(unit: _Unit) -> Hashable:
    if type(unit) is _Many:
        return (unit.first, unit.events, isinstance(unit.bundle, StampedBundle))
    return unit is not None
