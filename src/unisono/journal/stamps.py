"""Stamps as columns, those of a whole run at once.

A run has a clock and no stamps; the stamp of an event is the clock after it, on the topics of its group. Topic
by topic that is a search: after the event at place p, the clock of x has moved on by as many events of x as there
are up to p.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unisono.journal.schema import layout_of, topics_of
from unisono.model.frames import Run

Ints = NDArray[np.int64]
_NO_STAMP = -1  # the layout of an event without one
_FEW = 24  # below this many events plain Python is faster


class Words(dict[str, int]):
    """Numbers words as they are first met."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class Stamps:
    """The stamps of many events, one after the other."""

    def __init__(self) -> None:
        self.layouts = Words()
        self._layout = array("i")
        self._length = array("i")
        self._numbers = array("q")

    def __len__(self) -> int:
        """How many numbers there are in all of them."""
        return len(self._numbers)

    def add(self, entries: Mapping[str, int] | None) -> None:
        """One event's stamp, or that it has none."""
        if entries is None:
            self.add_none(1)
            return
        layout = layout_of(entries)
        self._layout.append(self.layouts[layout])
        self._length.append(len(entries))
        self._numbers.extend([entries[topic] for topic in topics_of(layout)])

    def add_none(self, count: int) -> None:
        """So many events without a stamp."""
        self._layout.extend(array("i", [_NO_STAMP]) * count)
        self._length.extend(array("i", [0]) * count)

    def add_run(self, run: Run) -> array[int]:
        """The stamps of all events of a run; returns their numbers on their own topics."""
        if len(run.publications) >= _FEW:
            return self._add_many(run)
        own = array("q")
        for place, publication in enumerate(run.publications):
            entries = run.entries(place)
            self.add(entries)
            own.append(entries[publication.topic])
        return own

    def _add_many(self, run: Run) -> array[int]:
        total, clock = len(run.publications), {topic: run.base[run.index[topic]] for topic in run.counts}
        places = {topic: np.array(at, np.int64) for topic, at in run.by_topic.items()}
        groups: dict[tuple[str, ...], list[Ints]] = {}  # where the events are whose stamps look alike
        own = np.empty(total, np.int64)
        for topic, at in places.items():
            own[at] = np.arange(clock[topic] + 1, clock[topic] + 1 + len(at))
            groups.setdefault(tuple(sorted(run.groups[topic])), []).append(at)
        layout, length = np.empty(total, np.int32), np.empty(total, np.int32)
        merged = {group: _merge(at) for group, at in groups.items()}
        for group, mine in merged.items():
            layout[mine], length[mine] = self.layouts[layout_of(group)], len(group)
        ends = np.cumsum(length, dtype=np.int64)
        numbers = np.empty(int(ends[-1]), np.int64)
        for group, mine in merged.items():
            start = ends[mine] - len(group)
            for offset, topic in enumerate(group):
                moved = np.searchsorted(places[topic], mine, "right") if topic in places else 0
                numbers[start + offset] = run.base[run.index[topic]] + moved
        self._layout.frombytes(layout.tobytes())
        self._length.frombytes(length.tobytes())
        self._numbers.frombytes(numbers.tobytes())
        return array("q", own.tobytes())

    def layout_codes(self) -> NDArray[np.int32]:
        """For each event, which of the layouts its stamp has; negative for none."""
        return np.frombuffer(self._layout, np.int32)

    def to_list(self) -> pa.ListArray:
        """For each event, the numbers of its stamp; null for none."""
        offsets = np.zeros(len(self._length) + 1, np.int32)
        np.cumsum(np.frombuffer(self._length, np.int32), out=offsets[1:])
        return pa.ListArray.from_arrays(
            pa.array(offsets),
            pa.array(np.frombuffer(self._numbers, np.int64)),
            mask=pa.array(self.layout_codes() < 0),
        )


def _merge(places: list[Ints]) -> Ints:
    return places[0] if len(places) == 1 else np.sort(np.concatenate(places))
