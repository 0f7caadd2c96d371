"""Do all who saw an event saw it with the same number, id and stamp? Asked of 4,096 numbers at a time.

For each topic and block of numbers, the 64-bit hashes of (number, id, stamp) are added up: the sum does not
depend on the order of the rows. Who has the same count and the same sum as the sequencer has seen the same; only
blocks that differ are compared row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unisono.journal.schema import topics_of
from unisono.pipeline.columns import NONE, Bools, Chunk, Ints, Vocabulary, order_of, present, stamp_matrix
from unisono.pipeline.findings import Row

BLOCK = 4096
Hashes: TypeAlias = NDArray[np.uint64]


class Block(NamedTuple):
    """Numbers `at * BLOCK` up to the next block, of one topic."""

    topic: str
    at: int


class Sum(NamedTuple):
    """How many rows of a block there are and what their hashes add up to."""

    rows: int
    hashes: int


class Copies(NamedTuple):
    """Rows of one life about one topic: the number, the hash and the place of each, and how many it stands for."""

    topic: str
    life: str
    numbers: Ints
    hashes: Hashes
    places: Ints
    times: Ints


def factor(word: str) -> int:
    """An odd 64-bit number that stands for a word, the same on every machine."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest()) | 1


def hashes(chunk: Chunk, rows: Ints, words: Vocabulary) -> Hashes:
    """The hash of number, id and stamp of each row, all of which have a stamp."""
    with np.errstate(over="ignore"):
        authors = np.array([factor(f"{p}/{i}") for p, i in words.authors.words] or [0], dtype=np.uint64)
        total: Hashes = authors[chunk.author[rows]] * (chunk.n[rows].astype(np.uint64) * _N + _ONE)
        total += chunk.more["number"][rows].astype(np.uint64) * _NUMBER
        layouts, starts = chunk.more["layout"][rows], chunk.more["stamp_at"][rows]
        for layout in present(layouts):
            of_layout = layouts == layout
            topics = topics_of(words.layouts.words[layout])
            factors = np.array([factor(t) for t in topics], dtype=np.uint64)
            matrix = stamp_matrix(chunk.more["stamp"], starts[of_layout], len(topics))
            total[of_layout] += _sums(matrix, factors)
        total ^= total >> _HALF
        total *= _MIX
        total ^= total >> _HALF
    return total


class Book:
    """The sums of one subscription, or of all that was sequenced in one life."""

    def __init__(self) -> None:
        self.sums: dict[Block, Sum] = {}

    def feed(self, chunk: Chunk, rows: Ints, words: Vocabulary) -> None:
        """Add the rows that have a stamp."""
        rows = stamped(chunk, rows)
        if not len(rows):
            return
        number = chunk.more["number"][rows]
        index = number // BLOCK
        low = int(index.min())
        width = int(index.max()) - low + 1
        key = chunk.topic[rows].astype(np.int64) * width + (index - low)
        order = order_of(key)
        key, values = key[order], hashes(chunk, rows, words)[order]
        starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        counts = np.diff(np.concatenate((starts, [len(key)])))
        sums = np.add.reduceat(values, starts)
        for k, count, total in zip(key[starts].tolist(), counts.tolist(), sums.tolist(), strict=True):
            block = Block(words.topics.words[k // width], k % width + low)
            before = self.sums.get(block, Sum(0, 0))
            self.sums[block] = Sum(before.rows + count, (before.hashes + total) % (1 << 64))


def stamped(chunk: Chunk, rows: Ints) -> Ints:
    """Those of `rows` that are about a numbered event with a stamp."""
    keep: Bools = (chunk.more["layout"][rows] != NONE) & (chunk.author[rows] != NONE)
    keep &= chunk.more["number"][rows] > 0
    return rows if keep.all() else rows[keep]


def suspects(sequenced: Iterable[Book], seen: Iterable[Book]) -> set[Block]:
    """The blocks in which somebody's sum is not that of the sequencer, or of most others where none is recorded."""
    truth: dict[Block, Sum] = {}
    for book in sequenced:
        for block, (rows, total) in book.sums.items():
            before = truth.get(block, Sum(0, 0))
            truth[block] = Sum(before.rows + rows, (before.hashes + total) % (1 << 64))
    found: set[Block] = set()
    for book in seen:
        for block, mine in book.sums.items():
            if truth.setdefault(block, mine) != mine:
                found.add(block)
    return found


class Pages(Book):
    """The rows themselves instead of their sums, for whoever compares them as they come."""

    def __init__(self, life: str) -> None:
        super().__init__()
        self.life = life
        self._rows: list[Copies] = []

    def feed(self, chunk: Chunk, rows: Ints, words: Vocabulary) -> None:
        """Keep the rows that have a stamp."""
        self._rows += copies(chunk, rows, words, self.life)

    def take(self) -> list[Copies]:
        """All that came since the last time."""
        taken, self._rows = self._rows, []
        return taken


def copies(
    chunk: Chunk, rows: Ints, words: Vocabulary, life: str, blocks: set[Block] | None = None
) -> list[Copies]:
    """The rows that lie in one of `blocks`, or all of them."""
    rows = stamped(chunk, rows)
    codes = chunk.topic[rows]
    found = []
    for code in present(codes):
        topic = words.topics.words[code]
        mine = rows[codes == code]
        if blocks is not None:
            wanted = [block.at for block in blocks if block.topic == topic]
            mine = mine[np.isin(chunk.more["number"][mine] // BLOCK, wanted)]
        if len(mine):
            number, hashed = chunk.more["number"][mine], hashes(chunk, mine, words)
            found.append(Copies(topic, life, number, hashed, mine + chunk.first, np.ones_like(number)))
    return found


def disagreement(all_copies: Iterable[Copies]) -> tuple[Row, Row] | None:
    """Two rows of one topic and number that differ: one that is rare, and one of the others.

    Of two that are as rare, the one that comes later among the copies is the odd one.
    """
    by_topic: dict[str, list[Copies]] = defaultdict(list)
    for part in all_copies:
        by_topic[part.topic].append(part)
    for topic in sorted(by_topic):
        parts = by_topic[topic]
        numbers = np.concatenate([p.numbers for p in parts])
        hashed = np.concatenate([p.hashes for p in parts])
        order = np.lexsort((hashed, numbers))
        same = numbers[order][1:] == numbers[order][:-1]
        differ = np.flatnonzero(same & (hashed[order][1:] != hashed[order][:-1]))
        if len(differ):
            mine = np.flatnonzero(numbers == numbers[order][differ[0]])
            _, first, which = np.unique(hashed[mine], return_index=True, return_inverse=True)
            counts = np.bincount(which.ravel(), weights=np.concatenate([p.times for p in parts])[mine])
            ranked = np.lexsort((-first, counts))
            rare, common = mine[first[ranked[0]]], mine[first[ranked[-1]]]
            return _place(parts, int(rare)), _place(parts, int(common))
    return None


def _place(parts: list[Copies], at: int) -> Row:
    for part in parts:
        if at < len(part.numbers):
            return Row(part.life, int(part.places[at]))
        at -= len(part.numbers)
    raise IndexError(at)


def _sums(matrix: Ints, factors: Hashes) -> Hashes:
    total: Hashes = matrix.view(np.uint64) @ factors  # overflows as it should
    return total


_N, _NUMBER, _MIX = (np.uint64(factor(w)) for w in ("unisono.n", "unisono.number", "unisono.mix"))
_ONE, _HALF = np.uint64(1), np.uint64(32)
