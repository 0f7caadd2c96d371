"""The independent audit of one life: no stamp is trusted, only which events came, and in which order.

A *witness* is any order of all events in which every subscription's untagged row increases: where there is one,
no two subscriptions contradict each other. Where it comes from does not matter, because it is checked. Where a row
goes down in the witness, the stretch it goes down over is reported: whatever contradicts a row lies inside such
stretches (`unisono.pipeline.witness`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from unisono.history import Kind
from unisono.model.ids import matches
from unisono.pipeline.catalogue import Catalogue
from unisono.pipeline.certificate import ORDERED, TOTAL
from unisono.pipeline.columns import (
    CODE,
    CONTROL,
    NONE,
    OF_NO_SUBSCRIPTION,
    Bools,
    Chunk,
    Ints,
    Vocabulary,
    read_chunks,
)
from unisono.pipeline.findings import Found, Row
from unisono.pipeline.segments import Life

CAUSAL = ("causal", "total_causal")
STRANGERS_MAX = 1_000_000
_NO_EVENTS: Ints = np.zeros(0, dtype=np.int64)


class Told:
    """One subscription's deliveries as places, and the few records about it that are no deliveries."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.order = ""
        self.events: list[Ints] = []
        self.topics: list[Ints] = []
        self.tagged: list[Bools] = []
        self.rows: list[Ints] = []
        self.control: list[
            tuple[Kind, str, int, str, str, int, int]
        ] = []  # kind … number, order, on_gap, event, row


class Examined(NamedTuple):
    """What a life shows."""

    life: str
    found: list[Found]
    strangers: list[tuple[str, int, int]]  # events that nobody recorded as published or sequenced
    stretches: Ints  # (n, 2): from and to, in the witness: of the rows of totally ordered subscriptions
    causes: Ints  # the same, of causally ordered rows and of what processes published after what
    orders: dict[str, int]  # order -> subscriptions
    checked: dict[str, int]
    unpublished: Row | None  # delivered in causal order, but no record says when it was published
    excused: str = ""  # somebody whose publications may only not have been written


def examine(life: Life, catalogue: Catalogue) -> Examined:
    """Everything about one life that can be said without the others."""
    told, steps, strangers = read_life(life, catalogue)
    found: list[Found] = []
    stretches: list[Ints] = []
    causes: list[Ints] = [_published_late(s, catalogue) for s in steps.values()]
    checked = {"deliveries": 0, "fifo": 0, "total": 0, "causal": 0, "acyclic": 0, "owed": 0}
    unpublished: Row | None = None
    excused = ""
    orders: dict[str, int] = {}
    for sub in told.values():
        one = _Subscription(life.name, sub, catalogue)
        orders[sub.order] = orders.get(sub.order, 0) + 1
        checked["deliveries"] += len(one.events)
        found += one.created()
        excused = excused or one.excused
        found += one.duplicated()
        found += one.held()
        if sub.order in ORDERED:
            checked["fifo"] += len(one.untagged)
            found += one.overtaken()
            found += one.lost(checked)
        going_down = one.stretches() if sub.order in (*TOTAL, *CAUSAL) else None
        if sub.order in TOTAL and going_down is not None:
            checked["total"] += len(one.untagged)
            stretches.append(going_down)
        if sub.order in CAUSAL and going_down is not None:
            checked["causal"] += len(one.untagged)
            causes.append(going_down)
            unpublished = unpublished or one.unpublished()
        if sub.order == "total_causal":
            checked["acyclic"] += len(one.untagged)
    return Examined(
        life.name, found, strangers, _stack(stretches), _stack(causes), orders, checked, unpublished, excused
    )


def read_life(
    life: Life, catalogue: Catalogue
) -> tuple[dict[int, Told], dict[int, list[tuple[Ints, Ints]]], list[tuple[str, int, int]]]:
    """The subscriptions of a life; for each process that publishes, its steps (event, is publication); strangers."""
    words = Vocabulary()
    told: dict[int, Told] = {}
    steps: dict[int, list[tuple[Ints, Ints]]] = {}
    strangers: set[tuple[str, int, int]] = set()
    publishing = {catalogue.processes.words[p] for p in np.unique(catalogue.process) if p != NONE}
    me = catalogue.lives.find(life.name)
    for chunk in read_chunks(life.segments, words, *CONTROL):
        known = np.array([*(catalogue.authors.find(a) for a in words.authors.words), NONE], dtype=np.int64)
        places = catalogue.places(known[chunk.author], chunk.n)
        delivered = chunk.kind == CODE[Kind.DELIVERED]
        for i in np.flatnonzero(delivered & (places == NONE))[: STRANGERS_MAX - len(strangers)]:
            publisher, incarnation = words.authors.words[chunk.author[i]]
            strangers.add((publisher, incarnation, int(chunk.n[i])))
        _take(chunk, words, places, delivered, told, catalogue)
        for process in np.unique(chunk.process):
            if words.processes.words[process] in publishing:
                mine = chunk.process == process
                is_first = np.zeros(len(chunk), dtype=np.bool_)
                rows = np.flatnonzero(mine & (chunk.kind == CODE[Kind.PUBLISHED]) & (places != NONE))
                of = places[rows]
                is_first[rows] = (catalogue.published_row[of] == rows + chunk.first) & (
                    catalogue.published_life[of] == me
                )
                used = np.flatnonzero(mine & (is_first | (delivered & (places != NONE))))
                steps.setdefault(int(process), []).append((places[used], is_first[used].astype(np.int64)))
    return told, steps, sorted(strangers)


def _take(
    chunk: Chunk,
    words: Vocabulary,
    places: Ints,
    delivered: Bools,
    told: dict[int, Told],
    catalogue: Catalogue,
) -> None:
    topics = np.array([*(catalogue.topics.code(t) for t in words.topics.words), NONE], dtype=np.int64)
    about = ~np.isin(chunk.kind, OF_NO_SUBSCRIPTION)
    for code in np.unique(chunk.subscription[about]):
        process = words.subscriptions.words[code][0]
        sub = told.setdefault(int(code), Told(catalogue.processes.find(process)))
        mine = about & (chunk.subscription == code)
        rows = np.flatnonzero(mine & delivered)
        sub.events.append(places[rows])
        sub.topics.append(topics[chunk.topic[rows]])
        sub.tagged.append(~chunk.in_order[rows])
        sub.rows.append(rows + chunk.first)
        for i in np.flatnonzero(mine & ~delivered):
            word = {
                c: "" if chunk.more[c][i] == NONE else words.orders.words[chunk.more[c][i]]
                for c in CONTROL[1:]
            }
            kind = list(Kind)[chunk.kind[i]]
            topic = "" if chunk.topic[i] == NONE else words.topics.words[chunk.topic[i]]
            if kind is Kind.SUBSCRIBED:
                sub.order = word["order"] or sub.order
            told_of = word["reason"] if kind in (Kind.DROPPED, Kind.LOST) else word["on_gap"]
            event = int(places[i]) if chunk.author[i] != NONE else NONE
            number = int(chunk.more["number"][i])
            sub.control.append((kind, topic, number, sub.order, told_of, event, int(i) + chunk.first))


def row_of(told: Told) -> Ints:
    """The events delivered untagged, each once, in order."""
    events = np.concatenate([_NO_EVENTS, *told.events])
    tagged = np.concatenate([_NO_EVENTS.astype(np.bool_), *told.tagged])
    untagged = events[~tagged & (events != NONE)]
    row: Ints = untagged[np.sort(np.unique(untagged, return_index=True)[1])]
    return row


def down(ranks: Ints, at: Ints | None = None) -> Ints:
    """(from, to) of each stretch over which a row of ranks goes down; `at`: only ends at these places count."""
    if len(ranks) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    reached = np.maximum.accumulate(ranks)[:-1]
    falls = np.flatnonzero(ranks[1:] <= reached)
    if at is not None:
        falls = falls[at[falls + 1] > 0]
    return np.stack([ranks[falls + 1], reached[falls]], axis=1)


def _published_late(parts: Iterable[tuple[Ints, Ints]], catalogue: Catalogue) -> Ints:
    """Where a process published what the witness puts before something it had seen or published."""
    events, is_publication = (np.concatenate(c) for c in zip(*parts, strict=True))
    return down(catalogue.rank[events], is_publication)


def _stack(parts: list[Ints]) -> Ints:
    return np.concatenate([np.zeros((0, 2), dtype=np.int64), *parts])


class _Subscription:
    """One subscription's whole row, and the questions asked of it."""

    def __init__(self, life: str, told: Told, catalogue: Catalogue) -> None:
        self.life, self.told, self.catalogue = life, told, catalogue
        self.excused = ""
        self.events: Ints = np.concatenate([_NO_EVENTS, *told.events])
        self.topics: Ints = np.concatenate([_NO_EVENTS, *told.topics])
        self.rows: Ints = np.concatenate([_NO_EVENTS, *told.rows])
        tagged = np.concatenate([_NO_EVENTS.astype(np.bool_), *told.tagged])
        self.repeats = self._repeats()
        self.untagged: Ints = np.flatnonzero(~tagged & (self.events != NONE))
        if len(self.repeats):
            # The first untagged delivery of each event counts.
            first = np.unique(self.events[self.untagged], return_index=True)[1]
            self.untagged = self.untagged[np.sort(first)]

    def _found(self, promise: str, how: str, *rows: Row, values: tuple[str | int, ...] = ()) -> list[Found]:
        return [Found(promise, how, rows, values)]

    def _row(self, i: int) -> Row:
        return Row(self.life, int(self.rows[i]))

    def _repeats(self) -> Ints:
        known = self.events[self.events != NONE]
        if not len(known) or np.bincount(known).max() < 2:
            return np.zeros(0, dtype=np.int64)
        first = np.unique(self.events, return_index=True)[1]
        again = np.ones(len(self.events), dtype=np.bool_)
        again[first] = False
        return np.flatnonzero(again & (self.events != NONE))

    def duplicated(self) -> list[Found]:
        """An event that came twice."""
        if not len(self.repeats):
            return []
        second = int(self.repeats[0])
        first = int(np.argmax(self.events == self.events[second]))
        return self._found("no_duplication", "twice", self._row(first), self._row(second))

    def created(self) -> list[Found]:
        """A delivery of what was never published, on another topic, too soon, or unasked."""
        c = self.catalogue
        if not c.published.any() or not len(self.events):
            return []
        of = np.maximum(self.events, 0)
        unpublished = (self.events == NONE) | ~c.published[of]
        unpublished = self._accused(unpublished, of)
        changed = c.published[of] & (c.topic[of] != self.topics)
        bad = unpublished | changed
        own = np.flatnonzero(
            (c.process[of] == self.told.process) & (c.lives.find(self.life) == c.published_life[of])
        )
        soon = own[self.rows[own] < c.published_row[of[own]]]
        bad[soon] = True
        unasked = self._unasked()
        first = min([*np.flatnonzero(bad)[:1], *unasked], default=NONE)
        if first == NONE:
            return []
        at, published = self._row(first), c.published[of[first]] and self.events[first] != NONE
        if not published:
            return self._found("no_creation", "never_published", at)
        if changed[first]:
            return self._found("no_creation", "changed_topic", at, c.row_published(int(of[first])))
        if first in soon:
            return self._found("no_creation", "delivered_too_soon", at, c.row_published(int(of[first])))
        return self._found("no_creation", "never_subscribed", at)

    def _accused(self, unpublished: Bools, of: Ints) -> Bools:
        """Without those of publishers whose journals have no end: they may have published it."""
        if not self.catalogue.unended.any() or not unpublished.any():
            return unpublished
        author = self.catalogue.author_of(of)
        may_be = unpublished & (self.events != NONE) & self.catalogue.unended[author]
        if may_be.any():
            self.excused = str(self.catalogue.authors.words[author[np.argmax(may_be)]][0])
        accused: Bools = unpublished & ~may_be
        return accused

    def _unasked(self) -> list[int]:
        """The first delivery of each topic that was not asked for by then."""
        first: dict[int, int] = {}
        places = np.full(len(self.catalogue.topics) + 1, NONE, dtype=np.int64)
        places[self.topics[::-1]] = np.arange(len(self.topics))[::-1]
        first = {int(t): int(places[t]) for t in np.flatnonzero(places != NONE)}
        joined = [(topic, row) for kind, topic, *_, row in self.told.control if kind is Kind.SUBSCRIBED]
        unasked = []
        for topic, i in first.items():
            name = self.catalogue.topics.words[topic] if topic < len(self.catalogue.topics) else ""
            if not any((t == name or matches(t, name)) and row < self.rows[i] for t, row in joined):
                unasked.append(i)
        return unasked

    def overtaken(self) -> list[Found]:
        """A younger event of a publisher on a topic before an older one."""
        c, events = self.catalogue, self.events[self.untagged]
        author = c.author_of(events)
        key = author * (len(c.topics) + 1) + self.topics[self.untagged]
        order = np.argsort(key.astype(np.int32), kind="stable")
        # Places of one author are in the order of n.
        falls = np.flatnonzero((key[order][1:] == key[order][:-1]) & (events[order][1:] < events[order][:-1]))
        if not len(falls):
            return []
        at = falls[np.argmin(order[falls + 1])]
        rows = [self._row(int(self.untagged[order[i]])) for i in (at, at + 1)]
        return self._found("publisher_fifo", "overtaken", *rows)

    def held(self) -> list[Found]:
        """An event still held when the run ended."""
        rows = [row for kind, *_, row in self.told.control if kind is Kind.HELD]
        return self._found("no_endless_wait", "still_held", Row(self.life, rows[0])) if rows else []

    def stretches(self) -> Ints:
        """Where the row goes down in the witness."""
        return down(self.catalogue.rank[self.events[self.untagged]])

    def unpublished(self) -> Row | None:
        """The first untagged delivery of an event without a record of its publication."""
        missing = np.flatnonzero(~self.catalogue.published[self.events[self.untagged]])
        return self._row(int(self.untagged[missing[0]])) if len(missing) else None

    def lost(self, checked: dict[str, int]) -> list[Found]:
        """An owed event that neither came nor was accounted for."""
        c = self.catalogue
        if not c.healed:
            return []
        came = np.zeros(c.events + 1, dtype=np.bool_)
        came[self.events] = True
        gone = [r for r in self.told.control if r[0] in (Kind.DROPPED, Kind.LOST)]
        by_event = {event: (why, row) for *_, why, event, row in gone if event != NONE}
        by_number = {(t, n): (why, row) for _, t, n, _, why, event, row in gone if event == NONE}
        for topic, floor, last, joined in self._spans():
            code = c.topics.find(topic)
            if code == NONE or code + 1 >= len(c.topic_begins):
                continue
            part = slice(int(c.topic_begins[code]), int(c.topic_begins[code + 1]))
            numbers = c.numbers[part]
            owed = (numbers > floor) & (numbers <= last)
            checked["owed"] += int(owed.sum())
            for i in np.flatnonzero(owed & ~came[c.sequenced[part]]):
                number, event = int(numbers[i]), int(c.sequenced[part][i])
                why, row = by_event.get(event) or by_number.get((topic, number)) or ("", NONE)
                if not why:
                    at = part.start + int(i)
                    sequenced = Row(c.lives.words[c.sequenced_life[at]], int(c.sequenced_row[at]))
                    rows = [Row(self.life, joined), sequenced] + (
                        [Row(self.life, row)] if row != NONE else []
                    )
                    return self._found("nothing_lost", "lost", *rows)
        return []

    def _spans(self) -> list[tuple[str, int, int, int]]:
        """(topic, floor, last, row of the join) of what was owed."""
        endless = np.iinfo(np.int64).max
        spans: list[tuple[str, int, int, int]] = []
        joined: dict[str, tuple[int, int, bool]] = {}
        for kind, topic, number, order, on_gap, _, row in self.told.control:
            if kind is Kind.SUBSCRIBED:
                joined.setdefault(topic, (number, row, order in TOTAL and on_gap == "wait"))
            elif kind is Kind.UNSUBSCRIBED and topic in joined:
                floor, join, waits = joined.pop(topic)
                spans.append((topic, floor, self._highest(topic, row) if waits else floor, join))
        return spans + [(t, floor, endless, join) for t, (floor, join, _) in joined.items()]

    def _highest(self, topic: str, before: int) -> int:
        """The highest number of a topic that came before a row."""
        c = self.catalogue
        code = c.topics.find(topic)
        mine = self.events[(self.topics == code) & (self.rows < before) & (self.events != NONE)]
        part = slice(int(c.topic_begins[code]), int(c.topic_begins[code + 1]))
        numbers = c.numbers[part][np.isin(c.sequenced[part], mine)]
        return int(numbers.max()) if len(numbers) else 0
