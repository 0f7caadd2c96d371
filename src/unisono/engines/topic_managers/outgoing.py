"""What a publisher has sent and has no answer for: kept by what was sent at once, not by event.

Mostly all that was sent at once is answered at once, and then nothing is done for each event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping
from operator import attrgetter

from unisono.model.frames import Publication

_n = attrgetter("n")
_lowest = attrgetter("lowest")


class Sent:
    """What was sent to a node at once, while some of it has no answer; its events are in order."""

    __slots__ = ("_at", "answered", "counts", "lowest", "publications", "to")

    def __init__(self, to: str, publications: list[Publication], counts: Mapping[str, int]) -> None:
        self.to = to
        self.publications = publications
        self.counts = counts  # events of each topic
        self.answered: set[int] = set()  # those that were answered one by one
        self.lowest = publications[0].n  # the first that has no answer
        self._at = 0  # where it is

    def find(self, n: int) -> Publication | None:
        """The event with this number, unless it has its answer."""
        at = bisect_left(self.publications, n, key=_n)
        if at == len(self.publications) or self.publications[at].n != n or n in self.answered:
            return None
        return self.publications[at]

    def answer(self, n: int) -> None:
        """One of several has its answer, and not all have."""
        self.answered.add(n)
        while self.lowest in self.answered:
            self._at += 1
            self.lowest = self.publications[self._at].n

    @property
    def left(self) -> list[Publication]:
        """Events that have no answer."""
        if not self.answered:
            return self.publications
        return [publication for publication in self.publications if publication.n not in self.answered]

    def copy(self) -> Sent:
        """An independent twin."""
        twin = Sent(self.to, self.publications, self.counts)
        twin.answered, twin.lowest, twin._at = set(self.answered), self.lowest, self._at
        return twin


class Outgoing:
    """Everything that was sent and has no answer."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}  # by serial
        self.load: dict[str, int] = {}  # topic -> how many of its events have no answer
        self.busy: dict[str, int] = {}  # node -> how often something was sent that has no answer
        self._count = 0
        self._alone: dict[int, int] = {}  # events that were sent one by one -> serial

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Publication]:
        """Events that have no answer, in order."""
        return iter(sorted((p for sent in self.sent.values() for p in sent.left), key=_n))

    def __contains__(self, n: int) -> bool:
        return self.find(n) is not None

    @property
    def lowest(self) -> int:
        """The first event that has no answer; 0 if all have one."""
        return min(map(_lowest, self.sent.values()), default=0)

    def find(self, n: int) -> Publication | None:
        """The event with this number, if it has no answer."""
        serial = self._serial(n)
        return None if serial is None else self.sent[serial].find(n)

    def _serial(self, n: int) -> int | None:
        """With what an event was sent that has no answer."""
        serial = self._alone.get(n)
        if serial is None and len(self._alone) < len(self.sent):
            return next((serial for serial, sent in self.sent.items() if sent.find(n) is not None), None)
        return serial

    def newest(self, topic: str) -> int:
        """The last event of a topic that has no answer; 0 if there is none."""
        return max((p.n for sent in self.sent.values() for p in sent.left if p.topic == topic), default=0)

    def add(self, serial: int, sent: Sent) -> None:
        """Something is sent."""
        self.sent[serial] = sent
        self.busy[sent.to] = self.busy.get(sent.to, 0) + 1
        self._count += len(sent.publications)
        if len(sent.publications) == 1:
            self._alone[sent.lowest] = serial
        load = self.load
        for topic, count in sent.counts.items():
            load[topic] = load.get(topic, 0) + count

    def drop(self, n: int) -> Publication | None:
        """An event has its answer; returns it, unless it had it before."""
        serial = self._serial(n)
        if serial is None:
            return None
        sent = self.sent[serial]
        publication = sent.find(n)
        assert publication is not None
        if len(sent.answered) + 1 == len(sent.publications):
            self._settle(serial, sent)
        else:
            sent.answer(n)
        self._count -= 1
        self._relieve(publication.topic, 1)
        return publication

    def drop_all(self, serial: int) -> None:
        """All that was sent at once has its answer."""
        sent = self.sent[serial]
        self._settle(serial, sent)
        if sent.answered:
            for publication in sent.left:
                self._relieve(publication.topic, 1)
        else:
            for topic, count in sent.counts.items():
                self._relieve(topic, count)
        self._count -= len(sent.publications) - len(sent.answered)

    def _settle(self, serial: int, sent: Sent) -> None:
        del self.sent[serial]
        if len(sent.publications) == 1:
            del self._alone[sent.publications[0].n]
        self.busy[sent.to] -= 1
        if not self.busy[sent.to]:
            del self.busy[sent.to]

    def _relieve(self, topic: str, count: int) -> None:
        self.load[topic] -= count
        if not self.load[topic]:
            del self.load[topic]

    def check(self) -> None:
        """What is out is counted, and known by its number."""
        left = [publication for sent in self.sent.values() for publication in sent.left]
        assert self._count == len(left) == sum(self.load.values())
        assert sum(self.busy.values()) == len(self.sent)
        assert all(self.find(publication.n) is publication for publication in left)
        assert self.lowest == min((publication.n for publication in left), default=0)

    def copy(self) -> Outgoing:
        """An independent twin."""
        twin = Outgoing()
        twin.sent = {serial: sent.copy() for serial, sent in self.sent.items()}
        twin.load, twin.busy, twin._alone = dict(self.load), dict(self.busy), dict(self._alone)
        twin._count = self._count
        return twin

    def state(self) -> Hashable:
        """Equal for what would be answered alike."""
        return tuple((serial, sent.to, tuple(p.n for p in sent.left)) for serial, sent in self.sent.items())
