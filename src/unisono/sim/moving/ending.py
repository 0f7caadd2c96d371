"""What a simulation of a moving world leaves."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import msgspec

from unisono.history import Record
from unisono.model.frames import Sequenced, Stamped
from unisono.sim.moving.views import Viewed


class Ending(msgspec.Struct, frozen=True):
    """How a simulation ended."""

    records: list[Record]
    restless: tuple[str, ...]  # what kept the world from coming to rest
    faults: tuple[str, ...]  # broken invariants and things no engine should have refused
    acknowledged: dict[str, Sequenced]
    keys: dict[str, str]  # of the events that were published with one
    refused: frozenset[str]  # events that were told they will never have a place
    missed: tuple[str, ...]  # what holders of patterns were not owed, and should have been
    stored: list[Stamped]  # every event that counts
    viewed: Viewed  # topics whose order views have kept
    facts: Counter[str]  # what happened, and how often
    steps: int
    lines: list[str]

    @property
    def digest(self) -> str:
        """What two runs of one seed must have in common."""
        return sha256("\n".join(self.lines).encode()).hexdigest()
