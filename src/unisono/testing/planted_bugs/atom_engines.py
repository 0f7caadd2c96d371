"""Atoms, receivers and members with one rule broken."""

from __future__ import annotations

from unisono.engines.effects import Effect
from unisono.engines.inputs import Input, Received
from unisono.engines.sequencing_atoms import Atom, AtomGraph, Receiver
from unisono.engines.takeover.control import Control
from unisono.model.frames import Fill, Stamped
from unisono.sim.moving.oracle import Watched, WatchedMember


class NumbersWithoutCounting(Atom):
    """Tells the next number, and does not take it."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        before = self.number
        effects = super().handle(input, now)
        self.number = before
        return effects


class CountsTransit(Atom):
    """Takes a number for messages that only pass."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        if isinstance(input, Received) and isinstance(input.message, Fill):
            self.number += self.name not in input.message.need
        return super().handle(input, now)


class DeliversAtAHole(Receiver):
    """Waits for what is missing of the group, and not for what is missing of its atoms."""

    def blocker(self, message: Stamped) -> str | None:
        """The group, if this is not its next message."""
        topic = message.topic
        return None if message.number == self.last[topic] + 1 else topic


class EveryAtomCounts(Receiver):
    """Waits for the numbers of atoms whose other group it is not in."""

    def __init__(self, name: str, graph: AtomGraph) -> None:
        super().__init__(name, graph)
        self.relevant = {group: (group, *graph.atoms_by_group[group]) for group in self.relevant}
        self.last |= dict.fromkeys((e for entries in self.relevant.values() for e in entries), 0)


class ForgetsTheClosed(WatchedMember):
    """Lets go of a topic when it hears that it is closed, and not when all of it is here."""

    def _controlled(self, control: Control, now: float) -> list[Effect]:
        effects = super()._controlled(control, now)
        for topic in sorted(set(control.closed) & self.inner.clock.keys()):
            self.topics -= {topic}
            effects += self._reroute(self.inner.dismiss(topic))
        return effects


class WaitsForEverything(Watched):
    """Delivers nothing while something is missing anywhere, whether the event follows it or not."""

    def _is_next(self, event: Stamped) -> bool:
        return False

    def blocker(self, event: Stamped) -> str | None:
        """Any topic of which something is known to be missing."""
        found = super().blocker(event)
        if found is not None:
            return found
        known = self.missing.known
        return next((t for t, n in self.reached.items() if t != event.topic and known.get(t, 0) > n), None)
