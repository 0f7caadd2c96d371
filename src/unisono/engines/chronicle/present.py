"""The part of an epoch that is not over whose order is final, for topics that are ordered together.

Of two events on such topics one names the other in its stamp. So there is never more than one that may come next, and
what may come next does not depend on what is stored later: an event comes next if everything is out that its stamp
names of these topics. What comes behind a number that is not stored yet waits for it, or for the end of the epoch,
which says that nobody has it. Told to its end, it is what the order of the closed epoch is for these topics.
"""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engines.chronicle.order import Unit, in_order
from unisono.engines.plan import Plan
from unisono.model.frames import Entries, Stamped


def is_ordered(plan: Plan, topics: Iterable[str]) -> bool:
    """Whether these topics are ordered together, every one with every other, while a plan is in force."""
    held = frozenset(topics)
    return all(held <= plan.group[topic] for topic in held if topic in plan.group)


class Present:
    """What is known to come first in an epoch that goes on."""

    def __init__(self, numbers: Entries, topics: frozenset[str]) -> None:
        """Begin with how far topics were when the epoch began."""
        self.topics = topics
        self.clock = {topic: numbers.get(topic, 0) for topic in topics}  # how far what is out goes
        self.units: list[Unit] = []  # what is out, in order

    def extend(self, found: Iterable[Unit]) -> int:
        """Take in what has been read of the epoch so far; returns how many more units are out."""
        waiting = [unit for unit in found if self._is_waiting(unit)]
        count = 0
        for unit in in_order(waiting):
            if not self._comes_next(unit):
                break
            if isinstance(unit, Stamped):
                self.clock[unit.topic] = unit.number
            else:
                for topic in self.topics.intersection(unit.topics):
                    self.clock[topic] = unit.newest(topic)
            self.units.append(unit)
            count += 1
        return count

    def _is_waiting(self, unit: Unit) -> bool:
        """Whether it has an event on one of these topics, and is not out."""
        if isinstance(unit, Stamped):
            return unit.topic in self.topics and unit.number > self.clock[unit.topic]
        ours = [topic for topic in unit.topics if topic in self.topics]
        return bool(ours) and unit.clock[ours[0]] >= self.clock[ours[0]]

    def _comes_next(self, unit: Unit) -> bool:
        """Whether everything is out that it follows on these topics."""
        if isinstance(unit, Stamped):
            own, names = {unit.topic: unit.number - 1}, unit.entries
        else:
            own, names = {topic: unit.clock[topic] for topic in unit.topics}, unit.clock
        clock = self.clock
        return all(clock[t] == own[t] if t in own else clock[t] >= names[t] for t in names if t in clock)
