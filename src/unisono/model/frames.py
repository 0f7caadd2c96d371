"""What travels: events on their way, and the messages of the ordering protocol.

A *publication* is an event as its publisher gave it. A *stamped* event is a publication with its stamp. A
*run* is many stamped events of one node at once, with one base clock for all of them instead of a stamp each:
the stamps can be computed from it, and mostly nobody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import msgspec

from unisono.model.bundles import Bundle, SequencedBundle, StampedBundle
from unisono.model.ids import EventId
from unisono.model.places import Claim, Clear, Placed, Save, Survey, Surveyed

RAW = 0  # the body is what the user gave, bytes
PACKED = 1  # the body is MessagePack of what the user gave

Entries: TypeAlias = dict[str, int]
"""A stamp: the number of the event on its own topic, and the numbers of other topics it follows."""


class Publication(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event as it was published, before it has a stamp."""

    publisher: str
    incarnation: int
    n: int
    topic: str
    body: bytes = b""
    content: int = RAW
    published_at: float = 0.0
    nth: int = 0  # its place among this publisher's events of the topic, from 1
    key: str | None = None  # the id the user gave, for safe retries
    headers: dict[str, str] | None = None
    deadline: float | None = None  # until when it is of use, seconds since 1970 by the publisher's clock

    @property
    def id(self) -> EventId:
        """Who published it, in which life, and which one it was."""
        return EventId(self.publisher, self.incarnation, self.n)


class Stamped(msgspec.Struct, frozen=True, array_like=True, tag="stamped"):
    """A publication with its stamp, as the event notification service carries it."""

    publication: Publication
    epoch: int
    entries: Entries

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        return self.publication.topic

    @property
    def number(self) -> int:
        """Its place on its own topic, from 1."""
        return self.entries[self.publication.topic]


class Batch:
    """Many publications at once, in the order they were published; nobody has numbered them."""

    __slots__ = ("_by_topic", "_publications", "_selected")

    def __init__(self, publications: list[Publication] | None) -> None:
        self._publications = publications
        self._by_topic: dict[str, list[int]] | None = None
        self._selected: dict[frozenset[str], list[int]] = {}

    @property
    def publications(self) -> list[Publication]:
        """The events; a batch that came as columns makes them when somebody asks."""
        if self._publications is None:
            self._publications = self._make()
        return self._publications

    def _make(self) -> list[Publication]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.publications)

    def topic(self, place: int) -> str:
        """The topic of the event at this place."""
        return self.publications[place].topic

    @property
    def is_raw(self) -> bool:
        """Whether all payloads are what users gave, bytes."""
        return not any([publication.content for publication in self.publications])  # noqa: C419 (faster)

    @property
    def bodies(self) -> Sequence[bytes]:
        """The payloads."""
        return [publication.body for publication in self.publications]

    @property
    def by_topic(self) -> dict[str, list[int]]:
        """Where in the batch the events of each topic are."""
        if self._by_topic is None:
            places: dict[str, list[int]] = {}
            for place in range(len(self)):
                places.setdefault(self.topic(place), []).append(place)
            self._by_topic = places
        return self._by_topic

    def places(self, topics: frozenset[str]) -> list[int]:
        """Where in the batch the events of these topics are, in order; equal topics get the same list."""
        places = self._selected.get(topics)
        if places is None:
            mine = [found for topic in topics if (found := self.by_topic.get(topic))]
            places = mine[0] if len(mine) == 1 else sorted(chain.from_iterable(mine))
            self._selected[topics] = places
        return places


class Run(Batch):
    """Consecutive events of one node: all it sequenced between the clocks `base` and `base + counts`.

    `index` says where in `base` a topic is; `groups` which entries the stamp of a topic has. Whoever has
    delivered everything up to `base` on its own topics may deliver its share of the run in the run's order:
    each event is then the next of its topic and everything its stamp names has been delivered.
    """

    __slots__ = ("_entries", "base", "counts", "epoch", "groups", "index")

    def __init__(
        self,
        epoch: int,
        index: Mapping[str, int],
        base: list[int],
        groups: Mapping[str, tuple[str, ...]],
        publications: list[Publication] | None,
        counts: Mapping[str, int],
    ) -> None:
        super().__init__(publications)
        self.epoch = epoch
        self.index = index
        self.base = base
        self.groups = groups
        self.counts = counts
        self._entries: list[Entries] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its events and its clock are all that their stamps depend on."""
        return True

    def entries(self, place: int) -> Entries:
        """The stamp of the event at this place."""
        if self._entries is None:
            clock = {topic: self.base[i] for topic, i in self.index.items() if i < len(self.base)}
            self._entries = []
            for publication in self.publications:
                clock[publication.topic] += 1
                self._entries.append({x: clock[x] for x in self.groups[publication.topic]})
        return self._entries[place]

    def stamped(self, place: int) -> Stamped:
        """The event at this place with a stamp of its own."""
        return Stamped(self.publications[place], self.epoch, self.entries(place))


def count_topics(publications: Iterable[Publication]) -> Counter[str]:
    """How many events there are of each topic."""
    return Counter([p.topic for p in publications])


# Messages on links, from one process to another.


class Create(msgspec.Struct, frozen=True, array_like=True, tag="create"):
    """Publisher to the topic's manager: number this. Everything below `acknowledged` may be forgotten.

    `after` is the publisher's event before it on the topic that has no answer yet, or 0: a manager that does not
    know that one, because it died with another, must not number this one first.
    """

    publication: Publication
    acknowledged: int = 0
    after: int = 0


class Fill(msgspec.Struct, frozen=True, array_like=True, tag="fill"):
    """Manager to the next manager of the path: add your entry if you are in `need`, then pass it on."""

    publication: Publication
    epoch: int
    entries: Entries
    need: tuple[str, ...]
    rest: tuple[str, ...]  # topics whose managers come after you


class Sequenced(msgspec.Struct, frozen=True, array_like=True, tag="sequenced"):
    """Last manager to the publisher: your event has its place in the order."""

    topic: str
    id: EventId
    epoch: int
    entries: Entries
    repeated: bool = False  # it is the place of an earlier event with the same key


class Completed(msgspec.Struct, frozen=True, array_like=True, tag="completed"):
    """Last manager to the publisher, return mode: here is the stamp, publish it yourself."""

    topic: str
    id: EventId
    epoch: int
    entries: Entries


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """Last manager to the topic's own: the event has left, its buffers can go."""

    event: Stamped


class Registration(msgspec.Struct, frozen=True, array_like=True):
    """What a subscriber held at its `version`; a later version replaces an earlier one. Its topics may be patterns."""

    subscriber: str
    version: int
    topics: tuple[str, ...]  # sorted
    weight: int = 1


class Join(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """Climbs like an event, takes no number: register me, and tell how far each topic is."""

    registration: Registration
    new: tuple[str, ...]  # the topics being joined; the registration names the old ones too
    epoch: int
    reached: Entries
    rest: tuple[str, ...]


class Joined(msgspec.Struct, frozen=True, array_like=True, tag="joined"):
    """Last manager to the subscriber: from these numbers on you are owed everything."""

    version: int
    new: tuple[str, ...]
    epoch: int
    reached: Entries


class EpochNotice(msgspec.Struct, frozen=True, array_like=True, tag="epoch"):
    """On every topic: an epoch has begun. Each topic went up to its number before it, without its voids."""

    epoch: int
    numbers: Entries
    voids: dict[str, tuple[tuple[int, int], ...]] = {}  # topic -> ranges of numbers that do not exist
    gone: tuple[str, ...] = ()  # subscribers whose leases ran out: nothing is ordered for them any more


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="nack"):
    """Subscriber to whoever keeps a topic's ring: I have not got these numbers, nor epochs after mine."""

    topic: str
    subscriber: str
    numbers: tuple[int, ...]
    epoch: int = 0


class Repair(msgspec.Struct, frozen=True, array_like=True, tag="repair"):
    """The answer: those still in the ring, the numbers that are gone for ever, and the newest number."""

    topic: str
    events: tuple[Stamped, ...]
    gone: tuple[int, ...]
    newest: int
    epochs: tuple[EpochNotice, ...] = ()


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat"):
    """On the topic, after a silence: this is the newest number, in case you missed the tail."""

    topic: str
    epoch: int
    newest: int


class PeerAsk(msgspec.Struct, frozen=True, array_like=True, tag="peer-ask"):
    """Subscriber to the other subscribers of a topic: no node has these numbers any more; have you?"""

    topic: str
    subscriber: str
    numbers: tuple[int, ...]


class PeerTell(msgspec.Struct, frozen=True, array_like=True, tag="peer-tell"):
    """The answer, to all of them: I have these."""

    topic: str
    events: tuple[Stamped, ...]


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="prepare"):
    """Whoever plans an epoch to every node: take no new events, let those under way finish, tell me."""

    epoch: int
    planner: str


class Prepared(msgspec.Struct, frozen=True, array_like=True, tag="prepared"):
    """A node to whoever plans an epoch: nothing of mine is under way."""

    epoch: int
    node: str


class Replan(msgspec.Struct, frozen=True, array_like=True, tag="replan"):
    """To a node: please plan an epoch. Stale after `epoch`; nodes may ask for one whichever it is now (`ANY_EPOCH`).

    Anybody may ask for topics, patterns and views. The rest is for nodes, and for operators through a node of theirs.
    """

    epoch: int
    wants: tuple[str, ...] = ()  # topics that a subscriber wants on one path; new ones are made
    rank: tuple[str, ...] = ()  # a better rank; empty: as it is
    alive: str = ""  # a node that is there and is not counted
    topics: tuple[str, ...] = ()  # topics that a publisher has events for; new ones are made
    patterns: Registration | None = None  # what a subscriber holds by pattern, now and in future
    moves: dict[str, str] = {}  # topic -> the node that is to own it
    leaving: str = ""  # a node that gives its topics away and goes
    asks: str = ""  # on whose behalf a node passes this on
    view: Registration | None = None  # a view that is to be made, by its name
    drop_view: str = ""  # one that nobody needs any more
    close: tuple[str, ...] = ()  # topics that are to be deleted: they take no more events


ANY_EPOCH = -1


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """A node to whoever asked: no, and asking again will not help."""

    reason: str
    topics: tuple[str, ...] = ()  # those it is about, if it is about topics that do not exist
    ids: tuple[EventId, ...] = ()  # events that will never have a place: their topics are deleted


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """A subscriber to a node, now and then: I am alive and hold these topics and patterns at this version."""

    registration: Registration
    patterns: tuple[str, ...] = ()


class Recall(msgspec.Struct, frozen=True, array_like=True, tag="recall"):
    """A subscriber to any node: tell me the past of these topics and patterns, up to where epoch `until` begins.

    It is the same question, with the same answer, whoever is asked and however often.
    """

    subscriber: str
    names: tuple[str, ...]
    until: int
    epoch: int = -1  # go on here; -1: find out where to begin
    index: int = 0  # how many events of that epoch have been looked at
    clock: Entries = {}  # what is behind me already; empty: nothing is
    since: float = 0.0  # begin with the first event published at this time or later; 0: with the first of all


class Recalled(msgspec.Struct, frozen=True, array_like=True, tag="recalled"):
    """The answer: some events in the order of the log, and where to go on."""

    asked: tuple[int, int]  # the epoch and the index of the question
    events: tuple[Stamped, ...]
    epoch: int
    index: int
    floors: Entries | None = None  # where it begins: the numbers before the first event of each topic
    done: bool = False  # the epoch that was named begins here


class Routed(msgspec.Struct, frozen=True, array_like=True, tag="routed"):
    """To a node, for the manager of a topic that lives there."""

    topic: str
    message: Create | Fill | Done | Join | Nack


Message: TypeAlias = (
    Create
    | Bundle
    | SequencedBundle
    | Fill
    | Sequenced
    | Completed
    | Done
    | Join
    | Joined
    | Nack
    | Repair
    | Prepare
    | Prepared
    | Replan
    | Refused
    | Report
    | Recall
    | Recalled
    | Routed
    | Claim
    | Save
    | Placed
    | Survey
    | Surveyed
    | Clear
)


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """What really travels: a message with its number, or none with number 0; and how far I heard you."""

    number: int
    acknowledged: int
    message: Message | None = None
    life: int = 0  # of the sender
    to: int = 0  # the life it is meant for; 0 where that is not known yet


Notification: TypeAlias = (
    Stamped | StampedBundle | Run | Heartbeat | Publication | Batch | EpochNotice | PeerAsk | PeerTell
)
