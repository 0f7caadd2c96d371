"""A journal that is being written, as a Spark stream: a row for each segment, of every life in order.

An offset says how many segments of each life were handed out. So a look at the journal costs a few questions for
each life, not one for each file that was ever written, and the same offsets always give the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes

from unisono.journal.segments import SUFFIX
from unisono.pipeline.columns import NONE
from unisono.pipeline.segments import begun

NAME = "unisono_journal"
BYTES_MAX = 4 << 20  # of segments in one batch: about as many rows, for a row is a byte or two
HOLE_S = 10.0  # so long a segment may be missing before somebody looks whether later ones are there

Offset = dict[str, int]  # life -> segments


class Growth:
    """How far each life has come."""

    def __init__(self, journal: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.journal = Path(journal)
        self._clock = clock
        self._looks: dict[
            str, tuple[int, float, float]
        ] = {}  # life -> segment, when to look, how long to wait then

    def since(self, start: Mapping[str, int], bytes_max: int | None = None) -> Offset:
        """The offset after `start`, by at most so many bytes: a segment of each life in turn, at least one."""
        reached = dict(start)
        left = bytes_max
        growing = sorted(begun(self.journal))
        while growing and (left is None or left > 0):
            for life in [*growing]:
                size = self._size(life, reached.get(life, 0))
                if size is None:
                    growing.remove(life)
                    continue
                reached[life] = reached.get(life, 0) + 1
                if left is not None:
                    left -= size
                    if left <= 0:
                        break
        return reached

    def _size(self, life: str, number: int) -> int | None:
        """How large a segment is; None if it is not there, 0 if it never will be, for later ones are."""
        try:
            size = segment_at(self.journal, life, number).stat().st_size
        except OSError:
            return 0 if self._is_hole(life, number) else None
        return max(1, size)

    def _is_hole(self, life: str, number: int) -> bool:
        """Whether later segments are there; asked less and less often, for a life that has ended stays as it is."""
        now = self._clock()
        at, due, patience = self._looks.get(life, (NONE, 0.0, 0.0))
        if at != number:
            self._looks[life] = (number, now + HOLE_S, HOLE_S)
            return False
        if now < due:
            return False
        self._looks[life] = (number, now + 2 * patience, 2 * patience)
        names = [path.stem for path in (self.journal / life).glob(f"*{SUFFIX}")]
        later = any(name.isdecimal() and int(name) > number for name in names)
        return later and not segment_at(self.journal, life, number).exists()


def segment_at(journal: Path, life: str, number: int) -> Path:
    """Where a segment of a life is."""
    return journal / life / f"{number:08d}{SUFFIX}"


class GrowingJournal(DataSource):
    """`spark.readStream.format("unisono_journal").option("journal", folder)`."""

    @classmethod
    def name(cls) -> str:
        """How Spark knows it."""
        return NAME

    def schema(self) -> str:
        """What a row is."""
        return "life string, number long, path string"

    def streamReader(self, schema: Any) -> GrowingReader:
        """Spark calls it once for each query."""
        return GrowingReader(self.options["journal"], int(self.options.get("bytesMax", BYTES_MAX)))


class _Segments(InputPartition):
    """Rows that are handed out together."""

    def __init__(self, rows: Sequence[tuple[str, int, str]]) -> None:
        super().__init__(rows)


class GrowingReader(DataSourceStreamReader):
    """Spark asks it for offsets, and for the rows between two of them."""

    def __init__(self, journal: str, bytes_max: int) -> None:
        self._journal, self._bytes_max = journal, bytes_max
        self._growth: Growth | None = None

    def initialOffset(self) -> Offset:
        """Nothing of any life."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """What one batch may hold."""
        return ReadMaxBytes(self._bytes_max)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """How far to go now."""
        self._growth = self._growth or Growth(self._journal)
        return self._growth.since(start, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One: a row is only the name of a segment."""
        rows = [
            (life, number, str(segment_at(Path(self._journal), life, number)))
            for life, last in sorted(end.items())
            for number in range(start.get(life, 0), last)
        ]
        return [_Segments(rows)] if rows else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, str]]:
        """The rows."""
        return iter(partition.value)
