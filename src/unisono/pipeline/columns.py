"""Rows of a life as numpy columns, a bounded number at a time, words replaced by small integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from unisono.history import Kind
from unisono.model.errors import HistoryError
from unisono.pipeline.segments import Segment

Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]

ROWS_MAX = 1 << 16  # in memory at a time
KINDS = {kind.value: code for code, kind in enumerate(Kind)}
CODE = {kind: code for code, kind in enumerate(Kind)}
OF_NO_SUBSCRIPTION = [CODE[k] for k in (Kind.PUBLISHED, Kind.SEQUENCED, Kind.HEALED, Kind.TOLD)]
NONE = -1  # the code of no word

BASE = ("kind", "process", "subscription", "publisher", "incarnation", "n", "topic", "in_order")
CONTROL = ("number", "order", "on_gap", "reason")


class Words:
    """Words and the small integers that stand for them; grows, never forgets."""

    def __init__(self, words: Iterable[Any] = ()) -> None:
        self.words: list[Any] = []
        self._codes: dict[Any, int] = {}
        for word in words:
            self.code(word)

    def code(self, word: Any) -> int:
        """The integer for `word`; a new one for a new word."""
        code = self._codes.get(word)
        if code is None:
            code = self._codes[word] = len(self.words)
            self.words.append(word)
        return code

    def find(self, word: Any) -> int:
        """The integer for `word`, NONE if it has none."""
        return self._codes.get(word, NONE)

    def __len__(self) -> int:
        return len(self.words)


class Vocabulary:
    """The words of a life: subscriptions are (process, subscription), authors (publisher, incarnation)."""

    def __init__(self) -> None:
        self.processes, self.names, self.topics = Words(), Words(), Words()
        self.publishers, self.layouts, self.orders = Words(), Words(), Words()
        self.subscriptions, self.authors = Words(), Words()


@dataclass
class Chunk:
    """Some rows of a life; every column is as long as the chunk, `first` is the place of its first row."""

    first: int
    kind: Codes
    process: Codes
    subscription: Codes
    author: Codes
    n: Ints
    topic: Codes
    in_order: Bools
    more: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)


def read_chunks(
    segments: Sequence[Segment], words: Vocabulary, *more: str, first: int = 0, rows_max: int = ROWS_MAX
) -> Iterator[Chunk]:
    """The rows of `segments` in order, with the columns named in `more` beside the usual ones."""
    columns = [*BASE, *(c for c in more if c not in BASE)]
    for segment in segments:
        try:
            with pq.ParquetFile(segment.path) as file:
                # One thread: every core has a task of its own already.
                for batch in file.iter_batches(rows_max, columns=columns, use_threads=False):
                    yield _chunk(batch, words, first)
                    first += len(batch)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise HistoryError(f"segment '{segment.path}' cannot be read: {error}") from None


def chunks_of(batches: Iterable[pa.RecordBatch], words: Vocabulary, *, first: int = 0) -> Iterator[Chunk]:
    """The same of rows that are in memory already, all columns of them."""
    for batch in batches:
        for start in range(0, len(batch), ROWS_MAX):
            part = batch.slice(start, ROWS_MAX)
            yield _chunk(part, words, first)
            first += len(part)


def _chunk(batch: pa.RecordBatch, words: Vocabulary, first: int) -> Chunk:
    def column(name: str) -> pa.Array:
        return batch.column(batch.schema.get_field_index(name))

    process = coded(column("process"), words.processes)
    name = coded(column("subscription"), words.names)
    incarnation = numbers(column("incarnation"))
    publisher = coded(column("publisher"), words.publishers)
    chunk = Chunk(
        first,
        _kinds(column("kind")),
        process,
        _pairs(process, name.astype(np.int64), words.processes.words, words.names.words, words.subscriptions),
        _pairs(publisher, incarnation, words.publishers.words, None, words.authors),
        numbers(column("n")),
        coded(column("topic"), words.topics),
        np.asarray(column("in_order").to_numpy(zero_copy_only=False), dtype=np.bool_),
    )
    for name_ in batch.schema.names:
        if name_ in BASE:
            continue
        if name_ == "stamp":
            stamps = column("stamp")
            chunk.more["stamp_at"] = stamps.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
            chunk.more["stamp"] = stamps.values.to_numpy(zero_copy_only=False)
        elif name_ == "layout":
            chunk.more["layout"] = coded(column("layout"), words.layouts)
        elif name_ in ("order", "on_gap", "reason"):
            chunk.more[name_] = coded(column(name_), words.orders)
        else:
            chunk.more[name_] = column(name_).to_numpy(zero_copy_only=False)
    return chunk


def coded(column: pa.Array, words: Words) -> Codes:
    """A column of words as codes; NONE where there is no word."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    # What stands for "no word" is last, where the index -1 finds it.
    codes = np.array([*(words.code(w) for w in column.dictionary.to_pylist()), NONE], dtype=np.int32)
    places = column.indices.fill_null(-1) if column.null_count else column.indices
    found: Codes = codes[places.to_numpy(zero_copy_only=False)]
    return found


def present(codes: Codes) -> list[int]:
    """The codes that occur, ascending; much faster than sorting, for codes are small."""
    if not len(codes):
        return []
    found: list[int] = (np.flatnonzero(np.bincount(codes + 1)) - 1).tolist()
    return found


def order_of(keys: Ints) -> Ints:
    """The stable order of small keys; two bytes are sorted by counting, eight are not."""
    small = len(keys) and keys.max() < 1 << 15
    order: Ints = np.argsort(keys.astype(np.int16) if small else keys, kind="stable")
    return order


def stamp_matrix(values: Ints, starts: Ints, width: int) -> Ints:
    """The stamps of one layout that begin at `starts`, as rows."""
    first, last = int(starts[0]), int(starts[-1])
    if last - first == (len(starts) - 1) * width:  # nothing between them: a view is enough
        return values[first : last + width].reshape(len(starts), width)
    found: Ints = values[starts[:, None] + np.arange(width)]
    return found


def numbers(column: pa.Array) -> Ints:
    """A column of integers; 0 where there is none."""
    filled = column.fill_null(0) if column.null_count else column
    found: Ints = filled.to_numpy(zero_copy_only=False)
    return found


def _kinds(column: pa.Array) -> Codes:
    kinds = Words(KINDS)
    codes = coded(column, kinds)
    if len(kinds) > len(KINDS):
        raise HistoryError(f"'{kinds.words[-1]}' is not a kind of record")
    return codes


def _pairs(first: Codes, second: Ints, firsts: list[Any], seconds: list[Any] | None, pairs: Words) -> Codes:
    """One code for each pair; almost always the second is the same in all rows."""
    if not len(first):
        return first
    if second.min() == second.max():
        theirs = seconds[second[0]] if seconds is not None else int(second[0])
        code = np.full(len(firsts) + 1, NONE, dtype=np.int32)
        for f in present(first):
            if f != NONE:
                code[f] = pairs.code((firsts[f], theirs))
        found: Codes = code[first]
        return found
    _, at, back = np.unique(
        np.stack([first.astype(np.int64), second]), axis=1, return_index=True, return_inverse=True
    )
    codes = [
        NONE
        if first[i] == NONE
        else pairs.code((firsts[first[i]], seconds[second[i]] if seconds is not None else int(second[i])))
        for i in at
    ]
    spread: Codes = np.array(codes, dtype=np.int32)[back.ravel()]
    return spread
