"""What an engine is.

An engine is a pure state machine. Whoever drives it (the simulator, the explorer, the asyncio runtime) hands
it an input and the time, and carries out the effects it returns, in their order. It never does I/O, never
asks for the time, never rolls dice, and never keeps a reference to what it was given.

    effects = engine.handle(input, now)     # something happened
    when    = engine.next_timer()           # hand it a Tick at this time, or never if None
    engine.check()                          # its invariants; raises AssertionError

`copy` and `state` are for the explorer: an independent twin, and a hashable picture that is equal exactly
when two engines would behave alike from now on.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, Self

from unisono.engines.effects import Effect
from unisono.engines.inputs import Input


class Engine(Protocol):
    """A protocol as a state machine: inputs and `now` in, effects out."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at time `now`; return what is to be done about it, in order."""
        ...

    def next_timer(self) -> float | None:
        """When to hand in a Tick, or None for never."""
        ...

    def check(self) -> None:
        """Assert the engine's invariants."""
        ...

    def copy(self) -> Self:
        """An independent twin."""
        ...

    def state(self) -> Hashable:
        """Equal exactly when two engines would behave alike from now on."""
        ...
