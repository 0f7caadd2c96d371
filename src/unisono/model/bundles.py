"""Many events in one frame: what a publisher gives a node to number, and the same with numbers.

A *bundle* is cut by topic: each *part* holds the events of one topic in columns, and `order` says how they lie between
each other. A node that numbers a bundle adds one clock, how far every topic was before, and by it each event has a
stamp: the clock, and what comes before it in the bundle. So a stamped bundle can be cut as well: a *piece* has the clock
and the order of the whole, and the part of one topic.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from operator import lt

import msgspec

EVENTS_MAX = 1024
TOPICS_MAX = 256  # a byte of `order` names one
BYTES_MAX = 192 * 1024  # of payload, unless it is one event
EVENT_BYTES = 48  # roughly, beside the payload


class Part(msgspec.Struct, frozen=True, array_like=True):
    """The events of one topic; the i-th of every column belongs to one event."""

    topic: str
    ns: tuple[int, ...]  # which one of its publisher's events it is
    nths: tuple[int, ...]  # and which one on this topic
    bodies: tuple[bytes, ...]
    times: tuple[float, ...]
    contents: bytes
    after: int = 0  # the publisher's event before them on the topic that has no answer yet, or 0
    keys: tuple[tuple[int, str], ...] = ()  # those that have one, by place
    headers: tuple[tuple[int, dict[str, str]], ...] = ()  # the same
    deadlines: tuple[tuple[int, float], ...] = ()  # the same

    def outline(self) -> Part:
        """Which events they are, and nothing more."""
        return Part(self.topic, self.ns, (), (), (), b"")

    @property
    def is_sound(self) -> bool:
        """Whether its columns are equally long, and its events in order."""
        count = len(self.ns)
        columns = (self.nths, self.bodies, self.times, self.contents)
        return (
            count > 0
            and {len(column) for column in columns} == {count}
            and self.ns[0] > self.after >= 0
            and (count == 1 or all(map(lt, self.ns, self.ns[1:])))
            and all(0 <= place < count for place, _ in (*self.keys, *self.headers, *self.deadlines))
        )

    @property
    def size(self) -> int:
        """Roughly how many bytes it takes."""
        words = [key for _, key in self.keys]
        for _, headers in self.headers:
            words += [*headers, *headers.values()]
        return sum(map(len, self.bodies)) + EVENT_BYTES * len(self.ns) + 4 * sum(map(len, words))


class Bundle(msgspec.Struct, frozen=True, array_like=True, tag="bundle"):
    """Publisher to a node: number these. Everything below `acknowledged` may be forgotten."""

    publisher: str
    incarnation: int
    serial: int  # which bundle of this publisher it is: its answer says so
    acknowledged: int
    parts: tuple[Part, ...]
    order: bytes  # which part comes next

    @property
    def is_sound(self) -> bool:
        """Whether it is what it should be."""
        topics = {part.topic for part in self.parts}
        return (
            len(topics) == len(self.parts) <= TOPICS_MAX
            and len(self.order) <= EVENTS_MAX
            and all(part.is_sound for part in self.parts)
            and sum(len(part.ns) for part in self.parts) == len(self.order)
            and all(self.order.count(i) == len(part.ns) for i, part in enumerate(self.parts))
        )

    @property
    def size(self) -> int:
        """Roughly how many bytes it takes."""
        return sum(part.size for part in self.parts)


class StampedBundle(msgspec.Struct, frozen=True, array_like=True, tag="bundled"):
    """A bundle with its stamps, or a piece of one: those parts that are here."""

    epoch: int
    node: str
    index: int  # of its record in the node's lane: with the node and the epoch it is a name
    clock: dict[str, int]  # how far each topic was before, of all that its stamps name
    groups: tuple[tuple[int, ...], ...]  # by topic: which places of the clock its stamps name; empty: all
    topics: tuple[str, ...]  # of the whole bundle
    order: bytes  # which topic comes next
    publisher: str
    incarnation: int
    parts: tuple[Part, ...]  # those that are here

    @property
    def is_sound(self) -> bool:
        """Whether it is what it should be: whoever is told it believes its numbers."""
        held = {part.topic: len(part.ns) for part in self.parts}
        return (
            len(set(self.topics)) == len(self.topics) <= TOPICS_MAX
            and len(held) == len(self.parts) > 0
            and set(self.topics) <= self.clock.keys()
            and min(self.clock.values()) >= 0
            and len(self.groups) in (0, len(self.topics))
            and all(0 <= i < len(self.clock) for group in self.groups for i in group)
            and 0 < len(self.order) <= EVENTS_MAX
            and max(self.order) < len(self.topics)
            and all(part.is_sound for part in self.parts)
            and all(topic in self.topics for topic in held)
            and all(self.count(topic) == count for topic, count in held.items())
        )

    @property
    def size(self) -> int:
        """Roughly how many bytes those parts take that are here."""
        return sum(part.size for part in self.parts)

    def count(self, topic: str) -> int:
        """How many events of a topic the whole bundle has."""
        return self.order.count(self.topics.index(topic)) if topic in self.topics else 0

    def newest(self, topic: str) -> int:
        """The number of the last event of a topic."""
        return self.clock[topic] + self.count(topic)

    def outline(self, topics: Container[str]) -> StampedBundle:
        """What is needed to answer again for its events on these topics."""
        parts = tuple(part.outline() for part in self.parts if part.topic in topics)
        return msgspec.structs.replace(self, parts=parts)

    def pieces(self) -> Iterator[StampedBundle]:
        """What the subscribers of each topic are told."""
        if len(self.parts) == 1:
            yield self
            return
        for part in self.parts:
            yield msgspec.structs.replace(self, parts=(part,))


class DeltaBundle(msgspec.Struct, frozen=True, array_like=True, tag="bundle delta"):
    """A piece whose clock is left out, but for what has changed since the piece before on its topic."""

    since: int  # the index of that piece
    changed: dict[str, int]  # always with the topic's own number
    piece: StampedBundle


class SequencedBundle(msgspec.Struct, frozen=True, array_like=True, tag="bundle sequenced"):
    """A node to the publisher: the events of your bundle have their places in the order."""

    incarnation: int
    serial: int
    epoch: int
    clock: dict[str, int]
    groups: tuple[tuple[int, ...], ...]


def group_names(
    clock: dict[str, int], groups: tuple[tuple[int, ...], ...], topics: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Which topics the stamps of each topic name."""
    names = tuple(clock)
    if not groups:
        return dict.fromkeys(topics, names)
    return {topic: tuple(names[i] for i in group) for topic, group in zip(topics, groups, strict=True)}
