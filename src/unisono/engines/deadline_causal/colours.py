"""Colours: rounds in few bits, read back without doubt.

A colour is a round modulo the number of colours. Colours repeat, so they are never compared with each other: whoever
reads one knows about which round it must have been, finds the round, and compares rounds.

A stamp is read while its age is between `-skew` (the sender's clock is ahead) and `lifetime + linger` (what is of no
use any more may still travel). That are `lifetime + linger + skew + 1` different rounds, and so many colours are
needed; with one less, the oldest and the newest have the same. The paper's log N + alpha, with log N the lifetime
and three colours for a lifetime of two, leaves nothing for late copies and clocks: one that lingers for a cycle is
taken for new.
"""

from __future__ import annotations

import msgspec

from unisono.model.errors import ConfigError


def colours_needed(lifetime: int, linger: int, skew: int) -> int:
    """The fewest colours by which every round that can be read is told from every other."""
    return lifetime + linger + skew + 1


class Palette(msgspec.Struct, frozen=True):
    """So many colours, read by clocks that may be behind the sender's by `skew` rounds."""

    colours: int
    skew: int = 0

    def colour(self, round: int) -> int:
        """The colour of a round."""
        return round % self.colours

    def round(self, colour: int, now: int) -> int:
        """The latest round of this colour that somebody can have sent in by round `now`."""
        newest = now + self.skew
        return newest - (newest - colour) % self.colours


def safe_palette(lifetime: int, linger: int, skew: int, colours: int | None = None) -> Palette:
    """A palette in which nothing is mistaken; raises ConfigError if there are too few colours."""
    needed = colours_needed(lifetime, linger, skew)
    if colours is not None and colours < needed:
        raise ConfigError(f"{colours} colours are too few; {needed} are needed: lifetime + linger + skew + 1")
    return Palette(needed if colours is None else colours, skew)
