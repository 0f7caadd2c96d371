"""What a life tells a planner, small enough to be carried from run to run: who holds what, and how much is published.

A tally grows with the chunks it is fed and can be pickled; the tallies of all lives together are what a plan is
made from, so that a plan needs no record twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from unisono.history import Kind
from unisono.model.errors import TopicError
from unisono.model.ids import check_topic
from unisono.pipeline.columns import CODE, NONE, Chunk, Vocabulary, order_of
from unisono.pipeline.plan_overlaps import Matrix, count_sets

COLUMNS = ("seq", "at")  # beside those that a certificate reads
_CHANGES = [CODE[Kind.SUBSCRIBED], CODE[Kind.UNSUBSCRIBED]]
_EVENTS = (Kind.PUBLISHED, Kind.SEQUENCED)

Holder: TypeAlias = tuple[str, str, str]  # process, subscription, topic


class Holding(NamedTuple):
    """What was last said about a topic of a subscription."""

    at: float
    seq: int
    is_open: bool
    order: str


class Events(NamedTuple):
    """How many events of a topic were recorded, and between when."""

    rows: int
    first: float
    last: float

    def plus(self, other: Events) -> Events:
        """Both together."""
        return Events(self.rows + other.rows, min(self.first, other.first), max(self.last, other.last))


class Tally:
    """Subscriptions and publications of one life."""

    def __init__(self) -> None:
        self.held: dict[Holder, Holding] = {}
        self.events: dict[tuple[str, str], Events] = {}  # (kind, topic)

    def feed(self, chunk: Chunk, words: Vocabulary) -> None:
        """Count what a chunk has."""
        for i in np.flatnonzero(np.isin(chunk.kind, _CHANGES) & (chunk.topic != NONE)).tolist():
            self._hold(chunk, words, i)
        for kind in _EVENTS:
            rows = np.flatnonzero((chunk.kind == CODE[kind]) & (chunk.topic != NONE))
            if not len(rows):
                continue
            topics = chunk.topic[rows].astype(np.int64)
            order = order_of(topics)
            topics, at = topics[order], chunk.more["at"][rows][order]
            starts = np.flatnonzero(np.concatenate(([True], topics[1:] != topics[:-1])))
            counts = np.diff(np.concatenate((starts, [len(topics)])))
            lows, highs = np.minimum.reduceat(at, starts), np.maximum.reduceat(at, starts)
            for topic, count, first, last in zip(topics[starts], counts, lows, highs, strict=True):
                key, new = (
                    (kind.value, str(words.topics.words[topic])),
                    Events(int(count), float(first), float(last)),
                )
                before = self.events.get(key)
                self.events[key] = new if before is None else before.plus(new)

    def _hold(self, chunk: Chunk, words: Vocabulary, i: int) -> None:
        process, name = words.subscriptions.words[chunk.subscription[i]]
        key = (process, name, str(words.topics.words[chunk.topic[i]]))
        joins = chunk.kind[i] == _CHANGES[0]
        code = int(chunk.more["order"][i])
        order = str(words.orders.words[code]) if joins and code != NONE else ""
        self.hold(key, Holding(float(chunk.more["at"][i]), int(chunk.more["seq"][i]), bool(joins), order))

    def hold(self, key: Holder, new: Holding) -> None:
        """Take in what was said about a topic; the newest counts, and the order that was last asked for."""
        old = self.held.get(key)
        if old is None:
            self.held[key] = new
            return
        early, late = sorted((old, new), key=lambda h: (h.at, h.seq))
        self.held[key] = late._replace(order=late.order or early.order)

    def add(self, other: Tally) -> None:
        """Take in the tally of another life."""
        for key, holding in other.held.items():
            self.hold(key, holding)
        for name, events in other.events.items():
            before = self.events.get(name)
            self.events[name] = events if before is None else before.plus(events)

    def rates(self) -> dict[str, float]:
        """Events per second of each topic, over the time from the first to the last publication."""
        if not self.events:
            return {}
        # A journal may hold the publishers or the managers only; who has both counts each event once.
        most: Counter[str] = Counter()
        for (_, topic), events in self.events.items():
            most[topic] = max(most[topic], events.rows)
        seconds = max(e.last for e in self.events.values()) - min(e.first for e in self.events.values())
        return {topic: count / (seconds or 1.0) for topic, count in sorted(most.items())}

    def matrix(self, threshold: int, *, current: bool = False) -> Matrix:
        """The overlaps of all subscriptions there ever were, or with `current` of those still open."""
        sets: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for (process, name, topic), holding in self.held.items():
            if (holding.is_open or not current) and _is_topic(topic):
                sets[process, name, holding.order].add(topic)
        weights = {"total_causal": threshold, "total": 1}
        collapsed: Counter[tuple[str, ...]] = Counter()
        weight: Counter[tuple[str, ...]] = Counter()
        for (_, _, order), topics in sets.items():
            key = tuple(sorted(topics))
            collapsed[key] += 1
            weight[key] += weights.get(order, 0)
        return count_sets([(key, weight[key], count) for key, count in collapsed.items()], threshold)


def all_together(tallies: Iterable[Tally]) -> Tally:
    """The tally of all lives."""
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole


def _is_topic(name: str) -> bool:
    """Whether it is a topic; a pattern is none, what it matched is held by name."""
    try:
        check_topic(name)
    except TopicError:
        return False
    return True
