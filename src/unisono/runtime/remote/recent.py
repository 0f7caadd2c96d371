"""The newest records of lanes, as far as a node has written them: it need not read them again.

What is confirmed stays what it is. Only a store that has lost what it confirmed can say otherwise: so whoever goes on
from here reads the end of them once more, and compares. Lanes are read from the beginning of an epoch on, so nothing is
remembered that does not follow one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from unisono.model.lanes import EpochRecord, LaneRecord, SealRecord

BYTES_MAX = 64 * 1024 * 1024  # of all lanes, roughly; beyond, lanes are forgotten, and read again


class _Row:
    """Records that follow each other."""

    __slots__ = ("bytes", "first", "records", "sizes")

    def __init__(self, first: int) -> None:
        self.first = first
        self.records: list[LaneRecord] = []
        self.sizes: list[int] = []
        self.bytes = 0

    @property
    def next(self) -> int:
        """The sequence behind the last one."""
        return self.first + len(self.records)

    def append(self, record: LaneRecord, size: int) -> None:
        """One more."""
        self.records.append(record)
        self.sizes.append(size)
        self.bytes += size

    def forget(self, up_to: int) -> int:
        """Those up to a sequence are not wanted any more; returns how many bytes they were."""
        count = min(len(self.records), max(0, up_to + 1 - self.first))
        gone = sum(self.sizes[:count])
        del self.records[:count], self.sizes[:count]
        self.first += count
        self.bytes -= gone
        return gone

    @property
    def begins(self) -> int:
        """Where the newest epoch begins, or the first record is."""
        epochs = (i for i in reversed(range(len(self.records))) if isinstance(self.records[i], EpochRecord))
        return self.first + next(epochs, 0)


class Recent:
    """The newest records by lane."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._rows: dict[str, _Row] = {}
        self._bytes = 0

    def add(self, lane: str, sequence: int, record: LaneRecord, size: int) -> None:
        """A record is in a lane."""
        row = self._rows.get(lane)
        if row is None or row.next != sequence:
            if row is not None and row.first <= sequence < row.next:
                return  # it is known
            self.forget(lane)
            if sequence > 1 and not isinstance(record, EpochRecord):
                return
            row = self._rows[lane] = _Row(sequence)
        row.append(record, size)
        self._bytes += size
        if self._bytes > self._bytes_max:
            self._bytes -= row.forget(row.begins - 1)  # who ends the epoch asks for the rest
        if self._bytes > self._bytes_max:
            self.forget(lane)

    def behind(self, lane: str, after: int) -> list[LaneRecord]:
        """The records right behind a sequence, as far as they are known; none if the next one is not."""
        row = self._rows.get(lane)
        if row is None or not row.first <= after + 1 < row.next:
            return []
        return row.records[after + 1 - row.first :]

    def forget(self, lane: str) -> None:
        """Know nothing of a lane any more."""
        if (row := self._rows.pop(lane, None)) is not None:
            self._bytes -= row.bytes

    def keep(self, lanes: Iterable[str], after: Callable[[str], int]) -> None:
        """Nobody will ask for any others than these lanes, and for what is behind these sequences."""
        for lane in self._rows.keys() - set(lanes):
            self.forget(lane)
        for lane, row in self._rows.items():
            self._bytes -= row.forget(after(lane))


def ending(records: Sequence[LaneRecord]) -> list[LaneRecord]:
    """The last of some records, from one on by which they can be told from others: all seals of an epoch are alike."""
    last = (i for i in reversed(range(len(records))) if not isinstance(records[i], SealRecord))
    return list(records[next(last, 0) :])
