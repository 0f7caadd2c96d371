"""Deadlines in the audit: nothing handed over too late, nothing dropped in time without a cause.

The same rules as `unisono.history.checkers.deadlines`, over columns. What events follow is in their `told` rows, a few
stamps each. Whether an event had to go for the sake of one that follows it is looked up, never compared in pairs: the
stamps by which events of one receiver follow a stream are sorted once, and the earliest moment from each on is kept.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.history import Kind
from unisono.history.checkers.deadlines import BEFORE, JUDGED, LEFT, OVERTAKEN, REFUSED, STALLED, TOO_LATE
from unisono.journal.schema import topics_of
from unisono.pipeline.catalogue import Catalogue
from unisono.pipeline.columns import CODE, NONE, Bools, Ints, Vocabulary, Words, read_chunks, stamp_matrix
from unisono.pipeline.findings import Doubt, Found, Row
from unisono.pipeline.segments import Life

Floats = NDArray[np.float64]
DEADLINE, DROPS = "deadline", "no_unjust_drop"
PROMISES = (DEADLINE, DROPS)
_NO_INTS: Ints = np.zeros(0, dtype=np.int64)


class Tellings(NamedTuple):
    """What one life told: one row for each event, and the stamps of all rows after each other."""

    authors: list[tuple[str, int]]
    streams: list[str]
    author: Ints
    n: Ints
    stream: Ints  # its own, NONE if the row does not name it
    number: Ints
    due: Floats
    entry_row: Ints
    entry_stream: Ints
    entry_number: Ints


def read_tellings(life: Life) -> Tellings:
    """The `told` rows of a life."""
    words, streams = Vocabulary(), Words()
    rows: list[tuple[Ints, ...]] = []
    entries: list[tuple[Ints, Ints, Ints]] = []
    due: list[Floats] = []
    count = 0
    for chunk in read_chunks(life.segments, words, "number", "layout", "stamp", "deadline"):
        told = np.flatnonzero((chunk.kind == CODE[Kind.TOLD]) & (chunk.more["layout"] != NONE))
        if not len(told) or "deadline" not in chunk.more:
            continue
        number, own = chunk.more["number"][told], np.full(len(told), NONE, dtype=np.int64)
        layouts, topics = chunk.more["layout"][told], chunk.topic[told]
        for layout in np.unique(layouts):
            names = topics_of(words.layouts.words[layout])
            mine = np.flatnonzero(layouts == layout)
            matrix = stamp_matrix(chunk.more["stamp"], chunk.more["stamp_at"][told[mine]], len(names))
            codes = np.array([streams.code(name) for name in names], dtype=np.int64)
            for topic in np.unique(topics[mine]):
                ends = f"/{words.topics.words[topic]}"
                may_be = np.array([name.endswith(ends) for name in names])
                theirs = np.flatnonzero(topics[mine] == topic)
                is_own = (matrix[theirs] == number[mine[theirs], None]) & may_be
                named = is_own.any(axis=1)
                own[mine[theirs[named]]] = codes[is_own[named].argmax(axis=1)]
            entries.append(
                (np.repeat(mine + count, len(names)), np.tile(codes, len(mine)), matrix.reshape(-1))
            )
        rows.append((chunk.author[told].astype(np.int64), chunk.n[told], own, number))
        due.append(chunk.more["deadline"][told])
        count += len(told)
    author, n, own, number = _joined(rows, 4)
    row, stream, stamp = _joined(entries, 3)
    return Tellings(
        list(words.authors.words),
        list(streams.words),
        author,
        n,
        own,
        number,
        np.concatenate([np.zeros(0), *due]),
        row,
        stream,
        stamp,
    )


def _joined(parts: Sequence[tuple[Ints, ...]], columns: int) -> list[Ints]:
    return [np.concatenate([_NO_INTS, *(part[i] for part in parts)]) for i in range(columns)]


class Orders:
    """What every event follows, and from when it has to go; by the places of a catalogue."""

    def __init__(self, catalogue: Catalogue, tellings: Sequence[Tellings]) -> None:
        streams = Words()
        self.row: Ints = np.full(catalogue.events, NONE, dtype=np.int64)  # event -> its row here
        columns: list[tuple[Ints, ...]] = []
        entries: list[tuple[Ints, ...]] = []
        due: list[Floats] = []
        count = 0
        for t in tellings:
            codes = np.array([*(streams.code(s) for s in t.streams), NONE], dtype=np.int64)
            authors = np.array([*(catalogue.authors.find(a) for a in t.authors), NONE], dtype=np.int64)
            places = catalogue.places(authors[t.author], t.n)
            known = np.flatnonzero((places != NONE) & (t.stream != NONE))
            first = known[self.row[places[known]] == NONE]
            self.row[places[first]] = first + count
            columns.append((codes[t.stream], t.number))
            entries.append((t.entry_row + count, codes[t.entry_stream], t.entry_number))
            due.append(t.due)
            count += len(t.n)
        self.stream, self.number = _joined(columns, 2)
        self.due: Floats = np.concatenate([np.zeros(0), *due])
        self.entry_row, self.entry_stream, self.entry_number = _joined(entries, 3)
        own = self.entry_stream == self.stream[self.entry_row]
        self.entry_number[own & (self.entry_number == self.number[self.entry_row])] -= 1  # not itself
        known = np.flatnonzero(self.row != NONE)
        between = catalogue.until[known] - self.due[self.row[known]] if len(known) else np.zeros(0)
        between = between[np.isfinite(between)]
        self.margin = 2 * float(between.max()) if len(between) else float("nan")

    def save(self, path: Path) -> None:
        """Write it down for tasks."""
        path.write_bytes(pickle.dumps(vars(self), protocol=5))

    @classmethod
    def load(cls, path: Path) -> Orders:
        """What `save` wrote."""
        self = cls.__new__(cls)
        vars(self).update(pickle.loads(path.read_bytes()))
        return self


class Timely(NamedTuple):
    """What a life shows about deadlines."""

    found: list[Found]
    doubts: list[Doubt]
    checked: dict[str, int]
    reasons: Counter[str]


class _Rows(NamedTuple):
    """What happened to events at one receiver: delivered or dropped."""

    place: Ints
    at: Floats
    is_drop: Bools
    reason: Ints
    topic: Ints
    patience: Floats
    row: Ints

    def only(self, which: Ints | Bools) -> _Rows:
        """Some of them."""
        return _Rows._make(column[which] for column in self)


def judge_deadlines(life: Life, catalogue: Catalogue, orders: Orders) -> Timely:
    """Both promises, for all receivers of a life."""
    words = Vocabulary()
    parts: dict[str, list[_Rows]] = {}
    patience: dict[int, float] = {}  # by subscription
    left: dict[str, set[str]] = {}  # topics that a process left
    for chunk in read_chunks(life.segments, words, "order", "reason", "at", "deadline"):
        if "deadline" in chunk.more:
            for i in np.flatnonzero(chunk.kind == CODE[Kind.SUBSCRIBED]):
                order = chunk.more["order"][i]
                if order != NONE and words.orders.words[order] == "causal":
                    patience.setdefault(int(chunk.subscription[i]), float(chunk.more["deadline"][i]))
        for i in np.flatnonzero(chunk.kind == CODE[Kind.UNSUBSCRIBED]):
            process = words.subscriptions.words[chunk.subscription[i]][0]
            left.setdefault(process, set()).add(words.topics.words[chunk.topic[i]])
        mine = np.full(len(words.subscriptions) + 1, np.nan)
        for code, seconds in patience.items():
            mine[code] = seconds
        is_drop = chunk.kind == CODE[Kind.DROPPED]
        about = (is_drop | (chunk.kind == CODE[Kind.DELIVERED])) & (chunk.author != NONE)
        rows = np.flatnonzero(about & np.isfinite(mine[chunk.subscription]))
        known = np.array([*(catalogue.authors.find(a) for a in words.authors.words), NONE], dtype=np.int64)
        whole = _Rows(
            catalogue.places(known[chunk.author[rows]], chunk.n[rows]),
            chunk.more["at"][rows],
            is_drop[rows],
            chunk.more["reason"][rows].astype(np.int64),
            chunk.topic[rows].astype(np.int64),
            mine[chunk.subscription[rows]],
            rows + chunk.first,
        )
        names = chunk.process[rows]
        for code in np.unique(names):
            process = words.processes.words[code]
            parts.setdefault(process, []).append(whole.only(names == code))
    timely = Timely([], [], dict.fromkeys(PROMISES, 0), Counter())
    for process, some in parts.items():
        rows_ = _Rows._make(np.concatenate(column) for column in zip(*some, strict=True))
        _Receiver(life.name, rows_, catalogue, orders, words, left.get(process, set()), timely).judge()
    return timely


class _Receiver:
    """One process."""

    def __init__(
        self,
        life: str,
        rows: _Rows,
        catalogue: Catalogue,
        orders: Orders,
        words: Vocabulary,
        left: set[str],
        timely: Timely,
    ) -> None:
        self.life, self.rows, self.catalogue, self.orders = life, rows, catalogue, orders
        self.words, self.left, self.timely = words, left, timely
        of = np.maximum(rows.place, 0)
        is_known = (rows.place != NONE) & catalogue.published[of]
        own = np.where(is_known, catalogue.until[of], np.nan)
        patient = np.where(is_known, catalogue.said_at[of], np.nan) + rows.patience
        self.until: Floats = np.fmin(own, patient)
        told = np.where(is_known, orders.row[of], NONE)
        self.told: Ints = told
        due = np.where(told != NONE, orders.due[np.maximum(told, 0)] if len(orders.due) else np.nan, np.nan)
        margin = np.where(np.isnan(own), orders.margin, 2 * (own - due))
        self.due: Floats = np.where(own <= patient, due, np.minimum(due, patient - margin))

    def judge(self) -> None:
        """Everything that is wrong."""
        rows, timely = self.rows, self.timely
        delivered = np.flatnonzero(~rows.is_drop)
        timely.checked[DEADLINE] += int(np.isfinite(self.until[delivered]).sum())
        timely.checked[DROPS] += len(rows.place)
        late = delivered[rows.at[delivered] > self.until[delivered]]
        if len(late):
            i = int(late[0])
            self._find(DEADLINE, "after_its_deadline", i, repr(float(self.until[i])))
        drops = np.flatnonzero(rows.is_drop)
        reasons = [self._reason(int(i)) for i in drops]
        timely.reasons.update(reasons)
        by_reason = {reason: drops[[r == reason for r in reasons]] for reason in set(reasons) & set(JUDGED)}
        for reason in REFUSED:
            for i in by_reason.get(reason, ())[:1]:
                self._unjust(int(i), "it was in time")
        for i in by_reason.get(LEFT, ()):
            if self._topic(int(i)) not in self.left:
                self._unjust(int(i), "its topic was not left")
                break
        for reason in (TOO_LATE, STALLED):
            self._judge_late(by_reason.get(reason, _NO_INTS))
        followed = [by_reason.get(reason, _NO_INTS) for reason in (OVERTAKEN, BEFORE)]
        if sum(map(len, followed)):
            self._judge_overtaken(*followed)

    def _judge_late(self, drops: Ints) -> None:
        rows = self.rows
        open_ = drops[~(rows.at[drops] >= self.until[drops])]
        unknown = open_[np.isnan(self.due[open_])]
        if len(unknown):
            words = "no record says how long before its deadline {0} had to go"
            self.timely.doubts.append(Doubt(DROPS, words, (self._row(int(unknown[0])),)))
        early = open_[rows.at[open_] < self.due[open_]]
        if len(early):
            i = int(early[0])
            self._unjust(i, f"{self.due[i] - rows.at[i]:.3f} s were left")

    def _judge_overtaken(self, overtaken: Ints, before: Ints) -> None:
        rows = self.rows
        both = np.concatenate([overtaken, before])
        untold = both[self.told[both] == NONE]
        if len(untold):
            words = "no record says what {0} follows and when it was published"
            self.timely.doubts.append(Doubt(DROPS, words, (self._row(int(untold[0])),)))
        both, overtaken = (x[self.told[x] != NONE] for x in (both, overtaken))
        forced = self._forced()
        alone = both[np.isinf(forced[self.told[both]])]
        if len(alone):
            self._unjust(int(alone[0]), "nothing that follows it came")
        early = overtaken[
            np.isfinite(forced[self.told[overtaken]]) & (forced[self.told[overtaken]] > rows.at[overtaken])
        ]
        if len(early):
            self._unjust(int(early[0]), "nothing that follows it had to go by then")

    def _forced(self) -> Floats:
        """By row of `orders`: from when the first of those that came here and follow it had to go; never, if none did."""
        orders = self.orders
        due = np.full(len(orders.number), np.inf)
        came = self.told != NONE
        here = np.where(np.isnan(self.due[came]), orders.due[self.told[came]], self.due[came])
        np.minimum.at(due, self.told[came], here)
        is_here = np.zeros(len(due), dtype=np.bool_)
        is_here[self.told[came]] = True
        events = np.flatnonzero(is_here)
        entries = np.flatnonzero(is_here[orders.entry_row])
        stream, number = orders.entry_stream[entries], orders.entry_number[entries]
        order = np.lexsort((-number, stream))  # of each stream, those that follow most of it first
        entries, stream, number = entries[order], stream[order], number[order]
        starts = np.flatnonzero(np.diff(stream, prepend=NONE))  # codes are not negative
        ends = np.append(starts, len(stream))[1:]
        of_stream = np.argsort(orders.stream[events], kind="stable")
        events = events[of_stream]
        forced = np.full(len(due), np.inf)
        while True:
            before = due.copy()
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                lo, hi = np.searchsorted(orders.stream[events], [stream[start], stream[start] + 1])
                mine = events[lo:hi]
                if not len(mine):
                    continue
                earliest = np.minimum.accumulate(due[orders.entry_row[entries[start:end]]])
                count = np.searchsorted(-number[start:end], -orders.number[mine], side="right")
                some = count > 0
                forced[mine[some]] = earliest[count[some] - 1]
            due = np.minimum(due, forced)
            # Pasts name all that they follow, but for what publishers that move leave out: a few times are enough.
            if np.array_equal(due, before):
                return forced

    def _reason(self, i: int) -> str:
        code = int(self.rows.reason[i])
        return "" if code == NONE else str(self.words.orders.words[code])

    def _topic(self, i: int) -> str:
        code = int(self.rows.topic[i])
        return "" if code == NONE else str(self.words.topics.words[code])

    def _row(self, i: int) -> Row:
        return Row(self.life, int(self.rows.row[i]))

    def _unjust(self, i: int, why: str) -> None:
        self._find(DROPS, "unjust_drop", i, why)

    def _find(self, promise: str, how: str, i: int, value: str) -> None:
        place = int(self.rows.place[i])
        published = place != NONE and bool(self.catalogue.published[place])
        more = (self.catalogue.row_published(place),) if published else ()
        self.timely.found.append(Found(promise, how, (self._row(i), *more), (value,)))
