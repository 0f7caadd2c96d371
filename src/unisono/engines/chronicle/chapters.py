"""Where epochs begin in the lanes: a list that is linked backwards, from the control record to the first one kept.

The control record says where its epoch begins; the record that begins an epoch says where the one before it does. A
beginning that is not there any more has been truncated, and with it all that came before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping

from unisono.engines.takeover.control import Control
from unisono.model.frames import EpochNotice
from unisono.model.lanes import EpochRecord

NOTICES_MAX = 256  # numbers at the beginning of epochs that are remembered; others are read again


class Chapters:
    """What a node knows of the epochs that are kept."""

    def __init__(self) -> None:
        self.newest = -1
        self.oldest = 0  # nothing before this one is kept
        self.first: int | None = None  # the first of all, if it has been found
        self._begins: dict[int, Mapping[str, int]] = {}
        self._notices: OrderedDict[int, EpochNotice] = OrderedDict()

    def learn(self, control: Control) -> None:
        """An active control record says where its epoch begins, and which is the first that is kept."""
        if control.state == "active" and control.epoch >= self.newest:
            self.newest = control.epoch
            self._begins[control.epoch] = control.begins
            if control.volumes:
                self.gone(control.volumes[0].epoch - 1)

    def nearest(self, epoch: int) -> int:
        """The earliest chapter known without a gap on the way from the newest to this one."""
        known = self.newest
        while known > max(epoch, self.oldest) and known - 1 in self._begins:
            known -= 1
        return known

    def is_known(self, epoch: int) -> bool:
        """Whether it is known where a chapter begins, and it is kept."""
        return epoch in self._begins

    def is_first(self, epoch: int) -> bool:
        """Whether nothing before this chapter is kept, or ever was."""
        return epoch in (self.oldest, self.first)

    def beginning_at(self, where: tuple[str, int]) -> list[int]:
        """The known chapters whose beginning is written down there; at most one."""
        return [epoch for epoch, begins in self._begins.items() if begins and min(begins.items()) == where]

    def lanes(self, epoch: int) -> dict[str, int]:
        """The sequence before the first record of a known chapter, in each lane that it was written in."""
        return {lane: sequence - 1 for lane, sequence in self._begins[epoch].items()}

    def head(self, epoch: int) -> tuple[str, int]:
        """The lane and the sequence where it is written how a known chapter begins."""
        return min(self._begins[epoch].items())

    def notice(self, epoch: int) -> EpochNotice | None:
        """How a chapter begins, if that is remembered."""
        if epoch == self.first:
            return EpochNotice(epoch, {})
        if epoch in self._notices:
            self._notices.move_to_end(epoch)
        return self._notices.get(epoch)

    def read(self, record: EpochRecord) -> None:
        """The record that begins a chapter."""
        self._notices[record.epoch] = record.notice
        if len(self._notices) > NOTICES_MAX:
            self._notices.popitem(last=False)
        self._begins.setdefault(record.epoch - 1, record.before)

    def gone(self, epoch: int) -> None:
        """A chapter is not kept any more, nor is any before it."""
        self.oldest = max(self.oldest, epoch + 1)
        for old in [e for e in self._begins if e < self.oldest]:
            del self._begins[old]
            self._notices.pop(old, None)

    def copy(self) -> Chapters:
        """An independent twin."""
        twin = Chapters()
        twin.newest, twin.oldest, twin.first = self.newest, self.oldest, self.first
        twin._begins, twin._notices = dict(self._begins), self._notices.copy()
        return twin

    def state(self) -> Hashable:
        """Equal for twins that know alike."""
        return (
            self.newest,
            self.oldest,
            self.first,
            tuple(sorted(self._begins)),
            tuple(sorted(self._notices)),
        )
