"""Reads an epoch from the lanes it was written in, a piece at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from unisono.engines.chronicle.found import Found
from unisono.engines.effects import Read
from unisono.engines.inputs import ReadBack
from unisono.model.lanes import BundleRecord, EpochRecord, EventRecord, SealRecord, count_of

RECORDS_MAX = 2_000  # records asked for at once
RECORDS_FIRST = 64  # the first time
EVENTS_MAX = 20_000  # and roughly how many events of them


class Reading:
    """One epoch on its way from the lanes; every lane is read up to where a later epoch begins."""

    def __init__(self, epoch: int, lanes: Mapping[str, int]) -> None:
        self.epoch = epoch
        self.after = dict(lanes)  # lane -> what has been read of it
        self.index = dict.fromkeys(lanes, 0)  # of the last record that counts
        self.open = set(lanes)  # lanes in which the epoch has not ended
        self.ended: set[str] = set()  # lanes that had nothing more to read for the moment
        self.found = Found()
        self._size = dict.fromkeys(lanes, RECORDS_FIRST)  # records asked for next; bundles hold many events

    def wanted(self) -> list[Read]:
        """The pieces that come next."""
        return [Read(lane, self.after[lane], self._size[lane]) for lane in sorted(self.open)]

    def take(self, piece: ReadBack) -> bool:
        """Take in a piece; False if what should come next is not kept any more."""
        lane = piece.lane
        if lane not in self.open or piece.after != self.after[lane]:
            return True  # the answer to another question
        if piece.records and piece.first != piece.after + 1:
            return False
        if piece.records:
            events = sum(map(count_of, piece.records))
            self._size[lane] = min(RECORDS_MAX, max(1, EVENTS_MAX * len(piece.records) // events))
        for record in piece.records:
            self.after[lane] += 1
            if isinstance(record, SealRecord | EpochRecord):
                if record.epoch > self.epoch:
                    self.open.discard(lane)
                    return True
            elif record.epoch == self.epoch and record.index == self.index[lane] + 1:
                self.index[lane] = record.index
                if isinstance(record, EventRecord):
                    self.found.add(record.event, (lane, self.after[lane]))
                elif isinstance(record, BundleRecord):
                    self.found.add(record.bundle, (lane, self.after[lane]))
        if not piece.rest:
            self.ended.add(lane)
        return True

    def copy(self) -> Reading:
        """An independent twin."""
        twin = Reading(self.epoch, self.after)
        twin.index, twin.open, twin.ended = dict(self.index), set(self.open), set(self.ended)
        twin.found, twin._size = self.found.copy(), dict(self._size)
        return twin

    def state(self) -> Hashable:
        """Equal for twins that have read alike."""
        return (
            self.epoch,
            tuple(sorted(self.after.items())),
            tuple(sorted(self.open)),
            tuple(sorted(self.ended)),
        )
