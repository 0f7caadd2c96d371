"""Events held back, by topic and number, in the order they arrived."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from unisono.engines.topic_managers.rules import precedes
from unisono.model.frames import Stamped


class Held(NamedTuple):
    """An event that waits, and since when."""

    event: Stamped
    since: float


class HoldBack:
    """At most one event per topic and number; oldest arrival first."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], Held] = {}

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Held]:
        return iter(self.held.values())

    def put(self, event: Stamped, now: float) -> None:
        """Hold an event from now on."""
        self.held[event.topic, event.number] = Held(event, now)

    def get(self, topic: str, number: int) -> Stamped | None:
        """The event with this number, if it is held."""
        held = self.held.get((topic, number))
        return None if held is None else held.event

    def pop(self, event: Stamped) -> None:
        """Stop holding an event."""
        del self.held[event.topic, event.number]

    def oldest(self) -> Held | None:
        """The one that has waited longest."""
        return next(iter(self), None)

    def oldest_first_in_order(self) -> Stamped:
        """The longest-waiting event that no other held event precedes."""
        for held in self:
            if not any(precedes(other.event, held.event) for other in self):
                return held.event
        return next(iter(self)).event  # stamps that contradict each other: any will do

    def with_predecessors(self, event: Stamped) -> list[Stamped]:
        """The event and every held one that comes before it, in the order of their stamps."""
        group = [event]
        for member in group:  # grows as it goes
            group += [h.event for h in self if h.event not in group and precedes(h.event, member)]
        ordered = []
        while group:
            first = next((e for e in group if not any(precedes(o, e) for o in group)), group[0])
            group.remove(first)
            ordered.append(first)
        return ordered

    def remove_if(self, unwanted: Callable[[Stamped], bool]) -> list[Stamped]:
        """Stop holding every event for which `unwanted` is true; return them, oldest first."""
        removed = [h.event for h in self if unwanted(h.event)]
        for event in removed:
            self.pop(event)
        return removed

    def copy(self) -> HoldBack:
        """An independent twin."""
        twin = HoldBack()
        twin.held = dict(self.held)
        return twin

    def state(self) -> Hashable:
        """Equal for buffers that behave alike."""
        return tuple(
            (key, held.since, held.event.publication.id, tuple(held.event.entries.items()))
            for key, held in self.held.items()
        )
