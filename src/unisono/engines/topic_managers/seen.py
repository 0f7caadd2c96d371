"""Which publications a manager has numbered, so that a repeated request never takes a second number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from unisono.model.bundles import StampedBundle
from unisono.model.frames import Sequenced
from unisono.model.runs import sequenced as answer_of


class Seen:
    """One publisher life on one topic: what is in flight, what is finished, what may be forgotten."""

    __slots__ = ("_known", "floor", "limit", "newest")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.floor = 0  # everything below was acknowledged to the publisher
        self.newest = 0  # the largest that was numbered
        self._known: OrderedDict[int, Sequenced | StampedBundle | None] = OrderedDict()

    def admit(self, n: int) -> bool:
        """Note that `n` is being numbered; False when it was before."""
        if n < self.floor or n in self._known:
            return False
        self._known[n] = None
        self.newest = max(self.newest, n)
        return True

    def is_fresh(self, n: int) -> bool:
        """Whether nothing from `n` on was numbered."""
        return n > self.newest and n >= self.floor

    def admit_many(self, ns: Sequence[int]) -> None:
        """Note that all of these, which are fresh, are being numbered."""
        self._known.update(dict.fromkeys(ns))
        self.newest = ns[-1]

    def finish_many(self, ns: Sequence[int], bundle: StampedBundle) -> None:
        """They have their stamps."""
        self._known.update(dict.fromkeys([n for n in ns if n >= self.floor], bundle))
        self._trim()

    def knows(self, n: int) -> bool:
        """Whether `n` was numbered, now or before."""
        return n < self.floor or n in self._known

    def recall(self, sequenced: Sequenced) -> None:
        """An event finished in an earlier epoch."""
        if sequenced.id.n >= self.floor:
            self._known[sequenced.id.n] = sequenced
        self.newest = max(self.newest, sequenced.id.n)

    def recall_many(self, ns: Sequence[int], bundle: StampedBundle) -> None:
        """Events of a bundle that finished in an earlier epoch."""
        self._known.update(dict.fromkeys([n for n in ns if n >= self.floor], bundle))
        self.newest = max(self.newest, ns[-1])

    def finish(self, sequenced: Sequenced) -> None:
        """The event has its whole stamp."""
        n = sequenced.id.n
        if n >= self.floor:
            self._known[n] = sequenced
            if len(self._known) > self.limit:
                self._trim()

    def _trim(self) -> None:
        while len(self._known) > self.limit and next(iter(self._known.values())) is not None:
            n, _ = self._known.popitem(last=False)
            self.floor = max(self.floor, n + 1)

    def answer(self, n: int, topic: str) -> Sequenced | None:
        """What was answered for `n`, if it is finished and not forgotten."""
        known = self._known.get(n)
        return answer_of(known, topic, n) if isinstance(known, StampedBundle) else known

    def forget_below(self, n: int) -> None:
        """The publisher has the answers for everything below `n`."""
        if n > self.floor:
            self.floor = n
            if n > self.newest:
                self._known.clear()
            else:
                for known in [k for k in self._known if k < n]:
                    del self._known[known]

    def copy(self) -> Seen:
        """An independent twin."""
        twin = Seen(self.limit)
        twin.floor, twin.newest, twin._known = self.floor, self.newest, self._known.copy()
        return twin

    def state(self) -> Hashable:
        """Equal for windows that answer alike."""
        return (self.floor, tuple((n, s is not None) for n, s in self._known.items()), self.newest)
