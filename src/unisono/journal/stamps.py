"""Stamps as columns, those of a whole run at once.

A run has a clock and no stamps; the stamp of an event is the clock after it, on the topics of its group. Topic
by topic that is a search: after the event at place p, the clock of x has moved on by as many events of x as there
are up to p.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unisono.journal.schema import layout_of, topics_of
from unisono.model.frames import Run

Codes = NDArray[np.int32]
Ints = NDArray[np.int64]
NULL = -1  # the code of no word at all


class Words(dict[str, int]):
    """Numbers words as they are first met."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number

    def codes(self, words: list[str]) -> Codes:
        """The number of each of these."""
        return np.fromiter(map(self.__getitem__, words), np.int32, len(words))

    def to_dictionary(self, codes: Codes) -> pa.DictionaryArray:
        """The words with these numbers; null where a number is negative."""
        mask = codes < 0
        indices = pa.array(codes, mask=mask if mask.any() else None)
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(self), pa.string()))


class Stamps:
    """The stamps of many events, one after the other."""

    def __init__(self) -> None:
        self.layouts = Words()
        self.numbers_count = 0
        self._layout: list[Codes] = []
        self._length: list[Codes] = []
        self._numbers: list[Ints] = []

    def _add(self, layout: Codes, length: Codes, numbers: Ints) -> None:
        self._layout.append(layout)
        self._length.append(length)
        self._numbers.append(numbers)
        self.numbers_count += len(numbers)

    def add(self, stamps: Iterable[Mapping[str, int] | None]) -> None:
        """One by one; None where an event has no stamp."""
        layouts, lengths, numbers = [], [], []
        for stamp in stamps:
            layout = None if stamp is None else layout_of(stamp)
            layouts.append(NULL if layout is None else self.layouts[layout])
            lengths.append(0 if stamp is None else len(stamp))
            if stamp and layout:
                numbers.extend([stamp[topic] for topic in topics_of(layout)])
        self._add(np.array(layouts, np.int32), np.array(lengths, np.int32), np.array(numbers, np.int64))

    def add_none(self, count: int) -> None:
        """So many events without a stamp."""
        self._add(np.full(count, NULL, np.int32), np.zeros(count, np.int32), np.empty(0, np.int64))

    def add_run(self, run: Run, topics: Words, topic: Codes) -> Ints:
        """All events of a run, whose topics have these codes; returns their numbers on their own topics."""
        places = _places(run, topics, topic)
        own = np.empty(len(topic), np.int64)
        alike: dict[
            tuple[str, ...], list[Ints]
        ] = {}  # where the events are whose stamps name the same topics
        for name, mine in places.items():
            first = run.base[run.index[name]] + 1
            own[mine] = np.arange(first, first + len(mine))
            alike.setdefault(tuple(sorted(run.groups[name])), []).append(mine)
        groups = {group: _merge(mine) for group, mine in alike.items()}
        layout, length = np.empty(len(topic), np.int32), np.empty(len(topic), np.int32)
        for group, mine in groups.items():
            layout[mine], length[mine] = self.layouts[layout_of(group)], len(group)
        ends = np.cumsum(length, dtype=np.int64)
        numbers = np.empty(int(ends[-1]), np.int64)
        for group, mine in groups.items():
            start = ends[mine] - len(group)
            for offset, name in enumerate(group):
                passed = np.searchsorted(places[name], mine, "right") if name in places else 0
                numbers[start + offset] = run.base[run.index[name]] + passed
        self._add(layout, length, numbers)
        return own

    def layout_codes(self) -> Codes:
        """For each event, which of the layouts its stamp has; negative for none."""
        return np.concatenate(self._layout)

    def to_list(self) -> pa.ListArray:
        """For each event, the numbers of its stamp; null for none."""
        length = np.concatenate(self._length)
        offsets = np.zeros(len(length) + 1, np.int32)
        np.cumsum(length, out=offsets[1:])
        numbers = np.concatenate(self._numbers)
        return pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(numbers), mask=pa.array(self.layout_codes() < 0)
        )


def _places(run: Run, topics: Words, topic: Codes) -> dict[str, Ints]:
    """Where in a run the events of each of its topics are, in order."""
    order = np.argsort(topic, kind="stable")
    names = sorted(run.counts, key=topics.__getitem__)
    ends = np.cumsum([run.counts[name] for name in names])
    return dict(zip(names, np.split(order, ends[:-1]), strict=True))


def _merge(places: list[Ints]) -> Ints:
    return places[0] if len(places) == 1 else np.sort(np.concatenate(places))
