"""What was read of an epoch, by topic and number, and in the order of the log; bundles stay as they are until asked for."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from itertools import accumulate
from typing import TypeAlias

from unisono.engines.chronicle.order import Unit, in_order
from unisono.model.frames import Stamped
from unisono.model.runs import run_of, stamped_in

Place: TypeAlias = tuple[str, int]
"""A lane, and a sequence in it."""


class Found:
    """The events of an epoch, as far as they have been read."""

    def __init__(self) -> None:
        self._units: dict[tuple[str, int], Unit] = {}  # by topic and first number
        self._firsts: dict[str, list[int]] = {}  # topic -> first numbers, in order
        self._places: dict[int, Place] = {}  # unit, by its identity -> where it was found

    def add(self, unit: Unit, place: Place) -> None:
        """Take in an event, or many that were numbered at once, and where it is stored."""
        self._places[id(unit)] = place
        if isinstance(unit, Stamped):
            numbers = {unit.topic: unit.number}
        else:
            numbers = {topic: unit.clock[topic] + 1 for topic in unit.topics}
        for topic, number in numbers.items():
            if (topic, number) not in self._units:
                insort(self._firsts.setdefault(topic, []), number)
            self._units[topic, number] = unit

    def get(self, topic: str, number: int) -> Stamped | None:
        """The event with this number on its topic."""
        firsts = self._firsts.get(topic, [])
        place = bisect_right(firsts, number)
        unit = self._units[topic, firsts[place - 1]] if place else None
        if unit is None or isinstance(unit, Stamped):
            return unit if unit is not None and unit.number == number else None
        return stamped_in(unit, topic, number) if number <= unit.newest(topic) else None

    def place(self, unit: Unit) -> Place:
        """Where a unit of these is stored."""
        return self._places[id(unit)]

    @property
    def topics(self) -> frozenset[str]:
        """The topics of these events."""
        return frozenset(self._firsts)

    def units(self) -> list[Unit]:
        """Each once, in no order."""
        return list({id(unit): unit for unit in self._units.values()}.values())

    def copy(self) -> Found:
        """An independent twin."""
        twin = Found()
        twin._units, twin._places = dict(self._units), dict(self._places)
        twin._firsts = {topic: list(firsts) for topic, firsts in self._firsts.items()}
        return twin


class Chapter:
    """A closed epoch: its events in the order of the log, and by topic and number."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.units = in_order(found.units())
        counts = [1 if isinstance(unit, Stamped) else len(unit.order) for unit in self.units]
        self._ends = list(accumulate(counts))  # how many events there are up to the end of each

    def events(self, index: int, topics: frozenset[str]) -> Iterator[tuple[int, Stamped]]:
        """The events of these topics behind the first `index` of all, each with how many there are up to it."""
        for place in range(bisect_right(self._ends, index), len(self.units)):
            unit, end = self.units[place], self._ends[place]
            if isinstance(unit, Stamped):
                if unit.topic in topics:
                    yield end, unit
            elif not topics.isdisjoint(unit.topics):
                run = run_of(unit)
                start = end - len(run)
                for i in range(max(0, index - start), len(run)):
                    if run.topic(i) in topics:
                        yield start + i + 1, run.stamped(i)
