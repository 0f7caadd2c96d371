"""Reads an epoch from the lanes it was written in, a piece at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from unisono.engines.effects import Read
from unisono.engines.inputs import ReadBack
from unisono.model.frames import Stamped
from unisono.model.lanes import EpochRecord, SealRecord, events_of

PIECE = 2_000  # records asked for at once


class Reading:
    """One epoch on its way from the lanes; every lane is read up to where a later epoch begins."""

    def __init__(self, epoch: int, lanes: Mapping[str, int]) -> None:
        self.epoch = epoch
        self.after = dict(lanes)  # lane -> what has been read of it
        self.index = dict.fromkeys(lanes, 0)  # of the last record that counts
        self.open = set(lanes)  # lanes in which the epoch has not ended
        self.ended: set[str] = set()  # lanes that had nothing more to read for the moment
        self.found: dict[tuple[str, int], Stamped] = {}

    def wanted(self) -> list[Read]:
        """The pieces that come next."""
        return [Read(lane, self.after[lane], PIECE) for lane in sorted(self.open)]

    def take(self, piece: ReadBack) -> bool:
        """Take in a piece; False if what should come next is not kept any more."""
        lane = piece.lane
        if lane not in self.open or piece.after != self.after[lane]:
            return True  # the answer to another question
        if piece.records and piece.first != piece.after + 1:
            return False
        for record in piece.records:
            self.after[lane] += 1
            if isinstance(record, SealRecord | EpochRecord):
                if record.epoch > self.epoch:
                    self.open.discard(lane)
                    return True
            elif record.epoch == self.epoch and record.index == self.index[lane] + 1:
                self.index[lane] = record.index
                for event in events_of(record):
                    self.found[event.topic, event.number] = event
        if not piece.rest:
            self.ended.add(lane)
        return True

    def copy(self) -> Reading:
        """An independent twin."""
        twin = Reading(self.epoch, self.after)
        twin.index, twin.open, twin.ended = dict(self.index), set(self.open), set(self.ended)
        twin.found = dict(self.found)
        return twin

    def state(self) -> Hashable:
        """Equal for twins that have read alike."""
        return (
            self.epoch,
            tuple(sorted(self.after.items())),
            tuple(sorted(self.open)),
            tuple(sorted(self.ended)),
        )
