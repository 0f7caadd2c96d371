"""Many events in one frame: what a publisher gives a node to number, and the same with numbers.

A *bundle* is cut by topic: each *part* holds the events of one topic in columns, and `order` says how they lie between
each other. A node that numbers a bundle adds one clock, how far every topic was before, and by it each event has a
stamp: the clock, and what comes before it in the bundle. So a stamped bundle can be cut as well: a *piece* has the clock
and the order of the whole, and the part of one topic.

Nodes look at no single event: columns are bytes (`columns.py`), and what a publisher's events are called follows from the
first of them.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from operator import lt

import msgspec

from unisono.model.columns import (
    NUMBERS_END,
    TIME_BYTES,
    are_steps,
    is_column,
    split,
    unpack,
    unpack_steps,
    unpack_times,
)

EVENTS_MAX = 1024
TOPICS_MAX = 256  # a byte of `order` names one
BYTES_MAX = 192 * 1024  # of payload, unless it is one event
EVENT_BYTES = 48  # at most, beside the payload and what only few events have
EXTRA_BYTES = 13  # at most, of something that only few have, or a word of it, beside its letters

_PLACES = bytes(range(TOPICS_MAX))


class Part(msgspec.Struct, frozen=True, array_like=True):
    """The events of one topic in columns: the i-th of each belongs to one event. An outline has none."""

    topic: str
    nth: int = 0  # which one of its publisher's events of this topic the first one is
    further: bytes = b""  # how much further each is; none: each is one further than the one before
    times: bytes = b""  # when they were published
    sizes: bytes = b""  # of the payloads
    payloads: bytes = b""  # one behind the other
    contents: bytes = b""  # how each payload is written; none: all of them are raw
    after: int = 0  # the publisher's event before them on the topic that has no answer yet, or 0
    keys: tuple[tuple[int, str], ...] = ()  # those that have one, by place
    headers: tuple[tuple[int, dict[str, str]], ...] = ()  # the same
    deadlines: tuple[tuple[int, float], ...] = ()  # the same

    def outline(self) -> Part:
        """Which events they are, and nothing more."""
        return Part(self.topic)

    @property
    def count(self) -> int:
        """How many events there are."""
        return len(self.times) // TIME_BYTES

    @property
    def bodies(self) -> Sequence[bytes]:
        """Their payloads."""
        return split(self.payloads, unpack(self.sizes, self.count))

    @property
    def published_at(self) -> Sequence[float]:
        """When they were published."""
        return unpack_times(self.times)

    @property
    def nths(self) -> Sequence[int]:
        """Which ones of their publisher's events of this topic they are."""
        count, nth = self.count, self.nth
        return (
            [nth + more for more in unpack(self.further, count)] if self.further else range(nth, nth + count)
        )

    def is_sound(self, count: int) -> bool:
        """Whether it has so many events, all of them complete."""
        return (
            count > 0
            and len(self.times) == count * TIME_BYTES
            and is_column(self.sizes, count)
            and sum(unpack(self.sizes, count)) == len(self.payloads)
            and len(self.contents) in (0, count)
            and 0 <= self.nth < NUMBERS_END
            and (not self.further or self._has_sound_nths(count))
            and (not self.keys or _are_places(self.keys, count))
            and (not self.headers or _are_places(self.headers, count))
            and (not self.deadlines or _are_places(self.deadlines, count))
        )

    def _has_sound_nths(self, count: int) -> bool:
        """Whether they are numbers as others are: whoever stores them must be able to write them."""
        return is_column(self.further, count) and self.nth + max(unpack(self.further, count)) < NUMBERS_END

    @property
    def size(self) -> int:
        """How many bytes it takes at most, beside the name of its topic."""
        size = len(self.payloads) + EVENT_BYTES * self.count
        extras = len(self.keys) + len(self.headers) + len(self.deadlines)
        if extras:
            words = [key for _, key in self.keys]
            for _, headers in self.headers:
                words += [*headers, *headers.values()]
            size += EXTRA_BYTES * (extras + len(words)) + 4 * sum(map(len, words))
        return size


def _are_places(column: tuple[tuple[int, object], ...], count: int) -> bool:
    """Whether each of so many events is named once at most, in their order."""
    places = [place for place, _ in column]
    return places[0] >= 0 and places[-1] < count and all(map(lt, places, places[1:]))


class Events(msgspec.Struct, frozen=True, array_like=True):
    """Events of one publisher, cut by topic."""

    publisher: str
    incarnation: int
    first: int  # which one of its publisher's events the first one is
    steps: bytes  # and how that goes on
    order: bytes  # which topic comes next
    parts: tuple[Part, ...]

    @property
    def ns(self) -> Sequence[int]:
        """Which ones of their publisher's events they are."""
        return unpack_steps(self.first, self.steps, len(self.order))

    def ends(self, place: int) -> tuple[int, int]:
        """The first and the last of those on one topic, by its place in `order`."""
        start, end = self.order.index(place), self.order.rindex(place)
        if not self.steps:
            return self.first + start, self.first + end
        steps = unpack(self.steps, len(self.order) - 1)  # nobody needs all of them
        n = self.first + sum(steps[:start])
        return n, n + sum(steps[start:end])

    @property
    def size(self) -> int:
        """How many bytes those parts take at most that are here, beside the names of their topics."""
        return sum([part.size for part in self.parts])


class Bundle(Events, frozen=True, array_like=True, tag="bundle"):
    """Publisher to a node: number these. Everything below `acknowledged` may be forgotten."""

    serial: int  # which bundle of this publisher it is: its answer says so
    acknowledged: int

    @property
    def topics(self) -> tuple[str, ...]:
        """What `order` speaks of."""
        return tuple([part.topic for part in self.parts])

    @property
    def is_sound(self) -> bool:
        """Whether it is what it should be."""
        order, parts = self.order, self.parts
        if not 0 < len(parts) <= TOPICS_MAX or not are_steps(self.first, self.steps, len(order)):
            return False
        counts = [order.count(i) for i in range(len(parts))]
        return (
            len(parts) == len(set(self.topics))
            and len(order) <= EVENTS_MAX
            and sum(counts) == len(order)
            and all(part.is_sound(count) for part, count in zip(parts, counts, strict=True))
            and all(0 <= part.after < self.ends(i)[0] for i, part in enumerate(parts))
        )

    def stamped(
        self,
        epoch: int,
        node: str,
        index: int,
        clock: dict[str, int],
        groups: tuple[tuple[int, ...], ...] = (),
    ) -> StampedBundle:
        """The same with numbers."""
        return StampedBundle(
            self.publisher,
            self.incarnation,
            self.first,
            self.steps,
            self.order,
            self.parts,
            epoch,
            node,
            index,
            clock,
            groups,
            self.topics,
        )


class StampedBundle(Events, frozen=True, array_like=True, tag="bundled"):
    """A bundle with its stamps, or a piece of one: those parts that are here."""

    epoch: int
    node: str
    index: int  # of its record in the node's lane: with the node and the epoch it is a name
    clock: dict[str, int]  # how far each topic was before, of all that its stamps name
    groups: tuple[tuple[int, ...], ...]  # by topic: which places of the clock its stamps name; empty: all
    topics: tuple[str, ...]  # of the whole bundle

    @property
    def is_sound(self) -> bool:
        """Whether it is what it should be: whoever is told it believes its numbers."""
        return self.has_sound_order and self.has_sound_clock and self.has_sound_parts

    @property
    def has_sound_order(self) -> bool:
        """Whether it says which events it has."""
        topics, order = self.topics, self.order
        return (
            len(set(topics)) == len(topics) <= TOPICS_MAX
            and len(self.groups) in (0, len(topics))
            and 0 < len(order) <= EVENTS_MAX
            and not order.translate(None, _PLACES[: len(topics)])
            and are_steps(self.first, self.steps, len(order))
        )

    @property
    def has_sound_clock(self) -> bool:
        """Whether all that its stamps name has a number."""
        clock = self.clock
        return (
            clock.keys() >= set(self.topics) and min(clock.values()) >= 0 and are_groups(self.groups, clock)
        )

    @property
    def has_sound_parts(self) -> bool:
        """Whether the parts that are here are its own, and complete."""
        parts = self.parts
        return (
            len({part.topic for part in parts}) == len(parts) > 0
            and all([part.is_sound(self.count(part.topic)) for part in parts])  # noqa: C419 (faster)
        )

    def count(self, topic: str) -> int:
        """How many events of a topic the whole bundle has."""
        return self.order.count(self.topics.index(topic)) if topic in self.topics else 0

    def newest(self, topic: str) -> int:
        """The number of the last event of a topic."""
        return self.clock[topic] + self.count(topic)

    def outline(self, topics: Container[str]) -> StampedBundle:
        """What is needed to answer again for its events on these topics."""
        parts = tuple([part.outline() for part in self.parts if part.topic in topics])
        return msgspec.structs.replace(self, parts=parts)

    def pieces(self) -> Iterator[StampedBundle]:
        """What the subscribers of each topic are told."""
        if len(self.parts) == 1:
            yield self
            return
        for part in self.parts:
            yield msgspec.structs.replace(self, parts=(part,))


def is_same(one: Bundle | StampedBundle, other: Bundle) -> bool:
    """Whether two bundles have the same events."""
    return (
        (one.publisher, one.incarnation, one.first) == (other.publisher, other.incarnation, other.first)
        and (one.steps, one.order) == (other.steps, other.order)
        and one.topics == other.topics
    )


def ns_of(events: Bundle | StampedBundle, topic: str) -> list[int]:
    """Which ones of their publisher's events those of one topic are."""
    i = events.topics.index(topic)
    return [n for n, which in zip(events.ns, events.order, strict=True) if which == i]


class SequencedBundle(msgspec.Struct, frozen=True, array_like=True, tag="bundle sequenced"):
    """A node to the publisher: the events of your bundle have their places in the order."""

    incarnation: int
    serial: int
    epoch: int
    clock: dict[str, int]
    groups: tuple[tuple[int, ...], ...]

    def fits(self, topics: Collection[str]) -> bool:
        """Whether it can be the answer to a bundle of events on these topics."""
        return (
            all(topic in self.clock for topic in topics)
            and len(self.groups) in (0, len(topics))
            and are_groups(self.groups, self.clock)
        )


def are_groups(groups: tuple[tuple[int, ...], ...], clock: dict[str, int]) -> bool:
    """Whether each names places of the clock."""
    return all(0 <= i < len(clock) for group in groups for i in group)


def group_names(
    clock: dict[str, int], groups: tuple[tuple[int, ...], ...], topics: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Which topics the stamps of each topic name."""
    names = tuple(clock)
    if not groups:
        return dict.fromkeys(topics, names)
    return {topic: tuple(names[i] for i in group) for topic, group in zip(topics, groups, strict=True)}
