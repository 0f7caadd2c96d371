"""The certificate of one subscription: each delivery against the stamp it carries.

The clock before each row is the running maximum, topic by topic, of the stamps of the untagged rows before it.
An untagged delivery must be clean against that clock, a tagged one must not be (`unisono.history.checkers.tags`
is the same rule, one record at a time). What is carried from one chunk of rows to the next, and from one
run of the pipeline to the next, is the clock and the ledgers: history is never read again.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from unisono.history import Kind
from unisono.journal.schema import topics_of
from unisono.pipeline.columns import (
    CODE,
    NONE,
    Bools,
    Chunk,
    Ints,
    Vocabulary,
    order_of,
    present,
    stamp_matrix,
)
from unisono.pipeline.findings import Found, Row
from unisono.pipeline.ledgers import Ranges, Seen

ABSENT = np.iinfo(np.int64).min  # no entry: binds nobody and raises nothing
TOTAL = ("total", "total_causal")
ORDERED = ("fifo", "causal", *TOTAL)

_CONTROL = [CODE[k] for k in (Kind.SUBSCRIBED, Kind.UNSUBSCRIBED, Kind.LOST, Kind.DROPPED, Kind.HELD)]


class Span:
    """Numbers of a topic that were owed: above `floor`, and up to `last` once it was left."""

    def __init__(self, floor: int, joined: Row, waits: bool) -> None:
        self.floor, self.joined, self.waits = floor, joined, waits
        self.last: int | None = None


class Certificate:
    """All that is known of one subscription so far."""

    def __init__(self, life: str, words: Vocabulary) -> None:
        self.life, self.words = life, words
        self.order = ""
        self.joined = NONE  # the row of the first join: it says what was asked for
        self.deliveries = 0
        self.checked = 0
        self.found: dict[str, Found] = {}  # the first of each promise
        self.clock: dict[int, int] = {}  # topic -> number: what was told, and from where on it is owed
        self.told: dict[int, int] = {}  # what was told alone
        self.left = False  # a topic was left: what a tagged event was behind may have been left untaken
        self.raised_by: dict[int, int] = {}  # topic -> row
        self.epoch, self.entered_by = 0, NONE
        self.waits = self.lost = False
        self.unstamped = NONE  # the first row without a stamp to judge it by
        self.is_plain = True  # nothing happened that the proof of total order does not cover
        self.spans: dict[int, list[Span]] = {}
        self.delivered: dict[int, Ranges] = {}  # topic -> numbers
        self.gone: dict[tuple[int, int], tuple[bool, int]] = {}  # (topic, number) -> has a reason, row
        self.seen: dict[int, Seen] = {}  # author -> which n
        self.only_tagged: set[tuple[int, int]] = set()  # (author, n) of what came, but not yet untagged
        self.last_n: dict[tuple[int, int], tuple[int, int]] = {}  # (author, topic) -> n, row
        self.held = 0

    def feed(self, chunk: Chunk, mine: Ints) -> None:
        """Judge the rows `mine` of a chunk."""
        kind = chunk.kind[mine]
        deliveries = mine[kind == CODE[Kind.DELIVERED]]
        at = 0
        for i in mine[np.isin(kind, _CONTROL)]:
            is_turn = chunk.kind[i] in _CONTROL[:2] or (chunk.kind[i] == CODE[Kind.LOST] and not self.lost)
            if is_turn:
                end = int(np.searchsorted(deliveries, i))
                self._deliver(chunk, deliveries[at:end])
                at = end
            self._control(chunk, int(i))
        self._deliver(chunk, deliveries[at:])

    def forget(self, n_kept: int) -> None:
        """Let go of what nothing that still comes is judged by, and of n of an author below the last `n_kept`.

        What was owed and lost cannot be told any more, nor whether an event repeats a much older one.
        """
        self.gone.clear()
        for numbers in self.delivered.values():
            numbers.forget()
        for spans in self.spans.values():
            del spans[:-1]
        floors = {author: seen.forget(n_kept) for author, seen in self.seen.items()}
        self.only_tagged = {(author, n) for author, n in self.only_tagged if n >= floors.get(author, n)}

    def row(self, at: int) -> Row:
        """The place of a row in the journal."""
        return Row(self.life, at)

    def _control(self, chunk: Chunk, i: int) -> None:
        kind, topic, number = chunk.kind[i], int(chunk.topic[i]), int(chunk.more["number"][i])
        at = chunk.first + i
        if kind == CODE[Kind.SUBSCRIBED]:
            self.order = self._word(chunk, "order", i) or self.order
            self.joined = at if self.joined == NONE else self.joined
            on_gap = self._word(chunk, "on_gap", i)
            self.waits = on_gap in ("wait", "fail")
            if number > self.clock.get(topic, -1):
                self.clock[topic], self.raised_by[topic] = number, at
            spans = self.spans.setdefault(topic, [])
            if not spans or spans[-1].last is not None:
                spans.append(Span(number, self.row(at), self.order in TOTAL and on_gap == "wait"))
        elif kind == CODE[Kind.UNSUBSCRIBED]:
            self.is_plain = False
            self.clock.pop(topic, None)
            self.told.pop(topic, None)
            self.left = True
            spans = self.spans.get(topic, [])
            if spans and spans[-1].last is None:
                # Only who waits for gaps has shown, by delivering a number, that it was owed all below.
                seen = self.delivered[topic].last if topic in self.delivered else 0
                spans[-1].last = seen if spans[-1].waits else spans[-1].floor
        elif kind == CODE[Kind.HELD]:
            self.held += 1
            self._find("no_endless_wait", "still_held", at)
        else:
            self.lost |= kind == CODE[Kind.LOST]
            self.gone.setdefault((topic, number), (bool(self._word(chunk, "reason", i)), at))

    def _word(self, chunk: Chunk, column: str, i: int) -> str:
        code = int(chunk.more[column][i])
        return "" if code == NONE else str(self.words.orders.words[code])

    def _find_missing(self, how: str, at: int, by: int, values: tuple[str | int, ...] = ()) -> None:
        asked = () if self.joined == NONE else (self.joined,)
        self._find("tags", how, at, by, *asked, values=values)

    def _find(self, promise: str, how: str, *rows: int, values: tuple[str | int, ...] = ()) -> None:
        self.found.setdefault(promise, Found(promise, how, tuple(self.row(r) for r in rows), values))

    def _deliver(self, chunk: Chunk, rows: Ints) -> None:
        if not len(rows):
            return
        self.deliveries += len(rows)
        repeated = self._duplicates(chunk, rows)
        self._count(chunk, rows)
        if self.order in ORDERED:
            self._fifo(chunk, rows[self._first_untagged(chunk, rows, repeated)])
        if self.order in TOTAL and self.unstamped == NONE and "tags" not in self.found:
            self._replay(chunk, rows)

    def _duplicates(self, chunk: Chunk, rows: Ints) -> Bools:
        authors, n = chunk.author[rows], chunk.n[rows]
        repeated = np.zeros(len(rows), dtype=np.bool_)
        for author in present(authors):
            mine = np.flatnonzero(authors == author)
            repeated[mine] = self.seen.setdefault(int(author), Seen()).repeats(n[mine])
        if repeated.any() and "no_duplication" not in self.found:
            self._find("no_duplication", "twice", chunk.first + int(rows[np.argmax(repeated)]))
        return repeated

    def _first_untagged(self, chunk: Chunk, rows: Ints, repeated: Bools) -> Bools:
        """Which rows are the first untagged delivery of their event: a tagged one before does not count."""
        untagged: Bools = chunk.in_order[rows]
        if untagged.all() and not repeated.any():
            return untagged
        first = untagged & ~repeated
        for i in np.flatnonzero(~untagged | repeated):
            event = (int(chunk.author[rows[i]]), int(chunk.n[rows[i]]))
            if untagged[i]:
                first[i] = event in self.only_tagged
                self.only_tagged.discard(event)
            elif not repeated[i]:
                self.only_tagged.add(event)
        return first

    def _count(self, chunk: Chunk, rows: Ints) -> None:
        topics, numbers = chunk.topic[rows], chunk.more["number"][rows]
        for topic in present(topics):
            self.delivered.setdefault(int(topic), Ranges()).add(numbers[topics == topic])

    def _fifo(self, chunk: Chunk, rows: Ints) -> None:
        if "publisher_fifo" in self.found or not len(rows):
            return
        topics = len(self.words.topics) + 1
        key = chunk.author[rows].astype(np.int64) * topics + chunk.topic[rows]
        order = order_of(key)
        key, n, rows = key[order], chunk.n[rows][order], rows[order]
        starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        before = np.concatenate(([0], n[:-1]))
        before_row = np.concatenate(([0], rows[:-1])) + chunk.first
        for at in starts:
            before[at], before_row[at] = self.last_n.get(divmod(int(key[at]), topics), (-1, -1))
        for at in np.concatenate((starts[1:], [len(key)])) - 1:
            self.last_n[divmod(int(key[at]), topics)] = (int(n[at]), chunk.first + int(rows[at]))
        bad = np.flatnonzero(n < before)
        if len(bad):
            at = bad[np.argmin(rows[bad])]
            self._find("publisher_fifo", "overtaken", int(before_row[at]), chunk.first + int(rows[at]))

    def _replay(self, chunk: Chunk, rows: Ints) -> None:
        """Run the clock over deliveries of topics that are held."""
        held = np.zeros(len(self.words.topics) + 1, dtype=np.bool_)
        held[list(self.clock)] = True
        if not held[chunk.topic[rows]].all():
            rows = rows[held[chunk.topic[rows]]]
            self.is_plain = False
        rows = self._stamped(chunk, rows)
        if not len(rows) or self._rises(chunk, rows):
            return
        entries = self._entries(chunk, rows)
        untagged, own, first = chunk.in_order[rows], chunk.topic[rows], chunk.first
        all_untagged = bool(untagged.all())
        late = np.zeros(len(rows), dtype=np.bool_)
        missing = np.zeros(len(rows), dtype=np.bool_)  # a tag is, if it has none
        before: dict[int, Ints] = {}
        for topic, entry in entries.items():
            raising = entry if all_untagged else np.where(untagged, entry, ABSENT)
            before[topic] = self._running(raising, self.clock[topic])
            reached = before[topic][:-1]
            behind = (entry < reached) & (entry != ABSENT)
            late |= behind | ((entry == reached) & (own == topic))
            told = self.told.get(topic, -1)
            if told < self.clock[topic]:  # below a floor it may be tagged, and need not be
                behind &= (own == topic) | (entry < self._running(raising, told)[:-1])
            missing |= behind | ((entry == reached) & (own == topic))
        epoch = chunk.more["epoch"][rows].astype(np.int64)
        epochs = self._running(np.where(untagged, epoch, 0), self.epoch)
        past = epoch < epochs[:-1]
        late |= past
        missing |= past
        bad = ~untagged & ~late & (not self.left)
        self.is_plain &= not (untagged & late).any()
        if not (self.waits and self.lost):
            bad |= untagged & missing
        if bad.any():
            i = int(np.argmax(bad))
            self.checked += i + 1
            self._explain(chunk, rows, i, entries, before, untagged, epochs if past[i] else None)
            return
        self.checked += len(rows)
        for topic, entry in entries.items():
            if before[topic][-1] > self.clock[topic]:
                self.clock[topic] = int(before[topic][-1])
                at = np.argmax(np.where(untagged, entry, ABSENT))
                self.raised_by[topic] = first + int(rows[at])
            heard = int(entry.max() if all_untagged else np.where(untagged, entry, ABSENT).max())
            self.told[topic] = max(heard, self.told.get(topic, -1))
        if epochs[-1] > self.epoch:
            self.epoch = int(epochs[-1])
            self.entered_by = first + int(rows[np.argmax(np.where(untagged, epoch, 0))])

    def _rises(self, chunk: Chunk, rows: Ints) -> bool:
        """The usual case, several times as fast: stamps of one layout that never go down between untagged rows.

        Then each untagged row is itself the clock. False, and nothing done, where that is not so or anything is wrong.
        """
        layouts, epochs = chunk.more["layout"][rows], chunk.more["epoch"][rows]
        if layouts.min() != layouts.max() or epochs.min() != self.epoch or epochs.max() != self.epoch:
            return False
        topics = [self.words.topics.find(t) for t in topics_of(self.words.layouts.words[layouts[0]])]
        column = np.zeros(len(self.words.topics) + 1, dtype=np.int64)
        column[topics] = np.arange(len(topics))
        stamps = stamp_matrix(chunk.more["stamp"], chunk.more["stamp_at"][rows], len(topics))
        own = column[chunk.topic[rows]]
        untagged = chunk.in_order[rows]
        clean = np.flatnonzero(untagged)
        if not len(clean):
            return False
        rising, mine = (stamps, own) if len(clean) == len(rows) else (stamps[clean], own[clean])
        held = [(topic, int(column[topic])) for topic in self.clock if topic in topics]
        low = np.full(len(topics), ABSENT, dtype=np.int64)
        low[[c for _, c in held]] = [self.clock[topic] for topic, _ in held]
        at = np.arange(1, len(clean))
        if not (
            (rising[0] >= low).all()
            and rising[0, mine[0]] > low[mine[0]]
            and (rising[1:] >= rising[:-1]).all()
            and (rising[at, mine[1:]] > rising[at - 1, mine[1:]]).all()
        ):
            return False
        late = np.flatnonzero(~untagged)
        if len(late) and not self.left:
            behind = np.searchsorted(clean, late) - 1
            if behind[0] < 0:
                return False
            reached, columns = rising[behind], [c for _, c in held]
            deserved = (stamps[late][:, columns] < reached[:, columns]).any(axis=1)
            each = np.arange(len(late))
            if not (deserved | (stamps[late, own[late]] == reached[each, own[late]])).all():
                return False
        self.checked += len(rows)
        for topic, c in held:
            last = int(rising[-1, c])
            if last > self.clock[topic]:
                self.clock[topic] = last
                self.raised_by[topic] = chunk.first + int(rows[clean[bisect_left(rising[:, c], last)]])
            self.told[topic] = max(last, self.told.get(topic, -1))
        return True

    @staticmethod
    def _running(values: Ints, start: int) -> Ints:
        """The largest so far before each value, and after the last."""
        reached: Ints = np.maximum.accumulate(np.concatenate((np.array([start], dtype=np.int64), values)))
        return reached

    def _stamped(self, chunk: Chunk, rows: Ints) -> Ints:
        """The rows up to the first one without a stamp that names its own topic."""
        layouts = [topics_of(layout) for layout in self.words.layouts.words]
        names = np.zeros((len(layouts) + 1, len(self.words.topics) + 1), dtype=np.bool_)
        for code, topics in enumerate(layouts):
            names[code, [self.words.topics.code(t) for t in topics if self.words.topics.find(t) != NONE]] = (
                True
            )
        named = names[chunk.more["layout"][rows], chunk.topic[rows]]
        if named.all():
            return rows
        end = int(np.argmin(named))
        self.unstamped = chunk.first + int(rows[end])
        return rows[:end]

    def _entries(self, chunk: Chunk, rows: Ints) -> dict[int, Ints]:
        """What each row's stamp says about each topic that is held."""
        layouts, starts = chunk.more["layout"][rows], chunk.more["stamp_at"][rows]
        codes = present(layouts)
        entries: dict[int, Ints] = {}
        for layout in codes:
            topics = topics_of(self.words.layouts.words[layout])
            places = {self.words.topics.find(topic): place for place, topic in enumerate(topics)}
            mine = slice(None) if len(codes) == 1 else np.flatnonzero(layouts == layout)
            matrix = stamp_matrix(chunk.more["stamp"], starts[mine], len(topics))
            for topic in self.clock:
                if topic in places:
                    if topic not in entries:
                        entries[topic] = np.full(len(rows), ABSENT, dtype=np.int64)
                    entries[topic][mine] = matrix[:, places[topic]]
        return entries

    def _explain(
        self,
        chunk: Chunk,
        rows: Ints,
        i: int,
        entries: dict[int, Ints],
        before: dict[int, Ints],
        untagged: Bools,
        epochs: Ints | None,
    ) -> None:
        at = chunk.first + int(rows[i])
        if not untagged[i]:
            self._find("tags", "undeserved_tag", at)
        elif epochs is not None:
            epoch = np.where(untagged, chunk.more["epoch"][rows], 0)
            raised = np.flatnonzero(epoch[:i] == epochs[i])
            by = (
                chunk.first + int(rows[raised[0]])
                if len(raised) and epochs[i] > self.epoch
                else self.entered_by
            )
            self._find_missing("missing_epoch_tag", at, by)
        else:
            own = int(chunk.topic[rows[i]])
            for topic in sorted(entries, key=lambda t: str(self.words.topics.words[t])):
                carried, reached = int(entries[topic][i]), int(before[topic][i])
                if carried != ABSENT and (carried < reached or (carried == reached and topic == own)):
                    raised = np.flatnonzero(np.where(untagged, entries[topic], ABSENT)[:i] == reached)
                    inside = len(raised) and reached > self.clock[topic]
                    by = chunk.first + int(rows[raised[0]]) if inside else self.raised_by[topic]
                    name = str(self.words.topics.words[topic])
                    self._find_missing("missing_tag", at, by, (name, carried, reached))
                    return
