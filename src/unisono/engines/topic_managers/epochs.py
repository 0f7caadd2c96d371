"""What a subscriber knows of epochs: those it was told about, and those it has only heard of."""

from __future__ import annotations

from collections.abc import Hashable

from unisono.model.frames import EpochNotice

NOTICES_MAX = 64  # a subscriber further behind asks again for those it needs
KEPT = 16  # epochs behind us: events of theirs may still come late


class Epochs:
    """Notices by epoch."""

    __slots__ = ("heard", "notices")

    def __init__(self, epoch: int) -> None:
        self.heard = epoch  # the newest epoch anybody was seen to be in
        self.notices: dict[int, EpochNotice] = {}

    def add(self, notice: EpochNotice) -> bool:
        """Take in a notice; False if it is known."""
        self.heard = max(self.heard, notice.epoch)
        if notice.epoch in self.notices:
            return False
        self.notices[notice.epoch] = notice
        if len(self.notices) > NOTICES_MAX:
            del self.notices[max(self.notices)]
        return True

    def forget(self, epoch: int) -> None:
        """This epoch is entered: notices of the ones long before it are of no use any more."""
        for old in [e for e in self.notices if e < epoch - KEPT]:
            del self.notices[old]

    def known(self) -> list[EpochNotice]:
        """The notices, oldest epoch first."""
        return [self.notices[epoch] for epoch in sorted(self.notices)]

    def after(self, epoch: int) -> EpochNotice | None:
        """The notice of the next epoch, if it is known."""
        return self.notices.get(epoch + 1)

    def newest(self, epoch: int) -> int:
        """How far notices are known without a gap from `epoch` on."""
        while epoch + 1 in self.notices:
            epoch += 1
        return epoch

    def lacks(self, epoch: int) -> bool:
        """Whether a notice is missing on the way from `epoch` to the newest one heard of."""
        return self.newest(epoch) < self.heard

    def hear_of(self, epoch: int) -> None:
        """Somebody is in this epoch."""
        self.heard = max(self.heard, epoch)

    def copy(self) -> Epochs:
        """An independent twin."""
        twin = Epochs(self.heard)
        twin.notices = dict(self.notices)
        return twin

    def state(self) -> Hashable:
        """Equal for twins that know alike."""
        return (self.heard, tuple(sorted(self.notices)))
