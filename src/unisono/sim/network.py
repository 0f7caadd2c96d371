"""What a network does to what is sent over it: late, lost, twice, overtaken.

The same model serves the packets between processes and the notifications of the event notification service;
only who suffers differs. Each pair of sender and receiver is a route with a state of its own, so that a
route on which nothing overtakes can keep its promise.
"""

from __future__ import annotations

from math import inf
from random import Random

import msgspec


class Conditions(msgspec.Struct, frozen=True):
    """How a network treats what is sent over it."""

    latency_s: float = 0.005  # the least there is
    spread_s: float = 0.0  # up to so much more, drawn anew for each
    loss: float = 0.0
    duplication: float = 0.0
    overtaking: bool = True  # whether a later one may arrive first

    @property
    def latency_s_max(self) -> float:
        """Nothing that arrives takes longer, unless it may not overtake."""
        return self.latency_s + self.spread_s


class Perturbation(msgspec.Struct, frozen=True):
    """How some nodes of a ring treat whatever they send, pass on or receive."""

    share: float = 0.0  # of all nodes
    loss: float = 0.0
    latency_s: float = 0.0  # what it takes longer at each of them


CALM = Perturbation()


class Weather(msgspec.Struct, frozen=True):
    """From a moment on, both networks treat what is sent differently."""

    at: float
    packets: Conditions
    notifications: Conditions
    perturbation: Perturbation = CALM


class Network:
    """Decides, from its own seeded randomness, when each copy of what is sent arrives."""

    def __init__(self, conditions: Conditions, random: Random) -> None:
        self.conditions = conditions
        self.random = random
        self._latest: dict[tuple[str, str], float] = {}  # route -> when its last copy arrives

    def heal(self) -> None:
        """Lose nothing from now on; late, twice and overtaken stay as they were."""
        self.conditions = msgspec.structs.replace(self.conditions, loss=0.0)

    def change(self, conditions: Conditions) -> None:
        """Treat what is sent from now on like this."""
        self.conditions = conditions

    def arrivals(self, source: str, to: str, now: float) -> list[float]:
        """When copies of something sent now arrive: none if it is lost, two if it is doubled."""
        c, random = self.conditions, self.random.random
        if now == inf or (
            c.loss and random() < c.loss
        ):  # what is sent at the end of time was lost on its way
            return []
        times = [now + c.latency_s + c.spread_s * random()]
        if c.duplication and random() < c.duplication:
            times.append(now + c.latency_s + c.spread_s * random())
        return times if c.overtaking else self._in_line(source, to, times)

    def _in_line(self, source: str, to: str, times: list[float]) -> list[float]:
        latest = self._latest.get((source, to), 0.0)
        for i, time in enumerate(times):
            times[i] = latest = max(latest, time)
        self._latest[source, to] = latest
        return times
