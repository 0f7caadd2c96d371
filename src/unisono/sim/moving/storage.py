"""Durable storage: lanes, and the control record that changes by compare-and-set."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from unisono.engines.effects import Append, Decide, Look, Read, Truncate
from unisono.engines.inputs import Appended, Controlled, ReadBack
from unisono.engines.takeover.control import Control
from unisono.engines.takeover.recovery import valid_records
from unisono.model.frames import Stamped
from unisono.model.lanes import LaneRecord, events_of
from unisono.sim.moving.world import StorageConditions

FOR_EVER = 1 << 60

Request = Append | Read | Truncate | Decide | Look
Answer = Appended | ReadBack | Controlled


class Storage:
    """What survives every crash."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.lanes: dict[str, list[LaneRecord]] = {}  # also what is truncated: the judge wants to see it all
        self.cut: dict[str, int] = {}  # lane -> records up to here are truncated

    def accepts(self, append: Append) -> bool:
        """Whether an append would be stored now."""
        return append.expected in (None, len(self.lanes.get(append.lane, ())))

    def store(self, append: Append) -> Answer:
        """Store what was accepted before, where the lane ends now: its leader has changed meanwhile."""
        records = self.lanes.setdefault(append.lane, [])
        records.append(append.record)
        return Appended(append.lane, append.record, len(records))

    def carry_out(self, request: Request) -> Answer | None:
        """Serve one request at once, as a whole; some are never answered."""
        match request:
            case Append(lane, record):
                return self.store(request) if self.accepts(request) else Appended(lane, record, None)
            case Read(lane, after, limit):
                return read_back(lane, self.lanes.get(lane, ()), self.cut.get(lane, 0), after, limit)
            case Truncate(lane, up_to):
                self.cut[lane] = max(self.cut.get(lane, 0), min(up_to, len(self.lanes.get(lane, ()))))
                return None
            case Decide(control):
                if control.version == self.control.version + 1:
                    self.control = control
        return Controlled(self.control)

    def events(self) -> list[Stamped]:
        """Every event that counts, lane by lane."""
        return [
            event
            for lane in sorted(self.lanes)
            for record in valid_records(self.lanes[lane], FOR_EVER)
            for event in events_of(record)
        ]


def read_back(lane: str, records: Sequence[LaneRecord], cut: int, after: int, limit: int | None) -> ReadBack:
    """The answer to a question about a lane of which the first records are cut off."""
    first = max(cut, min(after, len(records)))
    last = len(records) if limit is None else min(len(records), first + limit)
    return ReadBack(lane, tuple(records[first:last]), last, after, len(records) - last)


class StorageRoute:
    """When requests reach the storage and answers come back; the requests of one process stay in line."""

    def __init__(self, conditions: StorageConditions, random: Random) -> None:
        self.conditions = conditions
        self.random = random
        self._latest: dict[str, float] = {}
        self.healed = False

    def there(self, process: str, now: float) -> float | None:
        """When a request arrives; None if it is lost on the way."""
        c, random = self.conditions, self.random.random
        if not self.healed and c.lost_before and random() < c.lost_before:
            return None
        at = now + c.latency_s + c.spread_s * random()
        if not self.healed and c.slow and random() < c.slow:
            at += c.slow_s * random()
        at = self._latest[process] = max(at, self._latest.get(process, 0.0))
        return at

    def back(self, now: float) -> float | None:
        """When an answer arrives; None if it is lost on the way."""
        c, random = self.conditions, self.random.random
        if not self.healed and c.lost_after and random() < c.lost_after:
            return None
        return now + c.latency_s + c.spread_s * random()

    def later(self, now: float, share: float) -> float | None:
        """When an append is stored that is not stored now; None if it is stored now, as most are."""
        if self.healed or not share or self.random.random() >= share:
            return None
        return now + self.conditions.slow_s * self.random.random()

    def forget(self, process: str) -> None:
        """A process that crashed has a new connection in its next life."""
        self._latest.pop(process, None)
