"""The certificate audit: every life on its own, then what the lives say about each other.

`Witnessed` is the state of a life. It is fed chunks, it can be pickled, and fed on when the life has grown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Self, TypeAlias

import numpy as np

from unisono.history import Kind
from unisono.journal.schema import topics_of
from unisono.model.errors import HistoryError
from unisono.pipeline.certificate import ORDERED, TOTAL, Certificate
from unisono.pipeline.columns import (
    CODE,
    CONTROL,
    NONE,
    OF_NO_SUBSCRIPTION,
    Chunk,
    Codes,
    Ints,
    Vocabulary,
    present,
    read_chunks,
)
from unisono.pipeline.digests import BLOCK, Block, Book, Copies, copies, suspects
from unisono.pipeline.findings import Doubt, Found, Row
from unisono.pipeline.ledgers import Ranges
from unisono.pipeline.segments import Life, Segment
from unisono.pipeline.tally import COLUMNS as TALLIED
from unisono.pipeline.tally import Tally

Reach: TypeAlias = Sequence[dict[str, tuple[int, int]]]
COLUMNS = (*CONTROL, "epoch", "layout", "stamp")


class Witnessed:
    """What one life shows: a certificate and a book for each subscription, and what it sequenced."""

    def __init__(self, life: str, tally: Tally | None = None) -> None:
        self.life = life
        self.tally = tally  # where what a planner needs is carried over too
        self.words = Vocabulary()
        self.rows = 0
        self.segments = 0
        self.whole_segments = 0  # that could be read to their ends
        self.reach: list[
            dict[str, tuple[int, int]]
        ] = []  # of each segment: topic -> lowest and highest number
        self.healed = False
        self.broken = ""  # why it could not be read on
        self.certificates: dict[tuple[str, str], Certificate] = {}
        self.books: dict[tuple[str, str], Book] = {}
        self.sequenced = self.new_book()
        self.numbers: dict[str, Ranges] = {}  # topic -> what was sequenced
        self.layouts: set[tuple[str, str]] = set()  # (topic, layout) of deliveries

    def new_book(self) -> Book:
        """What stamps are noted in, to be compared with those that others note."""
        return Book()

    def feed(self, segments: Sequence[Segment]) -> Self:
        """Judge the segments that follow those already fed; stops for good at one that cannot be read."""
        if self.broken:
            return self
        for segment in segments:
            self.reach.append({})
            self.segments += 1
            try:
                self._feed(segment)
            except HistoryError as error:
                self.broken = str(error)
                break
        return self

    def slim(self) -> Self:
        """Without what is only needed to be fed on."""
        for certificate in self.certificates.values():
            certificate.seen, certificate.last_n, certificate.only_tagged = {}, {}, set()
        return self

    def _feed(self, segment: Segment) -> None:
        more = () if self.tally is None else TALLIED
        self.feed_chunks(read_chunks([segment], self.words, *COLUMNS, *more, first=self.rows))

    def feed_chunks(self, chunks: Iterable[Chunk]) -> None:
        """Judge the rows that follow those already fed."""
        for chunk in chunks:
            kind = chunk.kind
            if self.tally is not None:
                self.tally.feed(chunk, self.words)
            self.healed |= bool((kind == CODE[Kind.HEALED]).any())
            sequenced = np.flatnonzero(kind == CODE[Kind.SEQUENCED])
            self._sequence(chunk, sequenced)
            self._note_reach(chunk, sequenced)
            theirs = ~np.isin(kind, OF_NO_SUBSCRIPTION)
            for code in present(chunk.subscription[theirs]):
                key = self.words.subscriptions.words[code]
                mine = np.flatnonzero(theirs & (chunk.subscription == code))
                if key not in self.certificates:
                    self.certificates[key] = Certificate(self.life, self.words)
                    self.books[key] = self.new_book()
                self.certificates[key].feed(chunk, mine)
                delivered = mine[kind[mine] == CODE[Kind.DELIVERED]]
                self.books[key].feed(chunk, delivered, self.words)
                self._note_reach(chunk, delivered)
                self._note_layouts(chunk.topic[delivered], chunk.more["layout"][delivered])
            self.rows += len(chunk)

    def _sequence(self, chunk: Chunk, rows: Ints) -> None:
        if not len(rows):
            return
        self.sequenced.feed(chunk, rows, self.words)
        topics, numbers = chunk.topic[rows], chunk.more["number"][rows]
        for topic in present(topics):
            name = self.words.topics.words[topic]
            self.numbers.setdefault(name, Ranges()).add(numbers[topics == topic])

    def _note_reach(self, chunk: Chunk, rows: Ints) -> None:
        topics, numbers = chunk.topic[rows], chunk.more["number"][rows]
        reach = self.reach[-1]
        for code in present(topics):
            mine = numbers[topics == code]
            low, high = reach.setdefault(str(self.words.topics.words[code]), (int(mine[0]), int(mine[0])))
            reach[str(self.words.topics.words[code])] = (
                min(low, int(mine.min())),
                max(high, int(mine.max())),
            )

    def _note_layouts(self, topics: Codes, layouts: Codes) -> None:
        for key in np.unique(topics.astype(np.int64) << 32 | (layouts + 1)).tolist():
            layout = (key & 0xFFFFFFFF) - 1
            self.layouts.add(
                (
                    self.words.topics.words[key >> 32],
                    "" if layout == NONE else self.words.layouts.words[layout],
                )
            )


class Certified:
    """What all lives together show."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.doubts: list[Doubt] = []
        self.checked: dict[str, int] = defaultdict(int)
        self.deliveries = 0


def certify(lives: Iterable[Witnessed], whole: set[str], suspected: tuple[Row, Row] | None) -> Certified:
    """The verdict over all lives; `whole` names those of which nothing is missing."""
    lives = list(lives)
    result = Certified()
    certificates = [c for life in lives for c in life.certificates.values()]
    result.deliveries = sum(c.deliveries for c in certificates)
    for certificate in certificates:
        result.found += certificate.found.values()
    _count(result, certificates)
    if suspected is not None:
        result.found.append(Found("stamps", "stamps_differ", suspected))
    _unstamped(result, certificates)
    _lost(result, lives, whole)
    _total(result, lives, suspected is not None)
    return result


def suspected_blocks(lives: Iterable[Witnessed]) -> set[Block]:
    """Where stamps have to be compared row by row."""
    lives = list(lives)
    return suspects(
        [life.sequenced for life in lives], [book for life in lives for book in life.books.values()]
    )


def copies_in(life_and_reach: tuple[Life, Reach], blocks: set[Block]) -> list[Copies]:
    """The stamped rows of a life that lie in one of `blocks`; segments that cannot have any are not opened."""
    life, reach = life_and_reach
    words = Vocabulary()
    kinds = [CODE[Kind.DELIVERED], CODE[Kind.SEQUENCED]]
    found: list[Copies] = []
    first = 0
    for segment, spans in zip(life.segments, reach, strict=False):
        if any(_touches(spans, block) for block in blocks):
            for chunk in read_chunks([segment], words, *COLUMNS, first=first):
                rows = np.flatnonzero(np.isin(chunk.kind, kinds))
                found += copies(chunk, rows, words, life.name, blocks)
        first += segment.rows
    return found


def _touches(spans: dict[str, tuple[int, int]], block: Block) -> bool:
    low, high = spans.get(block.topic, (1, 0))
    return low <= high and low // BLOCK <= block.at <= high // BLOCK


def _count(result: Certified, certificates: Sequence[Certificate]) -> None:
    none = "the journal has no subscription"
    for promise, orders, why in (
        ("no_duplication", None, none),
        ("no_endless_wait", None, none),
        ("publisher_fifo", ORDERED, "no subscription was promised an order"),
        ("tags", TOTAL, "no subscription was promised a total order"),
        ("stamps", TOTAL, "no subscription was promised a total order"),
    ):
        judged = [c for c in certificates if orders is None or c.order in orders]
        if not judged:
            result.doubts.append(Doubt(promise, why, matters=False))
        counted = sum(c.checked if promise == "tags" else c.deliveries for c in judged)
        result.checked[promise] = len(judged) if promise == "no_endless_wait" else counted


def _unstamped(result: Certified, certificates: Sequence[Certificate]) -> None:
    for c in certificates:
        if c.unstamped != NONE:
            row = c.row(c.unstamped)
            for promise in ("tags", "stamps"):
                result.doubts.append(Doubt(promise, "{0} came without a stamp to judge it by", (row,)))
            return


def _lost(result: Certified, lives: Sequence[Witnessed], whole: set[str]) -> None:
    promise = "nothing_lost"
    judged = [c for life in lives for c in life.certificates.values() if c.order in ORDERED]
    if not judged:
        result.doubts.append(Doubt(promise, "no subscription was promised an order", matters=False))
        return
    if not any(life.healed for life in lives):
        words = "the journal has no 'healed' record: what is missing might still have come"
        result.doubts.append(Doubt(promise, words, matters=False))
        return
    sequenced: dict[str, list[tuple[str, Ranges]]] = defaultdict(list)
    for life in lives:
        for topic, numbers in life.numbers.items():
            sequenced[topic].append((life.life, numbers))
    for c in judged:
        result.checked[promise] += c.deliveries
        found = _first_lost(c, sequenced)
        if found is None:
            continue
        if c.life in whole:
            result.found.append(found)
        else:
            words = f"the journal of {c.life} has no end: what it lacks may only not have been written"
            result.doubts.append(Doubt(promise, words))


def _first_lost(c: Certificate, sequenced: dict[str, list[tuple[str, Ranges]]]) -> Found | None:
    for topic, spans in c.spans.items():
        name, delivered = c.words.topics.words[topic], c.delivered.get(topic, Ranges())
        for span in spans:
            for by, numbers in sequenced.get(name, ()):
                for first, last in numbers.without(delivered, span.floor, span.last):
                    for number in range(first, last + 1):
                        has_reason, at = c.gone.get((topic, number), (False, NONE))
                        if not has_reason:
                            gone = (Row(c.life, at),) if at != NONE else ()
                            return Found("nothing_lost", "lost", (span.joined, *gone), (name, number, by))
    return None


def _total(result: Certified, lives: Sequence[Witnessed], differ: bool) -> None:
    """Clean against equal stamps proves total order, where stamps of topics that two share name each other."""
    promise = "total_notification_order"
    certificates = [c for life in lives for c in life.certificates.values() if c.order in TOTAL]
    if not certificates:
        result.doubts.append(Doubt(promise, "no subscription was promised a total order", matters=False))
        return
    why = ""
    if differ or any("tags" in c.found or c.unstamped != NONE for c in certificates):
        why = "the stamps do not prove it"
    elif not all(c.is_plain for c in certificates):
        why = "topics were left, or lost events passed over, which stamps alone do not cover"
    else:
        why = _uncovered(lives, certificates)
    if why:
        result.doubts.append(Doubt(promise, f"{why}; the independent audit can tell"))
    else:
        result.checked[promise] = sum(c.checked for c in certificates)


def _uncovered(lives: Sequence[Witnessed], certificates: Sequence[Certificate]) -> str:
    together: dict[tuple[str, str], int] = defaultdict(int)
    for c in certificates:
        for pair in combinations(sorted(str(c.words.topics.words[t]) for t in c.clock), 2):
            together[pair] += 1
    named: dict[str, list[set[str]]] = defaultdict(list)
    for life in lives:
        for topic, layout in life.layouts:
            named[topic].append(set(topics_of(layout)))
    for (x, y), shared in together.items():
        covered = all(y in topics for topics in named[x]) or all(x in topics for topics in named[y])
        if shared > 1 and not covered:
            return f"{x} and {y} share {shared} subscriptions, but their stamps do not name each other"
    return ""
