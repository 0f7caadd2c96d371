"""Bounds and paces of deadline-causal order; times are in rounds."""

from __future__ import annotations

import msgspec

from unisono.engines.deadline_causal.colours import Palette, safe_palette
from unisono.engines.deadline_causal.stamps import stamp_of
from unisono.model.errors import ConfigError


class CausalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The same for everybody in a system, except `fanout`."""

    round_s: float = 0.05  # how long a round is
    lifetime: int = 40  # rounds after which no event is of use to anybody
    skew: int = 1  # rounds by which any two clocks may differ
    reserve: int = 2  # rounds before the deadline in which brokers let go, for the way to subscribers
    fanout: int = 2  # how many are told in a round
    pushes: int = 2  # rounds in which a broker hands an event to some of its subscribers
    absent: int = 40  # rounds of silence after which somebody is taken for gone
    peers: int = 8  # of a subscriber, told by its broker
    pending_max: int = 65536  # events held back; of more, the newcomer is dropped
    cache_max: int = 65536  # events kept for others; of more, the oldest goes
    sweep: int = (
        1  # rounds after which everything one has is told, and what is of no use forgotten; else the news
    )
    base_rounds: int = 10  # after which the part of the matrix that is not sent again is chosen anew

    def __post_init__(self) -> None:
        if self.lifetime <= self.reserve + self.skew:
            raise ConfigError(
                f"lifetime={self.lifetime} leaves no time: it must be more than reserve + skew = "
                f"{self.reserve + self.skew} rounds"
            )

    @property
    def palette(self) -> Palette:
        """How rounds are written for subscribers. Frames say when they were sent: no colour is read later."""
        return safe_palette(self.lifetime, self.skew, self.skew)

    def round_at(self, now: float) -> int:
        """The round of a moment, by one's own clock."""
        return int(now / self.round_s + 1e-6)  # a timer at the end of a round is in the next

    def last_round(self, deadline: float) -> int:
        """The last round that is over before the deadline, by whatever clock within the bound."""
        return int(deadline // self.round_s) - self.skew - 1

    def due_at(self, last: int) -> float:
        """From when an event with this last round has to go, should something of its past still be missing."""
        return last * self.round_s

    def oldest(self, round: int) -> int:
        """Stamps below are of events that nobody with our clock delivers any more."""
        return stamp_of(max(0, round - self.lifetime), 0)

    def oldest_told(self, round: int) -> int:
        """Stamps below are of events that nobody delivers any more, by whatever clock within the bound."""
        return self.oldest(round - self.skew)
