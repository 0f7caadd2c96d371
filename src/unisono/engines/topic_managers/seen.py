"""Which publications a manager has numbered, so that a repeated request never takes a second number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from unisono.model.frames import Sequenced


class Seen:
    """One publisher life on one topic: what is in flight, what is finished, what may be forgotten."""

    __slots__ = ("_known", "floor", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.floor = 0  # everything below was acknowledged to the publisher
        self._known: OrderedDict[int, Sequenced | None] = OrderedDict()

    def admit(self, n: int) -> bool:
        """Note that `n` is being numbered; False when it was before."""
        if n < self.floor or n in self._known:
            return False
        self._known[n] = None
        return True

    def knows(self, n: int) -> bool:
        """Whether `n` was numbered, now or before."""
        return n < self.floor or n in self._known

    def recall(self, sequenced: Sequenced) -> None:
        """An event finished in an earlier epoch."""
        if sequenced.id.n >= self.floor:
            self._known[sequenced.id.n] = sequenced

    def finish(self, sequenced: Sequenced) -> None:
        """The event has its whole stamp."""
        if sequenced.id.n >= self.floor:
            self._known[sequenced.id.n] = sequenced
            while len(self._known) > self.limit and next(iter(self._known.values())) is not None:
                n, _ = self._known.popitem(last=False)
                self.floor = max(self.floor, n + 1)

    def answer(self, n: int) -> Sequenced | None:
        """What was answered for `n`, if it is finished and not forgotten."""
        return self._known.get(n)

    def forget_below(self, n: int) -> None:
        """The publisher has the answers for everything below `n`."""
        if n > self.floor:
            self.floor = n
            for known in [k for k in self._known if k < n]:
                del self._known[known]

    def copy(self) -> Seen:
        """An independent twin."""
        twin = Seen(self.limit)
        twin.floor, twin._known = self.floor, self._known.copy()
        return twin

    def state(self) -> Hashable:
        """Equal for windows that answer alike."""
        return (self.floor, tuple((n, s is not None) for n, s in self._known.items()))
