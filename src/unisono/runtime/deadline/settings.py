"""What all buses of a system must agree on where deadlines count: how time is cut, and how far clocks may differ."""

from __future__ import annotations

from math import ceil

import msgspec

from unisono.engines.deadline_causal.settings import CausalSettings
from unisono.model.errors import ConfigError

ABSENT_S = 2.0  # of silence, after which another bus is told nothing
RESERVE = 2  # rounds in which the application can take what had to go
SWEEP = 8  # rounds in which others are told what is new; then all that one has
EDGES = 2  # rounds that an event may lose where it begins and where its deadline falls


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """The same in every process; buses that cut time in another way do not hear each other."""

    round_s: float = 0.025  # how often buses tell each other what they have
    skew_s: float = 0.05  # by how much the clocks of any two machines may differ
    longest_s: float = 10.0  # no event is of use for longer
    pending_max: int = 65536  # events that wait for earlier ones in one bus; of more, the newcomer is dropped
    cache_max: int = 65536  # events that a bus keeps for others while they are of use
    jitter_s: float = 0.0  # hold up each of our letters for a random time up to this, to see what happens
    loss: float = 0.0  # throw this share of our letters away, to see what happens

    def __post_init__(self) -> None:
        if not 0.001 <= self.round_s <= 10:
            raise ConfigError(f"round_s={self.round_s!r} is out of range; it is 0.001 to 10 seconds")
        if not 0 <= self.jitter_s <= 60 or not 0 <= self.loss <= 1:
            raise ConfigError("jitter_s is 0 to 60 seconds, loss a share between 0 and 1")
        if not 0 <= self.skew_s <= 3600:
            raise ConfigError(f"skew_s={self.skew_s!r} is out of range; it is 0 to 3600 seconds")
        if not self.shortest_s < self.longest_s <= 86_400:
            raise ConfigError(
                f"longest_s={self.longest_s!r} is out of range; it is more than {self.shortest_s:g} seconds, "
                "the shortest deadline with this round_s and skew_s, and at most a day"
            )

    @property
    def skew(self) -> int:
        """The same in rounds."""
        return ceil(self.skew_s / self.round_s)

    @property
    def shortest_s(self) -> float:
        """A nearer deadline leaves no time."""
        return (self.skew + RESERVE + EDGES) * self.round_s

    @property
    def pace(self) -> tuple[float, int, int]:
        """By which buses know that they agree."""
        return (self.round_s, self.skew, self.causal().lifetime)

    def causal(self) -> CausalSettings:
        """What the engine needs to know."""
        return CausalSettings(
            round_s=self.round_s,
            lifetime=ceil(self.longest_s / self.round_s) + EDGES,
            skew=self.skew,
            reserve=RESERVE,
            fanout=1,  # and everybody at once, after each sweep
            sweep=SWEEP,
            absent=max(ceil(ABSENT_S / self.round_s), 8),
            pending_max=self.pending_max,
            cache_max=self.cache_max,
        )

    def check(self, deadline: float) -> float:
        """Return a deadline in seconds if it can be kept; ConfigError says why not."""
        if not self.shortest_s <= deadline <= self.longest_s:
            raise ConfigError(
                f"deadline={deadline!r}: here it is {self.shortest_s:g} to {self.longest_s:g} seconds; rounds, the "
                "skew of clocks and the longest deadline are set by connect(deadlines=Deadlines(...)), for all alike"
            )
        return deadline
