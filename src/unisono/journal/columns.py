"""What a tape holds, as the columns of the schema."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unisono.history.record import Kind
from unisono.journal.schema import SCHEMA
from unisono.journal.stamps import Stamps, Words
from unisono.model.frames import Publication, Run

_ROW_BYTES = 120  # of columns, without stamps and payloads
_NULL = -1  # the number of no word


class Fact(NamedTuple):
    """What is known about an event that came alone, or about none."""

    publisher: str | None
    incarnation: int
    n: int
    topic: str | None
    number: int = 0
    stamp: Mapping[str, int] | None = None
    published_at: float = 0.0


class Facts:
    """Many facts, column by column; no payloads, so that whatever they were taken from can go."""

    def __init__(self) -> None:
        self.publishers, self.topics = Words(), Words()
        self.publisher, self.topic, self.epoch = array("i"), array("i"), array("i")
        self.incarnation, self.n = array("q"), array("q")
        self.number = array("q")
        self.published_at = array("d")
        self.stamps = Stamps()

    def __len__(self) -> int:
        return len(self.n)

    def add_singles(self, facts: Sequence[Fact]) -> None:
        """Facts one by one."""
        for fact in facts:
            self.publisher.append(_NULL if fact.publisher is None else self.publishers[fact.publisher])
            self.incarnation.append(fact.incarnation)
            self.n.append(fact.n)
            self.topic.append(_NULL if fact.topic is None else self.topics[fact.topic])
            self.published_at.append(fact.published_at)
            self.number.append(fact.number)
            self.stamps.add(fact.stamp)
        self.epoch.extend(array("i", [0]) * len(facts))

    def add_publications(self, publications: list[Publication]) -> None:
        """Events that have no stamp."""
        self._add_ids(publications)
        self.number.extend(array("q", [0]) * len(publications))
        self.epoch.extend(array("i", [0]) * len(publications))
        self.stamps.add_none(len(publications))

    def add_run(self, run: Run) -> None:
        """The events of a run."""
        self._add_ids(run.publications)
        self.epoch.extend(array("i", [run.epoch]) * len(run.publications))
        self.number.extend(self.stamps.add_run(run))

    def _add_ids(self, publications: list[Publication]) -> None:
        # Loops inside the interpreter's own functions: this is most of what a journal costs.
        self.publisher.extend(map(self.publishers.__getitem__, map(_publisher_of, publications)))
        self.topic.extend(map(self.topics.__getitem__, map(_topic_of, publications)))
        self.incarnation.extend(map(_incarnation_of, publications))
        self.n.extend(map(_n_of, publications))
        self.published_at.extend(map(_published_at_of, publications))


_publisher_of: Any = attrgetter("publisher")
_incarnation_of: Any = attrgetter("incarnation")
_n_of: Any = attrgetter("n")
_topic_of: Any = attrgetter("topic")
_published_at_of: Any = attrgetter("published_at")


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
    bodies: list[bytes] | None  # of the first facts, those of publications

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.at)

    @property
    def nbytes(self) -> int:
        """About how much memory the table will take."""
        per_fact = 8 * len(self.facts.stamps) / max(1, len(self.facts))
        bodies = 0 if self.bodies is None else sum(map(len, self.bodies))
        return round(len(self.at) * (_ROW_BYTES + per_fact)) + bodies

    def to_table(self) -> pa.Table:
        """The rows, in the columns of the schema."""
        count, fact, facts = len(self.at), self.fact, self.facts
        kinds, subscriptions = Words(), Words()
        kind_of_lane = np.array([kinds[kind.value] for kind, _ in self.lanes], np.int32)
        subscription_of_lane = np.array([subscriptions[name] for _, name in self.lanes], np.int32)
        lane = np.frombuffer(self.lane, np.int32)
        is_delivered = np.array([kind is Kind.DELIVERED for kind, _ in self.lanes])[lane]
        in_order = np.ones(count, bool)
        in_order[self.tagged] = False
        publisher = np.frombuffer(facts.publisher, np.int32)[fact]
        no_event = publisher < 0 if _NULL in facts.publisher else None
        columns = {
            "kind": _words(kind_of_lane[lane], kinds),
            "process": _words(np.zeros(count, np.int32), [self.process]),
            "subscription": _words(subscription_of_lane[lane], subscriptions),
            "seq": pa.array(np.arange(self.first_seq, self.first_seq + count)),
            "at": pa.array(np.frombuffer(self.at, np.float64)),
            "publisher": _words(publisher, facts.publishers),
            "incarnation": pa.array(np.frombuffer(facts.incarnation, np.int64)[fact], mask=no_event),
            "n": pa.array(np.frombuffer(facts.n, np.int64)[fact], mask=no_event),
            "topic": _words(np.frombuffer(facts.topic, np.int32)[fact], facts.topics),
            "number": pa.array(np.frombuffer(facts.number, np.int64)[fact]),
            "epoch": pa.array(np.frombuffer(facts.epoch, np.int32)[fact]),
            "in_order": pa.array(in_order),
            "layout": _words(facts.stamps.layout_codes()[fact], facts.stamps.layouts),
            "stamp": facts.stamps.to_list().take(pa.array(fact)),
            "published_at": pa.array(np.frombuffer(facts.published_at, np.float64)[fact], mask=~is_delivered),
            **self._rare_words(),
            "body": self._bodies(),
        }
        return pa.Table.from_pydict(columns, SCHEMA)

    def _rare_words(self) -> dict[str, pa.Array]:
        """The columns that hold a word only where something unusual happened."""
        columns = {}
        for i, name in enumerate(("order", "on_gap", "reason")):
            words, codes = Words(), np.full(len(self.at), _NULL, np.int32)
            for row, values in self.words.items():
                if values[i]:
                    codes[row] = words[values[i]]
            columns[name] = _words(codes, words)
        return columns

    def _bodies(self) -> pa.Array:
        if self.bodies is None:
            return pa.nulls(len(self.at), pa.binary())
        publishing = [kind is Kind.PUBLISHED for kind, _ in self.lanes]
        pairs = zip(self.lane, self.fact.tolist(), strict=True)
        return pa.array([self.bodies[f] if publishing[lane] else None for lane, f in pairs], pa.binary())


def _words(codes: NDArray[np.int32], words: Iterable[str]) -> pa.DictionaryArray:
    mask = codes < 0
    indices = pa.array(codes, mask=mask if mask.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(words), pa.string()))
