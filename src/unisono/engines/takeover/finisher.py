"""Carries a decided epoch through: seal, read, compute, write down, announce, activate.

Anybody may do it, several at once, and it may be begun again after a crash: sealing twice does no harm, what
is computed depends on the sealed lanes alone, and only one of them can activate.
"""

from __future__ import annotations

from collections.abc import Hashable

from unisono.engines.effects import Announce, Append, Decide, Effect, Read
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.control import Control, next_plan
from unisono.engines.takeover.recovery import Recovery, recover
from unisono.engines.takeover.settings import NodeSettings
from unisono.model.lanes import EpochRecord, LaneRecord, SealRecord, count_of


class Finisher:
    """One attempt to finish the epoch that `control` has decided on."""

    def __init__(self, control: Control, threshold: int, settings: NodeSettings = NodeSettings()) -> None:
        self.control = control
        self.threshold = threshold
        self.settings = settings
        self.sealed: set[str] = set()
        self.read: dict[str, tuple[LaneRecord, ...]] = {}
        self.recovery: Recovery | None = None
        self.written: dict[str, int] = {}  # lane -> where the beginning of the epoch is

    def pending(self) -> list[Effect]:
        """Everything that has to be asked for now, or again."""
        control = self.control
        if unsealed := [lane for lane in control.sealed if lane not in self.sealed]:
            return [Append(lane, SealRecord(control.epoch), None) for lane in unsealed]
        if unread := [lane for lane in control.sealed if lane not in self.read]:
            return [Read(lane, self._after(lane)) for lane in unread]
        if self.recovery is None:
            self.recovery = self._recover()
        record = self.recovery.record(control.begins, control.began_at)
        lanes = sorted({*control.sealed, *control.lanes})
        if unwritten := [lane for lane in lanes if lane not in self.written]:
            return [Append(lane, record, None) for lane in unwritten]
        return [Announce(tuple(sorted(self.recovery.notice.numbers)), self.recovery.notice), self._activate()]

    def _after(self, lane: str) -> int:
        """Of a sealed lane, what is read: the epoch that ends, from the record that began it."""
        return max(0, self.control.begins.get(lane, 0) - 1)

    def _recover(self) -> Recovery:
        control, intent = self.control, self.control.intent
        assert intent is not None
        return recover(self.read, control.epoch, intent.rank, intent.reports, control.holders(), intent.gone)

    def _activate(self) -> Effect:
        control, recovery = self.control, self.recovery
        assert control.intent is not None
        assert recovery is not None
        plan = next_plan(control.intent, recovery.registrations, self.threshold, control.epoch)
        kept, retain = self.settings.lane_records_kept, self.settings.retention
        extra = {lane: sum(count_of(r) - 1 for r in records) for lane, records in self.read.items()}
        return Decide(control.active(plan, self.written, kept, retain, extra))

    def appended(self, lane: str, record: LaneRecord, sequence: int) -> list[Effect]:
        """A seal or an epoch record is in a lane; returns what follows, if that was the last one."""
        if (
            isinstance(record, SealRecord)
            and record.epoch == self.control.epoch
            and lane in self.control.sealed
        ):
            self.sealed.add(lane)
            return self.pending() if self.sealed.issuperset(self.control.sealed) else []
        if (
            isinstance(record, EpochRecord)
            and record.epoch == self.control.epoch
            and self.recovery is not None
        ):
            self.written.setdefault(lane, sequence)
            lanes = {*self.control.sealed, *self.control.lanes}
            return self.pending() if self.written.keys() >= lanes else []
        return []

    def read_back(self, answer: ReadBack) -> list[Effect]:
        """A sealed lane, from the beginning of the epoch that ends."""
        lane, records = answer.lane, answer.records
        if (
            not self.sealed.issuperset(self.control.sealed)
            or lane not in self.control.sealed
            or lane in self.read
        ):
            return []
        if not any(isinstance(r, SealRecord) and r.epoch == self.control.epoch for r in records):
            return []  # read before it was sealed
        if not answer.covers(self._after(lane)):
            return []  # somebody else wanted to know less
        self.read[lane] = records
        return self.pending() if len(self.read) == len(self.control.sealed) else []

    def copy(self) -> Finisher:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.sealed, twin.written, twin.read = set(self.sealed), dict(self.written), dict(self.read)
        return twin

    def state(self) -> Hashable:
        """Equal exactly when two would behave alike from now on."""
        return (
            self.control.version,
            tuple(sorted(self.sealed)),
            tuple(sorted((lane, len(records)) for lane, records in self.read.items())),
            tuple(sorted(self.written.items())),
        )
