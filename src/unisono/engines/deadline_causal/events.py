"""An event on its way, with what its order needs."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import msgspec

from unisono.engines.deadline_causal.stamps import Past, Stream
from unisono.model.frames import Publication

Key: TypeAlias = tuple[str, str, int]
"""By which an event is known: who sent it, on which topic, with which stamp."""

V = TypeVar("V")


class Event(msgspec.Struct, frozen=True):
    """A publication, who sent it with which stamp, the last round in which it is of use, and its causal past.

    The past does not contain the event itself.
    """

    broker: str
    topic: str
    stamp: int
    last: int
    past: Past
    publication: Publication

    @property
    def stream(self) -> Stream:
        """Where it has its place."""
        return (self.broker, self.topic)

    @property
    def key(self) -> Key:
        """By which it is known."""
        return (self.broker, self.topic, self.stamp)


def trim(kept: dict[Key, V], most: int) -> None:
    """Keep so many at most; what came first goes first."""
    while len(kept) > most:
        del kept[next(iter(kept))]
