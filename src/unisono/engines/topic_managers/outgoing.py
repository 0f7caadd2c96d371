"""What a publisher has sent and has no answer for: kept by what was sent at once, not by event.

Mostly all that was sent at once is answered at once, and then nothing is done for each event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import NamedTuple

from unisono.model.frames import Publication

_n = attrgetter("n")


class Sent:
    """A bundle that was sent to a node, while some of it has no answer; its events are in order."""

    __slots__ = ("_at", "answered", "counts", "lowest", "publications", "serial", "to")

    def __init__(
        self, serial: int, to: str, publications: list[Publication], counts: Mapping[str, int]
    ) -> None:
        self.serial = serial
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
        twin = Sent(self.serial, self.to, self.publications, self.counts)
        twin.answered, twin.lowest, twin._at = set(self.answered), self.lowest, self._at
        return twin


class Alone(NamedTuple):
    """An event that was sent to a node by itself."""

    to: str
    publication: Publication


class Outgoing:
    """Everything that was sent and has no answer."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}  # bundles, by serial
        self.alone: dict[int, Alone] = {}  # single events, by number
        self.load: dict[str, int] = {}  # topic -> how many of its events have no answer
        self.busy: dict[str, int] = {}  # node -> how often something was sent that has no answer
        self.at: dict[str, int] = {}  # node -> how many events that were
        self.count = 0  # events

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Publication]:
        """Events that have no answer, in order."""
        alone = (one.publication for one in self.alone.values())
        return iter(sorted((*alone, *(p for sent in self.sent.values() for p in sent.left)), key=_n))

    def __contains__(self, n: int) -> bool:
        return n in self.alone or self._serial(n) is not None

    @property
    def lowest(self) -> int:
        """The first event that has no answer; 0 if all have one."""
        lowest = min(self.alone, default=0)
        for sent in self.sent.values():
            if sent.lowest < lowest or not lowest:
                lowest = sent.lowest
        return lowest

    def find(self, n: int) -> Publication | None:
        """The event with this number, if it has no answer."""
        alone = self.alone.get(n)
        if alone is not None:
            return alone.publication
        serial = self._serial(n)
        return None if serial is None else self.sent[serial].find(n)

    def _serial(self, n: int) -> int | None:
        """With which bundle an event was sent that has no answer."""
        return next((serial for serial, sent in self.sent.items() if sent.find(n) is not None), None)

    def newest(self, topic: str) -> int:
        """The last event of a topic that has no answer; 0 if there is none."""
        return max((publication.n for publication in self if publication.topic == topic), default=0)

    def again(
        self, topics: Container[str] | None, may_go: Callable[[Sent], bool]
    ) -> list[Sent | Publication]:
        """What has no answer, on these topics, in order: bundles as they were where nothing lies between, if they may go."""
        events = [p for p in self if topics is None or p.topic in topics]
        whole: list[tuple[int, Sent]] = []
        for sent in self.sent.values():
            at = bisect_left(events, sent.publications[0].n, key=_n)
            if events[at : at + len(sent.publications)] == sent.publications and may_go(sent):
                whole.append((at, sent))
        units: list[Sent | Publication] = [*events]
        for at, sent in sorted(whole, key=itemgetter(0), reverse=True):
            units[at : at + len(sent.publications)] = [sent]
        return units

    def sent_to(self) -> Iterator[tuple[str, str]]:
        """Where everything was sent that has no answer, and on which topic."""
        yield from ((one.to, one.publication.topic) for one in self.alone.values())
        yield from ((sent.to, p.topic) for sent in self.sent.values() for p in sent.left)

    def add(self, sent: Sent) -> None:
        """A bundle is sent."""
        self.sent[sent.serial] = sent
        self._burden(sent.to, len(sent.publications))
        load = self.load
        for topic, count in sent.counts.items():
            load[topic] = load.get(topic, 0) + count

    def add_alone(self, to: str, publication: Publication) -> None:
        """An event is sent by itself."""
        self.alone[publication.n] = Alone(to, publication)
        self._burden(to, 1)
        self.load[publication.topic] = self.load.get(publication.topic, 0) + 1

    def drop(self, n: int) -> Publication | None:
        """An event has its answer; returns it, unless it had it before."""
        alone = self.alone.pop(n, None)
        if alone is not None:
            self._answered(alone.to)
            self._relieve(alone.to, alone.publication.topic, 1)
            return alone.publication
        serial = self._serial(n)
        if serial is None:
            return None
        sent = self.sent[serial]
        publication = sent.find(n)
        assert publication is not None
        if len(sent.answered) + 1 == len(sent.publications):
            del self.sent[serial]
            self._answered(sent.to)
        else:
            sent.answer(n)
        self._relieve(sent.to, publication.topic, 1)
        return publication

    def drop_all(self, serial: int) -> None:
        """All of a bundle has its answer."""
        sent = self.sent.pop(serial)
        left = sent.counts if not sent.answered else Counter(publication.topic for publication in sent.left)
        self._answered(sent.to)
        for topic, count in left.items():
            self._relieve(sent.to, topic, count)

    def _burden(self, to: str, count: int) -> None:
        """So many events are sent to a node at once."""
        self.busy[to] = self.busy.get(to, 0) + 1
        self.at[to] = self.at.get(to, 0) + count
        self.count += count

    def _answered(self, to: str) -> None:
        """All that was sent to a node at once has its answer."""
        self.busy[to] -= 1
        if not self.busy[to]:
            del self.busy[to]

    def _relieve(self, to: str, topic: str, count: int) -> None:
        """Some events of a topic, which were sent to this node, are not out any more."""
        self.count -= count
        self.at[to] -= count
        if not self.at[to]:
            del self.at[to]
        self.load[topic] -= count
        if not self.load[topic]:
            del self.load[topic]

    def check(self) -> None:
        """What is out is counted, and known by its number."""
        left = list(self)
        assert self.count == len(left) == sum(self.load.values())
        assert sum(self.busy.values()) == len(self.sent) + len(self.alone)
        assert self.at == Counter(to for to, _ in self.sent_to())
        assert all(self.find(publication.n) is publication for publication in left)
        assert self.lowest == min((publication.n for publication in left), default=0)

    def copy(self) -> Outgoing:
        """An independent twin."""
        twin = Outgoing()
        twin.sent = {serial: sent.copy() for serial, sent in self.sent.items()}
        twin.alone, twin.load, twin.count = dict(self.alone), dict(self.load), self.count
        twin.busy, twin.at = dict(self.busy), dict(self.at)
        return twin

    def state(self) -> Hashable:
        """Equal for what would be answered alike."""
        alone = tuple((n, one.to) for n, one in self.alone.items())
        bundles = tuple(
            (serial, sent.to, tuple(p.n for p in sent.left)) for serial, sent in self.sent.items()
        )
        return alone, bundles
