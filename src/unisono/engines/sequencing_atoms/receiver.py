"""The receiving side: deliver at once exactly what is next by every relevant number."""

from __future__ import annotations

from collections.abc import Hashable

from unisono.engines.effects import Deliver, Effect, Fail, Reject
from unisono.engines.inputs import Input, Notified
from unisono.engines.sequencing_atoms.graph import AtomGraph
from unisono.model.errors import FrameError, GapError
from unisono.model.frames import Stamped

HELD_MAX = 65536


class Receiver:
    """One member: everything that its groups and its relevant atoms number comes here, so a gap is exact."""

    def __init__(self, name: str, graph: AtomGraph, held_max: int = HELD_MAX) -> None:
        self.name = name
        self.relevant = graph.relevant(name)  # group -> the entries that count here
        self.last = dict.fromkeys((entry for entries in self.relevant.values() for entry in entries), 0)
        self.held: list[Stamped] = []
        self.held_max = held_max

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`."""
        match input:
            case Notified(Stamped() as message):
                return self._take(message)
        return [Reject(FrameError(f"a receiver cannot use {type(input).__name__}"))]

    def next_timer(self) -> float | None:
        """A receiver waits for messages only."""
        return None

    def blocker(self, message: Stamped) -> str | None:
        """An entry of which an earlier number is still missing."""
        for entry in self.relevant[message.topic]:
            if message.entries[entry] != self.last[entry] + 1:
                return entry
        return None

    def _take(self, message: Stamped) -> list[Effect]:
        if message.topic not in self.relevant or message.number <= self.last[message.topic]:
            return []  # another group's, or twice
        if any(m.topic == message.topic and m.number == message.number for m in self.held):
            return []
        if len(self.held) == self.held_max:
            return [Fail(GapError(f"'{self.name}' holds back more than {self.held_max} messages"))]
        self.held.append(message)
        delivered: list[Stamped] = []
        while (ready := next((m for m in self.held if self.blocker(m) is None), None)) is not None:
            self.held.remove(ready)
            for entry in self.relevant[ready.topic]:
                self.last[entry] = ready.entries[entry]
            delivered.append(ready)
        return [Deliver(delivered)] if delivered else []

    def check(self) -> None:
        """Nothing that could go is held."""
        assert all(self.blocker(message) is not None for message in self.held)

    def copy(self) -> Receiver:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.last, twin.held = dict(self.last), list(self.held)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two receivers would behave alike from now on."""
        held = tuple(sorted((m.topic, m.number) for m in self.held))
        return (tuple(sorted(self.last.items())), held)
