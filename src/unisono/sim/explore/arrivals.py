"""One subscriber, given stamps: every order in which notifications can arrive, and every moment of a timer.

Time is arranged so that any event held may expire at any moment, alone: the pauses between arrivals shrink so
fast that all that follow together are shorter than any one before.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from unisono.engines.contract import Engine
from unisono.engines.inputs import TICK, Input, Notified
from unisono.engines.topic_managers.subscriber import Subscriber
from unisono.model.frames import EpochNotice, Stamped
from unisono.sim.explore.pairs import Pair, untagged_pairs
from unisono.sim.explore.search import Search, Step
from unisono.sim.explore.story import Broken, Log, told, waiting


class Arrivals:
    """A subscriber, and what has still to arrive."""

    __slots__ = (
        "arrived",
        "broken",
        "checked",
        "doubles",
        "engine",
        "events",
        "left",
        "log",
        "losses",
        "now",
        "state",
    )

    def __init__(
        self,
        engine: Engine,
        events: Sequence[Stamped | EpochNotice],
        *,
        losses: int,
        doubles: int,
        checked: bool,
    ) -> None:
        self.engine = engine
        self.events = events
        self.checked = checked
        self.losses = losses
        self.doubles = doubles
        self.left = tuple(range(len(events)))
        self.arrived = 0
        self.now = 0.0
        self.log: Log = ()
        self.broken = ""
        self.state = engine.state()

    def key(self) -> Hashable:
        """The engine's picture, what is left, and what the application was told."""
        return (self.left, self.state, self.log, self.now, self.losses, self.doubles, self.broken)

    def steps(self) -> list[Step]:
        """Any of what is left arrives, is lost or arrives twice; or the oldest that is held expires."""
        if self.broken:
            return []
        steps: list[Step] = [("arrive", str(i)) for i in self.left]
        if self.losses:
            steps += [("lose", str(i)) for i in self.left]
        if self.doubles:
            steps += [("double", str(i)) for i in self.left]
        if _expires(self.engine) is not None:
            steps.append(("expire",))
        return steps

    def after(self, step: Step) -> Arrivals:
        """The subscriber after a step."""
        twin = object.__new__(Arrivals)
        for name in Arrivals.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.engine = self.engine.copy()
        if step[0] == "expire":
            twin.now = max(self.now, _expires(self.engine) or 0.0)
            twin._handle(TICK)
            return twin
        i = int(step[1])
        if step[0] == "double":
            twin.doubles -= 1
        else:
            twin.left = tuple(j for j in self.left if j != i)
        if step[0] == "lose":
            twin.losses -= 1
            return twin
        twin.arrived += 1
        twin.now += 4.0**-twin.arrived
        twin._handle(Notified(self.events[i]))
        return twin

    def _handle(self, input: Input) -> None:
        try:
            self.log += told(self.engine.handle(input, self.now))
            if self.checked:
                self.engine.check()
        except Broken as error:
            self.broken = str(error)
        except AssertionError as error:
            self.broken = f"an engine denies its own invariants: {error}"
        self.state = self.engine.state()


def _expires(engine: Engine) -> float | None:
    """When the oldest event held expires. Timers that only ask for what is missing are left alone: it will come."""
    hold = engine.settings.max_hold if isinstance(engine, Subscriber) else None
    oldest = engine.held.oldest() if isinstance(engine, Subscriber) else None
    return None if hold is None or oldest is None else oldest.since + hold


class Outcomes:
    """Everything one subscriber can be told when it is brought these events."""

    def __init__(
        self,
        engine: Engine,
        events: Sequence[Stamped | EpochNotice],
        *,
        losses: int,
        doubles: int,
        checked: bool,
    ) -> None:
        search = Search(Arrivals(engine, events, losses=losses, doubles=doubles, checked=checked))
        self.runs: dict[tuple[Log, str], tuple[Step, ...]] = {}  # log and fault -> a way to it
        for end in search.ends():
            run = (end.log + waiting(end.engine), end.broken)
            if run not in self.runs:
                self.runs[run] = search.trace(end)
        self.states = search.states
        self.pairs: dict[Pair, Log] = {}  # pair -> a log that has it
        for log, _ in self.runs:
            for pair in untagged_pairs(log):
                self.pairs.setdefault(pair, log)
