"""The one writer of a lane: appends in a pipeline, confirms in order, and stops for ever when it is sealed.

Each append predicts the sequence it will get. That alone is no fence: a seal takes the place one append had
predicted, and the next one is accepted after it. So a record counts as stored only right behind the one before
it, and after any refusal or silence the writer reads the lane to its end: a seal of a higher epoch stops it for
ever, otherwise what a reader would count is stored, and the writer goes back to the rest, unchanged. Readers skip
the copies. It goes back with one record, and with the others only when that one is stored: appends of an earlier
attempt may still be on the way, and two attempts that take each other's places would do so for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from unisono.engines.effects import Append, Effect, Read
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.recovery import valid_records
from unisono.model.bundles import EVENT_BYTES
from unisono.model.lanes import (
    BundleRecord,
    EpochRecord,
    EventRecord,
    JoinRecord,
    LaneRecord,
    SealRecord,
    count_of,
    size_of,
)

Written: TypeAlias = EventRecord | BundleRecord | JoinRecord

PATIENCE_MAX = 8


class LaneWriter:
    """One node's lane in one epoch."""

    def __init__(self, lane: str, epoch: int, tail: int) -> None:
        """Start behind the record with sequence `tail`."""
        self.lane = lane
        self.epoch = epoch
        self.start = tail
        self.position = tail  # sequence of the last confirmed record, or of what was read
        self.made = 0
        self.events = self.bytes = 0  # in what was made, roughly
        self.unconfirmed: dict[int, Written] = {}  # by index, in order
        self.answers: dict[int, int] = {}  # index -> sequence, where an earlier one is still unknown
        self.on_the_way = 0
        # open, broken (waiting for what is on the way), reading, probing (with the first record), stopped
        self.state = "open"
        self.waits_since: float | None = None  # since when nothing was confirmed
        self.patience = 1  # doubles each time nothing comes of it

    def append(self, record: Written, now: float) -> list[Effect]:
        """Store one more record, whose index is one more than what was made."""
        if self.state == "stopped":
            return []
        self.made += 1
        if type(record) is EventRecord:
            self.events += 1
            self.bytes += EVENT_BYTES + len(record.event.publication.body)
        else:
            self.events += count_of(record)
            self.bytes += size_of(record)
        self.unconfirmed[self.made] = record
        if self.waits_since is None:
            self.waits_since = now
        if self.state != "open":
            return []  # it goes out when the writer has gone back
        return [self._send(record, len(self.unconfirmed) - 1)]

    def _send(self, record: Written, ahead: int) -> Effect:
        self.on_the_way += 1
        return Append(self.lane, record, self.position + ahead)

    def answered(
        self, record: Written, sequence: int | None, now: float
    ) -> tuple[list[Written], list[Effect]]:
        """An append was stored at a sequence, or refused; returns what is confirmed by it."""
        if record.epoch != self.epoch or self.state == "stopped":
            return [], []
        self.on_the_way = max(0, self.on_the_way - 1)
        is_next = sequence == self.position + 1 and next(iter(self.unconfirmed), None) == record.index
        if is_next and self.state == "open" and not self.answers:  # mostly it is so
            self.position += 1
            confirmed = [self.unconfirmed.pop(record.index)]
            self.waits_since, self.patience = now if self.unconfirmed else None, 1
            return confirmed, []
        if sequence is None:
            self.state = "broken" if self.state in ("open", "probing") else self.state
        elif record.index in self.unconfirmed:
            self.answers[record.index] = sequence
        confirmed = self._confirm(now) if self.state in ("open", "probing") else []
        if confirmed and self.state == "probing":
            self.state = "open"
            return confirmed, [self._send(r, ahead) for ahead, r in enumerate(self.unconfirmed.values())]
        return confirmed, self._read_if_settled()

    def _confirm(self, now: float) -> list[Written]:
        confirmed = []
        while self.unconfirmed:
            index = next(iter(self.unconfirmed))
            if self.answers.pop(index, None) != self.position + 1:
                break
            self.position += 1
            confirmed.append(self.unconfirmed.pop(index))
            self.waits_since, self.patience = now, 1
        if not self.unconfirmed:
            self.waits_since = None
        return confirmed

    def _read_if_settled(self) -> list[Effect]:
        if self.state == "broken" and not self.on_the_way:
            self.state = "reading"
            return [Read(self.lane, self.start)]
        return []

    def give_up_waiting(self, now: float) -> list[Effect]:
        """Nothing was heard for too long: take what is on the way as lost, and look."""
        if self.state == "stopped":
            return []
        self.waits_since = now
        self.patience = min(2 * self.patience, PATIENCE_MAX)
        self.on_the_way = 0
        self.state = "reading"
        return [Read(self.lane, self.start)]

    def read_back(self, answer: ReadBack, now: float) -> tuple[list[Written], list[Effect]]:
        """The lane up to its end: stop if it is sealed; otherwise what is in it is confirmed, and the next sent."""
        records = answer.records
        if is_sealed(records, self.epoch):
            self.stop()
            return [], []
        if self.state != "reading" or not answer.covers(self.start):
            return [], []
        row = max(
            (r.index for r in valid_records(records, self.epoch + 1) if r.epoch == self.epoch), default=0
        )
        confirmed = [self.unconfirmed.pop(index) for index in list(self.unconfirmed) if index <= row]
        self.state, self.position = "open", answer.tail
        self.answers.clear()
        self.waits_since = now if self.unconfirmed else None
        if not self.unconfirmed:
            return confirmed, []
        self.state = "probing"
        return confirmed, [self._send(next(iter(self.unconfirmed.values())), 0)]

    def stop(self) -> None:
        """Never append again."""
        self.state = "stopped"
        self.unconfirmed.clear()
        self.waits_since = None

    def copy(self) -> LaneWriter:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.unconfirmed, twin.answers = dict(self.unconfirmed), dict(self.answers)
        return twin

    def state_of(self) -> Hashable:
        """Equal exactly when two writers would behave alike from now on."""
        unconfirmed = tuple((index, str(record)) for index, record in self.unconfirmed.items())
        answers = tuple(sorted(self.answers.items()))
        return (
            self.epoch,
            self.position,
            (self.made, self.events, self.bytes),
            unconfirmed,
            answers,
            self.on_the_way,
            self.state,
            self.waits_since,
            self.patience,
        )


def is_sealed(records: Sequence[LaneRecord], epoch: int) -> bool:
    """Whether a lane holds a seal, or a beginning, of a later epoch."""
    return any(isinstance(r, SealRecord | EpochRecord) and r.epoch > epoch for r in records)
