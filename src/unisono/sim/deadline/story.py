"""What happened in a world of deadline-causal order, told by who watches it and not by the engines.

The watcher knows what caused what: everything a process delivered or published before. A broker's events follow all
it sent and delivered, and all that whoever published had published and delivered.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from unisono.engines.deadline_causal.settings import CausalSettings


class Told(msgspec.Struct):
    """One event."""

    id: str
    topic: str
    publisher: str
    published_at: float
    deadline_at: float  # by the publisher's clock, as a true time
    causes: set[str]
    last: int | None = None  # known once it has its stamp
    said_at: float = 0.0  # when it was published, by the publisher's clock


class Line(NamedTuple):
    """One thing that happened to an event at a process."""

    kind: str  # arrived, delivered, discarded
    id: str
    at: float  # true time
    round: int  # by the process's clock
    reason: str = ""


class Diary(msgspec.Struct):
    """Everything that happened to one process."""

    name: str
    reserve: int
    lines: list[Line] = []
    joined: list[tuple[float, str]] = []
    left: list[tuple[float, str]] = []
    slept: list[tuple[float, float]] = []
    causes: set[str] = set()  # of what it publishes next
    died_at: float | None = None
    patience_s: float | None = None  # for how long events are of use here


class Story:
    """All events and diaries of a world."""

    def __init__(self, settings: CausalSettings | None = None) -> None:
        self.settings = settings or CausalSettings()
        self.events: dict[str, Told] = {}
        self.diaries: dict[str, Diary] = {}

    def published(self, who: str, id: str, topic: str, at: float, deadline_at: float) -> None:
        """An application published."""
        diary = self.diaries[who]
        self.events[id] = Told(id, topic, who, at, deadline_at, set(diary.causes))
        diary.causes.add(id)

    def stamped(self, broker: str, id: str, last: int, said_at: float = 0.0) -> None:
        """A broker gave it its stamp."""
        event, diary = self.events[id], self.diaries[broker]
        event.last, event.said_at = last, said_at
        event.causes |= diary.causes - {id}
        diary.causes |= event.causes | {id}

    def delivered(self, who: str, id: str, at: float, round: int) -> None:
        """An event was delivered to a process."""
        event, diary = self.events[id], self.diaries[who]
        diary.causes |= event.causes | {id}
        diary.lines.append(Line("delivered", id, at, round))

    def last_at(self, diary: Diary, id: str) -> int | None:
        """The last round in which an event is of use to a process."""
        event = self.events[id]
        if event.last is None or diary.patience_s is None:
            return event.last
        return min(event.last, self.settings.last_round(event.said_at + diary.patience_s))

    def precedes(self, cause: str, effect: str) -> bool:
        """Whether one may have to wait for the other: also where brokers alone have seen both.

        A publisher's next event follows what its broker had seen when the former one was sent, though that publisher
        has not seen it. Nobody is promised that order; but who keeps it has a reason to.
        """
        unread, seen = [effect], {effect}
        while unread:
            new = self.events[unread.pop()].causes - seen
            if cause in new:
                return True
            seen |= new
            unread += new
        return False

    def discarded(self, who: str, id: str, at: float, round: int, reason: str) -> None:
        """An event was dropped by a process."""
        self.diaries[who].lines.append(Line("discarded", id, at, round, reason))
