"""What a tape holds, as the columns of the schema."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unisono.history.record import Kind
from unisono.journal.schema import SCHEMA
from unisono.journal.stamps import NULL, Stamps, Words
from unisono.model.frames import Publication, Run

_ROW_BYTES = 120  # of columns, without stamps and payloads


class Fact(NamedTuple):
    """What is known about an event that came alone, or about none."""

    publisher: str | None
    incarnation: int
    n: int
    topic: str | None
    number: int = 0
    epoch: int = 0
    stamp: Mapping[str, int] | None = None
    published_at: float = 0.0
    deadline: float | None = None


class Facts:
    """What rows can be about, column by column: first publications, then the events of runs, then single facts.

    Payloads are not among them, so that whatever they were taken from can go.
    """

    def __init__(self, publications: list[Publication], runs: list[Run], singles: list[Fact]) -> None:
        self.publishers, self.topics, self.stamps = Words(), Words(), Stamps()
        # Most of what a journal costs is here, and a comprehension is the fastest way to read a column.
        flat = list(chain(publications, *[run.publications for run in runs]))
        self.publisher = self.publishers.codes([p.publisher for p in flat])
        self.incarnation = np.fromiter([p.incarnation for p in flat], np.int64, len(flat))
        self.n = np.fromiter([p.n for p in flat], np.int64, len(flat))
        self.topic = self.topics.codes([p.topic for p in flat])
        self.published_at = np.fromiter([p.published_at for p in flat], np.float64, len(flat))
        self.deadline = np.array([p.deadline for p in flat], np.float64)  # NaN where there is none
        self._add_stamps(len(publications), runs)
        if singles:
            self._add(singles)

    def __len__(self) -> int:
        return len(self.n)

    def _add_stamps(self, start: int, runs: list[Run]) -> None:
        self.stamps.add_none(start)
        numbers, epochs = [np.zeros(start, np.int64)], [np.zeros(start, np.int32)]
        for run in runs:
            end = start + len(run)
            numbers.append(self.stamps.add_run(run, self.topics, self.topic[start:end]))
            epochs.append(np.full(end - start, run.epoch, np.int32))
            start = end
        self.number, self.epoch = np.concatenate(numbers), np.concatenate(epochs)

    def _add(self, facts: list[Fact]) -> None:
        columns = zip(*facts, strict=True)
        publishers, incarnations, ns, topics, numbers, epochs, stamps, times, deadlines = columns
        self.publisher = _extended(
            self.publisher, [NULL if p is None else self.publishers[p] for p in publishers]
        )
        self.topic = _extended(self.topic, [NULL if t is None else self.topics[t] for t in topics])
        self.incarnation = _extended(self.incarnation, incarnations)
        self.n = _extended(self.n, ns)
        self.number = _extended(self.number, numbers)
        self.epoch = _extended(self.epoch, epochs)
        self.published_at = _extended(self.published_at, times)
        self.deadline = _extended(self.deadline, deadlines)
        self.stamps.add(stamps)


def _extended(column: NDArray[Any], more: Sequence[Any]) -> NDArray[Any]:
    return np.concatenate([column, np.array(more, column.dtype)])


class Rows(NamedTuple):
    """Rows of a process that follow each other; a table is made of them in the writer's thread."""

    process: str
    first_seq: int
    lanes: list[tuple[Kind, str]]  # what happened, to which subscription
    lane: array[int]
    fact: NDArray[np.int64]
    at: array[float]
    facts: Facts
    tagged: list[int]  # rows of deliveries out of order
    words: dict[int, tuple[str, str, str]]  # row -> order, on_gap, reason
    bodies: list[bytes] | None  # of publications, the first of the facts

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.at)

    @property
    def nbytes(self) -> int:
        """About how much memory the table will take."""
        per_fact = 8 * self.facts.stamps.numbers_count / max(1, len(self.facts))
        bodies = 0 if self.bodies is None else sum(map(len, self.bodies))
        return round(len(self.at) * (_ROW_BYTES + per_fact)) + bodies

    def to_table(self) -> pa.Table:
        """The rows, in the columns of the schema."""
        count, fact, facts = len(self.at), self.fact, self.facts
        kinds, subscriptions, processes = Words(), Words(), Words({self.process: 0})
        kind = kinds.codes([kind.value for kind, _ in self.lanes])
        subscription = subscriptions.codes([name for _, name in self.lanes])
        lane = np.frombuffer(self.lane, np.int32)
        is_delivered = np.array([kind is Kind.DELIVERED for kind, _ in self.lanes])[lane]
        in_order = np.ones(count, bool)
        in_order[self.tagged] = False
        publisher = facts.publisher[fact]
        no_event = publisher < 0
        columns = {
            "kind": kinds.to_dictionary(kind[lane]),
            "process": processes.to_dictionary(np.zeros(count, np.int32)),
            "subscription": subscriptions.to_dictionary(subscription[lane]),
            "seq": pa.array(np.arange(self.first_seq, self.first_seq + count)),
            "at": pa.array(np.frombuffer(self.at, np.float64)),
            "publisher": facts.publishers.to_dictionary(publisher),
            "incarnation": pa.array(facts.incarnation[fact], mask=no_event),
            "n": pa.array(facts.n[fact], mask=no_event),
            "topic": facts.topics.to_dictionary(facts.topic[fact]),
            "number": pa.array(facts.number[fact]),
            "epoch": pa.array(facts.epoch[fact]),
            "in_order": pa.array(in_order),
            "layout": facts.stamps.layouts.to_dictionary(facts.stamps.layout_codes()[fact]),
            "stamp": facts.stamps.to_list().take(pa.array(fact)),
            "published_at": pa.array(facts.published_at[fact], mask=~is_delivered),
            **self._rare_words(),
            "body": self._bodies(),
            "deadline": pa.array(facts.deadline[fact], from_pandas=True),
        }
        return pa.Table.from_pydict(columns, SCHEMA)

    def _rare_words(self) -> dict[str, pa.Array]:
        """The columns that hold a word only where something unusual happened."""
        columns = {}
        for i, name in enumerate(("order", "on_gap", "reason")):
            words, codes = Words(), np.full(len(self.at), NULL, np.int32)
            for row, values in self.words.items():
                if values[i]:
                    codes[row] = words[values[i]]
            columns[name] = words.to_dictionary(codes)
        return columns

    def _bodies(self) -> pa.Array:
        if self.bodies is None:
            return pa.nulls(len(self.at), pa.binary())
        publishing = [kind is Kind.PUBLISHED for kind, _ in self.lanes]
        pairs = zip(self.lane, self.fact.tolist(), strict=True)
        return pa.array([self.bodies[f] if publishing[lane] else None for lane, f in pairs], pa.binary())
