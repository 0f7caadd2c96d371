"""What is sent over a link is numbered, so that the other end knows what it has missed: no later event of the same
source and pattern is needed to see the hole, which may never come.

What is missed is not sent again over the link. Its end is told what it was, and where it can be had; and since it would
have sent it on, it tells so those who would have got it from there, as the next step of its own trails. So everybody who
should have had an event hears of it, and fetches it past the tree if it is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engines.epidemic.messages import Entry
from unisono.engines.epidemic.numbers import Packed, pack

ASK_MAX = 8  # times that a neighbour is asked for the same step
FIRST_MAX = 16  # steps that can be missed before the first one that is heard of


class Trail:
    """The numbered steps to one neighbour, and what the last of them were."""

    def __init__(self, id: int, beacons: int, steps_max: int) -> None:
        self.id = id
        self.beacons = beacons
        self.steps_max = steps_max
        self.last = 0
        self.beacons_left = 0
        self._log: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._log)

    def add(self, entry: Entry) -> int:
        """The number of the next step."""
        self.last += 1
        self._log[self.last] = entry
        if len(self._log) > self.steps_max:
            del self._log[next(iter(self._log))]
        self.beacons_left = self.beacons
        return self.last

    def recall(self, steps: Iterable[int]) -> list[tuple[int, Entry]]:
        """What steps were, as far as that is still known."""
        return [(step, self._log[step]) for step in steps if step in self._log]

    def picture(self) -> tuple[object, ...]:
        """Equal for trails that go on alike."""
        return (self.id, self.last, self.beacons_left, tuple(self._log.items()))


class Tracker:
    """The steps that have come from one neighbour, and those that have not."""

    def __init__(self, steps_max: int) -> None:
        self.steps_max = steps_max
        self.id: int | None = None
        self.highest = 0
        self._missed: dict[int, int] = {}  # step -> how often it was asked for

    def __len__(self) -> int:
        return len(self._missed)

    def reach(self, trail: int, step: int, *, is_here: bool = True) -> None:
        """A step has come, or is known to have been made; of a trail that is new to us a few steps before."""
        if trail != self.id:
            self.id, self.highest = trail, max(0, step - FIRST_MAX)
            self._missed.clear()
        if step > self.highest:
            first = max(self.highest + 1, step - self.steps_max + 1)
            self._missed |= dict.fromkeys(range(first, step + (not is_here)), 0)
            self.highest = step
            while len(self._missed) > self.steps_max:
                del self._missed[next(iter(self._missed))]
        elif is_here:
            self._missed.pop(step, None)

    def ask(self, limit: int) -> Packed:
        """Steps to ask for now; each is asked for so often, and then let go."""
        chosen = [step for step, _ in zip(self._missed, range(limit), strict=False)]
        for step in chosen:
            self._missed[step] += 1
            if self._missed[step] >= ASK_MAX:
                del self._missed[step]
        return pack(chosen)

    def picture(self) -> tuple[object, ...]:
        """Equal for trackers that know the same."""
        return (self.id, self.highest, tuple(self._missed.items()))
