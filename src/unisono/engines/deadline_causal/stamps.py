"""Stamps: a hybrid logical clock whose physical part is the gossip round.

A stamp is a round and a minor number in one integer. A broker's stamps strictly increase, also within a round, and
the stamp of an effect is larger than those of its causes, whatever the clocks say. A clock is ahead of the slowest
one by no more than the clocks themselves differ.
"""

from __future__ import annotations

from typing import TypeAlias

MINOR_BITS = 20
MINORS = 1 << MINOR_BITS  # events of a broker in a round

Stream: TypeAlias = tuple[str, str]
"""What one broker sends to one destination: a topic, or in the paper another broker."""

Past: TypeAlias = dict[Stream, int]
"""The causality matrix, without its zeros: for each stream the stamp of the last event that is known."""


def stamp_of(round: int, minor: int) -> int:
    """The stamp of an event of a round."""
    return round << MINOR_BITS | minor


def round_of(stamp: int) -> int:
    """The round in which it was sent, by the clock of who sent it."""
    return stamp >> MINOR_BITS


def minor_of(stamp: int) -> int:
    """Which it was in its round."""
    return stamp & (MINORS - 1)


def merge(known: Past, more: Past) -> None:
    """Know more: the later stamp of each stream."""
    for stream, stamp in more.items():
        if known.get(stream, 0) < stamp:
            known[stream] = stamp


def forget(known: Past, oldest: int) -> None:
    """Forget streams that were silent since `oldest`: nobody waits for them any more."""
    for stream in [stream for stream, stamp in known.items() if stamp < oldest]:
        del known[stream]


class HybridClock:
    """Gives stamps."""

    __slots__ = ("last",)

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def next(self, round: int) -> int:
        """A new stamp, above all that were given or seen."""
        self.last = max(self.last, stamp_of(round, 0)) + 1
        return self.last

    def observe(self, stamp: int) -> None:
        """Somebody gave this one."""
        self.last = max(self.last, stamp)
