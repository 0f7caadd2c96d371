"""Delivery orders as rows of small integers, and the two questions asked of them: opposite pairs, and cycles.

The clean case is linear: if the union of the rows has a topological order, that order is a witness in which
every row increases, and nothing can contradict it. Only what is left on or between cycles is looked at closer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

from unisono.history.explain import Before
from unisono.history.history import Subscription
from unisono.history.record import Record

CYCLE_STEPS_MAX = 5_000_000  # how long to look for a smaller cycle once one is known


class Rows:
    """One row for each subscription: the events it delivered untagged, in order."""

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        numbers: dict[str, int] = {}
        self.records: list[list[Record]] = [s.untagged for s in subscriptions]
        self.rows = [[numbers.setdefault(r.event, len(numbers)) for r in row] for row in self.records]
        self.events = len(numbers)
        self.deliveries = sum(map(len, self.rows))

    def tangled(self) -> Rows:
        """Only the events that lie on a cycle of the union or between two; none if a witness order exists."""
        forward = _stuck(self.rows, self.events)
        if not forward:
            return self._only(forward)
        backward = _stuck([row[::-1] for row in self.rows], self.events)
        return self._only(forward & backward)

    def opposite_pair(self) -> tuple[Before, Before] | None:
        """Two rows that hold the same two events in opposite orders; exact, costs one step per shared delivery."""
        places = self._places()
        for i, row in enumerate(self.rows):
            # For each other row, where the last shared event is: here, and there.
            last: dict[int, tuple[int, int]] = {}
            for here, event in enumerate(row):
                for j, there in reversed(places[event]):
                    if j == i:
                        break  # the rows before this one have been compared with it
                    here_before, there_before = last.get(j, (here, there))
                    # What is shared comes in one order exactly if no two neighbours are the wrong way round.
                    if there < there_before:
                        return (
                            Before(self.records[i][here_before], self.records[i][here]),
                            Before(self.records[j][there], self.records[j][there_before]),
                        )
                    last[j] = (here, there)
        return None

    def smallest_cycle(self) -> list[Before]:
        """The fewest steps "this row saw x before y" that lead back to where they began; empty if there is none."""
        pair = self.opposite_pair()
        if pair is not None:
            return list(pair)
        places = self._places()
        best: list[Before] = []
        for tries, start in enumerate(dict.fromkeys(chain.from_iterable(self.rows))):
            best = self._cycle_through(start, places, shorter_than=len(best)) or best
            # No two rows contradict each other, so three steps cannot be beaten.
            if len(best) == 3 or (best and tries * self.deliveries > CYCLE_STEPS_MAX):
                break
        return best

    def _places(self) -> list[list[tuple[int, int]]]:
        """For each event the rows that hold it, in their order, and where."""
        places: list[list[tuple[int, int]]] = [[] for _ in range(self.events)]
        for r, row in enumerate(self.rows):
            for at, event in enumerate(row):
                places[event].append((r, at))
        return places

    def _cycle_through(
        self, start: int, places: Sequence[Sequence[tuple[int, int]]], shorter_than: int
    ) -> list[Before]:
        # Breadth first. One step from x reaches all that a row holds after x, so a row need be read only
        # down to where an earlier, nearer event has already read it.
        came: dict[
            int, tuple[int, int, int]
        ] = {}  # event -> row, place of the event before, place of this one
        unread = [len(row) for row in self.rows]
        near = [start]
        steps = 1
        while near and (not shorter_than or steps < shorter_than):
            far: list[int] = []
            for event in near:
                for r, at in places[event]:
                    row = self.rows[r]
                    for there in range(at + 1, unread[r]):
                        if row[there] == start:
                            return self._walk(start, came, (r, at, there))
                        if row[there] not in came:
                            came[row[there]] = (r, at, there)
                            far.append(row[there])
                    unread[r] = min(unread[r], at + 1)
            near = far
            steps += 1
        return []

    def _walk(
        self, start: int, came: dict[int, tuple[int, int, int]], step: tuple[int, int, int]
    ) -> list[Before]:
        steps: list[Before] = []
        while True:
            r, at, there = step
            steps.append(Before(self.records[r][at], self.records[r][there]))
            if self.rows[r][at] == start:
                return steps[::-1]
            step = came[self.rows[r][at]]

    def _only(self, events: set[int]) -> Rows:
        kept = Rows(())
        kept.events = self.events
        for row, records in zip(self.rows, self.records, strict=True):
            places = [at for at, event in enumerate(row) if event in events]
            kept.rows.append([row[at] for at in places])
            kept.records.append([records[at] for at in places])
            kept.deliveries += len(places)
        return kept


def _stuck(rows: Sequence[Sequence[int]], events: int) -> set[int]:
    """The events that a topological sort of the union of `rows` cannot reach."""
    after: list[list[int]] = [[] for _ in range(events)]
    waits_for = [0] * events
    for row in rows:
        for x, y in pairwise(row):
            after[x].append(y)
            waits_for[y] += 1
    free = deque(event for event in range(events) if not waits_for[event])
    while free:
        for event in after[free.popleft()]:
            waits_for[event] -= 1
            if not waits_for[event]:
                free.append(event)
    return {event for event in range(events) if waits_for[event]}
