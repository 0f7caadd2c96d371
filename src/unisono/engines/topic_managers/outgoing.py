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


class First(NamedTuple):
    """The first event of a topic that has no answer, and how many of the topic were sent before it."""

    n: int
    before: int


class Sent:
    """A bundle that was sent to a node, while some of it has no answer; its events are in order."""

    __slots__ = ("_at", "answered", "before", "by_topic", "lowest", "publications", "serial", "to")

    def __init__(
        self,
        serial: int,
        to: str,
        publications: list[Publication],
        by_topic: Mapping[str, list[Publication]],
    ) -> None:
        self.serial = serial
        self.to = to
        self.publications = publications
        self.by_topic = by_topic
        self.before: Mapping[str, int] = {}  # how many of each topic were sent before
        self.answered: set[int] = set()  # those that were answered one by one, or are looked after elsewhere
        self.lowest = publications[0].n  # the first that has no answer
        self._at = 0  # where it is

    @property
    def counts(self) -> dict[str, int]:
        """Events of each topic."""
        return {topic: len(events) for topic, events in self.by_topic.items()}

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

    def first(self, topic: str) -> First | None:
        """The first event of a topic that has no answer; None if all have one."""
        events, before = self.by_topic.get(topic, ()), self.before.get(topic, 0)
        return next((First(p.n, before + i) for i, p in enumerate(events) if p.n not in self.answered), None)

    def newest(self, topic: str) -> int:
        """The last event of a topic that has no answer; 0 if all have one."""
        return next((p.n for p in reversed(self.by_topic.get(topic, ())) if p.n not in self.answered), 0)

    def copy(self) -> Sent:
        """An independent twin."""
        twin = Sent(self.serial, self.to, self.publications, self.by_topic)
        twin.before, twin.answered, twin.lowest, twin._at = (
            self.before,
            set(self.answered),
            self.lowest,
            self._at,
        )
        return twin


class Alone(NamedTuple):
    """An event that was sent to a node by itself."""

    to: str
    publication: Publication
    before: int  # how many of its topic were sent before


class Outgoing:
    """Everything that was sent and has no answer."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}  # bundles, by serial
        self.alone: dict[int, Alone] = {}  # single events, by number; those of a topic are in order
        self.load: dict[str, int] = {}  # topic -> how many of its events have no answer
        self.busy: dict[str, int] = {}  # node -> how often something was sent that has no answer
        self.at: dict[str, int] = {}  # node -> how many events that were
        self.count = 0  # events
        self._passed: dict[str, int] = {}  # topic -> how many were sent since it had none without an answer

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

    # What is out of a topic.

    def _first(self, topic: str) -> First | None:
        found: First | None = None
        for sent in self.sent.values():
            if (found := sent.first(topic)) is not None:
                break
        for n, one in self.alone.items():
            if one.publication.topic == topic:
                return First(n, one.before) if found is None or n < found.n else found
        return found

    def oldest(self, topic: str) -> int:
        """The first event of a topic that has no answer; 0 if there is none."""
        found = self._first(topic) if topic in self.load else None
        return 0 if found is None else found.n

    def newest(self, topic: str) -> int:
        """The last event of a topic that has no answer; 0 if there is none."""
        if topic not in self.load:
            return 0
        alone = (n for n, one in reversed(self.alone.items()) if one.publication.topic == topic)
        bundled = (newest for sent in reversed(self.sent.values()) if (newest := sent.newest(topic)))
        return max(next(alone, 0), next(bundled, 0))

    def span(self, topic: str) -> int:
        """How many events of a topic were sent from the first on that has no answer, whatever has become of the others."""
        found = self._first(topic) if topic in self.load else None
        return 0 if found is None else self._passed[topic] - found.before

    # Sending.

    def add(self, sent: Sent) -> None:
        """A bundle is sent."""
        passed, load = self._passed, self.load
        self.sent[sent.serial] = sent
        self._burden(sent.to, 1, len(sent.publications))
        sent.before = {topic: passed.get(topic, 0) for topic in sent.by_topic}
        for topic, events in sent.by_topic.items():
            load[topic] = load.get(topic, 0) + len(events)
            passed[topic] = passed.get(topic, 0) + len(events)

    def add_alone(self, to: str, publication: Publication) -> None:
        """An event is sent by itself."""
        topic = publication.topic
        before = self._passed.get(topic, 0)
        self.alone[publication.n] = Alone(to, publication, before)
        self._burden(to, 1, 1)
        self.load[topic] = self.load.get(topic, 0) + 1
        self._passed[topic] = before + 1

    def again(
        self, topics: Container[str] | None, may_go: Callable[[Sent], bool]
    ) -> list[Sent | Publication]:
        """What has no answer, on these topics, in order: bundles as they were where nothing lies between, if they may go."""
        events = [p for p in self if topics is None or p.topic in topics]
        whole: list[tuple[int, Sent]] = []
        for sent in self.sent.values():
            if sent.answered:
                continue
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

    def move(self, unit: Sent | Publication, to: str) -> None:
        """It is sent to this node now. Of a bundle that does not go as it was, the event is looked after by itself."""
        if isinstance(unit, Sent):
            self._burden(unit.to, -1, -len(unit.left))
            self._burden(to, 1, len(unit.left))
            unit.to = to
        elif (one := self.alone.get(unit.n)) is not None:
            self._burden(one.to, -1, -1)
            self._burden(to, 1, 1)
            self.alone[unit.n] = one._replace(to=to)
        elif (serial := self._serial(unit.n)) is not None and self.sent[serial].to != to:
            sent = self.sent[serial]
            before = sent.before[unit.topic] + bisect_left(sent.by_topic[unit.topic], unit.n, key=_n)
            self._leave(sent, unit.n)
            self.alone = dict(sorted((*self.alone.items(), (unit.n, Alone(to, unit, before)))))
            self._burden(to, 1, 1)

    # Answers.

    def drop(self, n: int) -> Publication | None:
        """An event has its answer; returns it, unless it had it before."""
        alone = self.alone.pop(n, None)
        if alone is not None:
            self._burden(alone.to, -1, -1)
            self._relieve(alone.publication.topic, 1)
            return alone.publication
        serial = self._serial(n)
        if serial is None:
            return None
        sent = self.sent[serial]
        publication = sent.find(n)
        assert publication is not None
        self._leave(sent, n)
        self._relieve(publication.topic, 1)
        return publication

    def drop_all(self, serial: int) -> None:
        """All of a bundle has its answer."""
        sent = self.sent.pop(serial)
        for n in sent.answered & self.alone.keys():
            self.drop(n)
        left = sent.counts if not sent.answered else Counter(publication.topic for publication in sent.left)
        self._burden(sent.to, -1, -sum(left.values()))
        for topic, count in left.items():
            self._relieve(topic, count)

    def _leave(self, sent: Sent, n: int) -> None:
        """An event is not out with its bundle any more."""
        is_last = len(sent.answered) + 1 == len(sent.publications)
        if is_last:
            del self.sent[sent.serial]
        else:
            sent.answer(n)
        self._burden(sent.to, -1 if is_last else 0, -1)

    def _burden(self, to: str, sends: int, events: int) -> None:
        """A node has so much more, or less, to answer."""
        self.busy[to] = self.busy.get(to, 0) + sends
        self.at[to] = self.at.get(to, 0) + events
        self.count += events
        if not self.busy[to]:
            del self.busy[to], self.at[to]

    def _relieve(self, topic: str, count: int) -> None:
        """Some events of a topic are not out any more."""
        self.load[topic] -= count
        if not self.load[topic]:
            del self.load[topic], self._passed[topic]

    # For those who look on.

    def check(self) -> None:
        """What is out is counted, and known by its number."""
        left = list(self)
        assert self.count == len(left) == sum(self.load.values())
        assert sum(self.busy.values()) == len(self.sent) + len(self.alone)
        assert self.at == Counter(to for to, _ in self.sent_to())
        assert all(self.find(publication.n) is publication for publication in left)
        assert self.lowest == min((publication.n for publication in left), default=0)
        for topic in self.load:
            alone = [n for n, one in self.alone.items() if one.publication.topic == topic]
            assert alone == sorted(alone)
        assert self._passed.keys() == self.load.keys()
        assert all(self.span(topic) >= count for topic, count in self.load.items())

    def copy(self) -> Outgoing:
        """An independent twin."""
        twin = Outgoing()
        twin.sent = {serial: sent.copy() for serial, sent in self.sent.items()}
        twin.alone, twin.load, twin.count = dict(self.alone), dict(self.load), self.count
        twin.busy, twin.at, twin._passed = dict(self.busy), dict(self.at), dict(self._passed)
        return twin

    def state(self) -> Hashable:
        """Equal for what would be answered alike."""
        alone = tuple((n, one.to) for n, one in self.alone.items())
        bundles = tuple(
            (serial, sent.to, tuple(p.n for p in sent.left)) for serial, sent in self.sent.items()
        )
        return alone, bundles, tuple((topic, self.span(topic)) for topic in self.load)
