"""Every event that was published or sequenced, as a small integer, with what is known of it.

The integer is the event's place: authors one after the other, each with its n in a row. Deliveries are turned
into places by arithmetic, without a join. The arrays lie in files that tasks map into memory, about 70 bytes an
event, shared by all tasks of a machine.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.history import Kind
from unisono.pipeline.columns import CODE, NONE, Bools, Chunk, Ints, Vocabulary, Words, read_chunks
from unisono.pipeline.findings import Row
from unisono.pipeline.segments import Life

_SPARSE = 8  # an author whose n leave more than this many places empty for each event is looked up instead


class Source(NamedTuple):
    """The publications and sequencings of one life: one row each, words as codes of `words`."""

    life: str
    words: Vocabulary
    is_published: Bools  # else sequenced
    author: Ints
    n: Ints
    topic: Ints
    number: Ints
    process: Ints
    seq: Ints
    at: NDArray[np.float64]
    place: Ints  # in the life
    deadline: NDArray[np.float64]
    healed: bool
    is_patient: bool  # it has a subscription with a deadline
    tells: bool  # it says what events follow


def read_source(life: Life) -> Source:
    """What one life published and sequenced."""
    words, parts, healed, is_patient, tells = Vocabulary(), [], False, False, False
    for chunk in read_chunks(life.segments, words, "number", "seq", "at", "deadline"):
        healed |= bool((chunk.kind == CODE[Kind.HEALED]).any())
        chunk.more.setdefault("deadline", np.full(len(chunk), np.nan))  # a journal from before deadlines
        joins = chunk.kind == CODE[Kind.SUBSCRIBED]
        is_patient |= bool(np.isfinite(chunk.more["deadline"][joins]).any())
        tells |= bool((chunk.kind == CODE[Kind.TOLD]).any())
        rows = np.flatnonzero(
            ((chunk.kind == CODE[Kind.PUBLISHED]) | (chunk.kind == CODE[Kind.SEQUENCED]))
            & (chunk.author != NONE)
        )
        if len(rows):
            parts.append(_part(chunk, rows))
    columns: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)] * 10
    if parts:
        columns = [np.concatenate(c) for c in zip(*parts, strict=True)]
    is_published, author, n, topic, number, process, seq, at, place, deadline = columns
    return Source(
        life.name,
        words,
        is_published.astype(np.bool_),
        author,
        n,
        topic,
        number,
        process,
        seq,
        at.astype(np.float64),
        place,
        deadline.astype(np.float64),
        healed,
        is_patient,
        tells,
    )


def _part(chunk: Chunk, rows: Ints) -> tuple[NDArray[Any], ...]:
    wide = (chunk.author, chunk.n, chunk.topic, chunk.more["number"], chunk.process, chunk.more["seq"])
    return (
        chunk.kind[rows] == CODE[Kind.PUBLISHED],
        *(column[rows].astype(np.int64) for column in wide),
        chunk.more["at"][rows],
        rows + chunk.first,
        chunk.more["deadline"][rows].astype(np.float64),
    )


class Catalogue:
    """The events of a journal by place; `extra` are events that were delivered though nobody recorded them."""

    def __init__(
        self,
        sources: Sequence[Source],
        extra: Iterable[tuple[str, int, int]] = (),
        unended: Iterable[str] = (),
    ) -> None:
        self.authors, self.topics, self.processes = Words(), Words(), Words()
        self.lives = Words(s.life for s in sources)
        self.healed = any(s.healed for s in sources)
        joined = _Joined(self, sources, extra)
        self._lay_out(joined)
        self.events = int(self.begins[-1])
        self._publish(joined)
        self._sequence(joined)
        self.rank: Ints = self._guess()
        unwritten = set(unended)  # of these publishers, not every publication may have been written
        self.unended: Bools = np.array([p in unwritten for p, _ in self.authors.words], dtype=np.bool_)

    def author_of(self, places: Ints) -> Ints:
        """The authors of events."""
        found: Ints = np.searchsorted(self.begins, places, side="right") - 1
        return found

    def _lay_out(self, rows: _Joined) -> None:
        """Give each author a stretch of places."""
        lengths: list[int] = []
        self.lowest: list[int] = []
        self.sorted_n: list[Ints | None] = []
        for author in range(len(self.authors)):
            n = rows.n[rows.author == author]
            low, span = (int(n.min()), int(n.max()) - int(n.min()) + 1) if len(n) else (0, 0)
            dense = span <= len(n) * _SPARSE + 1024
            looked_up = None if dense else np.unique(n)
            self.lowest.append(low)
            self.sorted_n.append(looked_up)
            lengths.append(span if looked_up is None else len(looked_up))
        self.begins: Ints = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

    def places(self, authors: Ints, n: Ints) -> Ints:
        """The places of events given by author (a code of this catalogue) and n; NONE where it has none."""
        found = np.full(len(n), NONE, dtype=np.int64)
        for author in np.unique(authors):
            if author == NONE:
                continue
            mine = np.flatnonzero(authors == author)
            theirs = self.sorted_n[author]
            if theirs is None:
                at = n[mine] - self.lowest[author]
                inside = (at >= 0) & (at < self.begins[author + 1] - self.begins[author])
            else:
                at = np.minimum(np.searchsorted(theirs, n[mine]), len(theirs) - 1)
                inside = theirs[at] == n[mine]
            found[mine[inside]] = at[inside] + self.begins[author]
        if len(found) and self.known is not None:
            inside = found != NONE
            found[inside] = np.where(self.known[found[inside]], found[inside], NONE)
        return found

    known: Bools | None = None

    def _publish(self, rows: _Joined) -> None:
        place = self.places(rows.author, rows.n)
        self.known = np.zeros(self.events, dtype=np.bool_)
        self.known[place] = True
        mine = np.flatnonzero(rows.kind == 1)[::-1]  # backwards, so that the first of several counts
        self.published = np.zeros(self.events, dtype=np.bool_)
        self.topic, self.process, self.seq, self.published_life, self.published_row = (
            np.full(self.events, NONE, dtype=np.int64) for _ in range(5)
        )
        self.at = np.full(self.events, np.nan)
        at = place[mine]
        self.published[at] = True
        self.topic[at], self.process[at], self.seq[at] = rows.topic[mine], rows.process[mine], rows.seq[mine]
        self.published_life[at], self.published_row[at] = rows.life[mine], rows.row[mine]
        self.at[at] = rows.at[mine]
        # Deadlines and when they began to run; nobody asks where no subscription has one.
        self.until, self.said_at = np.full(self.events, np.nan), np.full(self.events, np.nan)
        self.until[at], self.said_at[at] = rows.deadline[mine], rows.at[mine]

    def _sequence(self, rows: _Joined) -> None:
        """Sequencings by topic and number; the first record of an event on a topic counts."""
        mine = np.flatnonzero(rows.kind == 2)
        place = self.places(rows.author[mine], rows.n[mine])
        key = place * max(1, len(self.topics)) + rows.topic[mine]
        mine = mine[np.sort(np.unique(key, return_index=True)[1])]
        mine = mine[np.lexsort((rows.number[mine], rows.topic[mine]))]
        self.sequenced: Ints = self.places(rows.author[mine], rows.n[mine])
        self.numbers: Ints = rows.number[mine]
        self.sequenced_life, self.sequenced_row = rows.life[mine], rows.row[mine]
        self.topic_begins: Ints = np.searchsorted(rows.topic[mine], np.arange(len(self.topics) + 1))
        self.at[self.sequenced] = rows.at[mine]

    def _guess(self) -> Ints:
        """An order of all events that is probably the common one: by when they were sequenced, or published."""
        rank = np.empty(self.events, dtype=np.int64)
        number = np.zeros(self.events, dtype=np.int64)
        number[self.sequenced] = self.numbers
        rank[np.lexsort((number, self.at))] = np.arange(self.events)
        return rank

    def row_published(self, place: int) -> Row:
        """Where the publication of an event is recorded."""
        return Row(self.lives.words[self.published_life[place]], int(self.published_row[place]))

    def name(self, place: int) -> tuple[str, int, int]:
        """The event at a place: publisher, incarnation, n."""
        author = int(self.author_of(np.array([place]))[0])
        theirs, at = self.sorted_n[author], place - int(self.begins[author])
        publisher, incarnation = self.authors.words[author]
        return publisher, incarnation, self.lowest[author] + at if theirs is None else int(theirs[at])

    def save(self, folder: Path) -> None:
        """Write it down for tasks: arrays as files to be mapped, the rest beside them."""
        folder.mkdir(parents=True, exist_ok=True)
        rest = {}
        for key, value in vars(self).items():
            if isinstance(value, np.ndarray):
                np.save(folder / f"{key}.npy", value)
            else:
                rest[key] = value
        (folder / "rest.pickle").write_bytes(pickle.dumps(rest))

    @classmethod
    def load(cls, folder: Path) -> Catalogue:
        """Map what `save` wrote."""
        self = cls.__new__(cls)
        vars(self).update(pickle.loads((folder / "rest.pickle").read_bytes()))
        for path in folder.glob("*.npy"):
            setattr(self, path.stem, np.load(path, mmap_mode="r"))
        return self


class _Joined:
    """The rows of all sources with the words of the catalogue: kind 1 published, 2 sequenced, 0 extra."""

    def __init__(
        self, catalogue: Catalogue, sources: Sequence[Source], extra: Iterable[tuple[str, int, int]]
    ) -> None:
        c = catalogue
        more = list(extra)
        authors = [c.authors.code((p, i)) for p, i, _ in more]

        def joined(column: str, words: str = "") -> Ints:
            parts = []
            for s in sources:
                values = getattr(s, column)
                if words:
                    own, all_ = getattr(s.words, words), getattr(c, words)
                    values = np.array([*(all_.code(w) for w in own.words), NONE], dtype=np.int64)[values]
                parts.append(values)
            return np.concatenate([*parts, np.zeros(len(more), dtype=np.int64)])

        self.author = joined("author", "authors")
        self.n = joined("n")
        if more:
            self.author[-len(more) :] = authors
            self.n[-len(more) :] = [n for _, _, n in more]
        self.kind = np.where(joined("is_published").astype(np.bool_), 1, 2)
        if more:
            self.kind[-len(more) :] = 0
        self.topic, self.process = joined("topic", "topics"), joined("process", "processes")
        self.number, self.seq, self.row = joined("number"), joined("seq"), joined("place")
        self.at = joined("at").astype(np.float64)
        self.deadline = joined("deadline").astype(np.float64)
        lengths = [len(s.n) for s in sources]
        self.life = np.concatenate(
            [np.repeat(np.arange(len(sources)), lengths), np.zeros(len(more), dtype=np.int64)]
        )
