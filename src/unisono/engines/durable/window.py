"""Which events one session may hand to its application, has handed out, and has acknowledged.

Events are counted from where the place began. A session hands out only what the saved place says may have been
handed out, so it asks for more ahead of need; after a crash everything between the last acknowledged event and that
mark comes with `redelivered`, and nothing else does. How far ahead it asks follows how fast events are taken.
"""

from __future__ import annotations

from unisono.engines.inputs import Keep
from unisono.model.places import Place

SIZE_MIN = 16
SIZE_MAX = 1024
UNACKNOWLEDGED_MAX = 65536  # events the application may have taken and not acknowledged


class Window:
    """One session's count of the events of its place."""

    def __init__(
        self, place: Place, unacknowledged_max: int = UNACKNOWLEDGED_MAX, size_min: int = SIZE_MIN
    ) -> None:
        self.epoch = place.epoch
        self.clock = dict(place.clock)
        self.acknowledged = place.acknowledged
        self.given = place.acknowledged  # handed to the application
        self.granted = place.handed  # may be handed to it
        self.seen = place.handed  # up to here they may have been handed out before
        self.size = self._size_min = size_min
        self._limit = unacknowledged_max
        self._asked = place.handed  # the mark that was asked for last
        self._saved = place.handed  # the mark that is saved
        self._given_then = self.given
        self._pending: dict[tuple[str, int], tuple[int, int]] = {}  # topic, number -> which event, its epoch
        self._unwanted: set[int] = set()  # which of these nobody was handed

    @property
    def room(self) -> int:
        """How many more events may be handed out now."""
        return max(0, min(self.granted, self.acknowledged + self._limit) - self.given)

    @property
    def is_low(self) -> bool:
        """Whether it is time to ask for more, and nothing was asked for that is not saved yet."""
        return self.granted - self.given < self.size // 2 and not self.is_asking

    @property
    def is_asking(self) -> bool:
        """Whether what was asked for last is not saved yet."""
        return self._saved != self._asked

    def begin(self, epoch: int, clock: dict[str, int]) -> None:
        """The place begins here: nothing was handed out yet."""
        self.epoch, self.clock = epoch, dict(clock)

    def meet(self, floors: dict[str, int]) -> None:
        """Topics that are new to the place begin at these numbers."""
        for topic, floor in floors.items():
            self.clock.setdefault(topic, floor)

    def pass_over(self, topic: str, number: int) -> None:
        """Everything up to this number is not kept any more: nobody will be handed it."""
        self.clock[topic] = max(number, self.clock.get(topic, 0))

    def give(self, topic: str, number: int, epoch: int, *, is_wanted: bool = True) -> bool:
        """Hand out the next event; returns whether it may have been handed out before.

        One that is not wanted is counted, and dealt with as soon as all before it are.
        """
        assert self.room > 0, "more than was granted"
        self.given += 1
        self._pending[topic, number] = (self.given, epoch)
        if not is_wanted:
            self._unwanted.add(self.given)
            self.acknowledge(self.acknowledged)
        return self.given <= self.seen

    def find(self, topic: str, number: int) -> int | None:
        """Which event this is, if it was handed out and is not acknowledged; 0 if it was long ago."""
        if (topic, number) in self._pending:
            return self._pending[topic, number][0]
        return 0 if number <= self.clock.get(topic, 0) else None

    def acknowledge(self, up_to: int) -> None:
        """Everything up to this event has been dealt with."""
        while self._pending:
            (topic, number), (count, epoch) = next(iter(self._pending.items()))
            if self.acknowledged >= up_to and count not in self._unwanted:
                break
            del self._pending[topic, number]
            self._unwanted.discard(count)
            self.acknowledged = count
            self.clock[topic] = max(number, self.clock.get(topic, 0))
            self.epoch = max(self.epoch, epoch)

    def ask(self) -> Keep:
        """What is to be saved now; nothing beyond its mark is handed out from here on."""
        used, self._given_then = self.given - self._given_then, self.given
        self.size = min(SIZE_MAX, max(self._size_min, self.size // 2, 4 * used))
        self._asked = max(self.given + self.size, self.seen)
        self.granted = min(self.granted, self._asked)
        return Keep(self.epoch, dict(self.clock), self.acknowledged, self._asked)

    def last(self) -> Keep:
        """What is to be saved when nothing is handed out any more: the mark is where it has to be."""
        self.granted = self.given
        return Keep(self.epoch, dict(self.clock), self.acknowledged, max(self.given, self.seen), is_last=True)

    def grant(self, place: Place) -> None:
        """A place has been saved."""
        self._saved = place.handed
        self.granted = max(self.given, min(place.handed, self._asked))
