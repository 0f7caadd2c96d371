"""Journals of histories that are already complete: those of simulated runs, or read from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from unisono.history.record import Kind, Record
from unisono.journal.records import table_of
from unisono.journal.spool import BYTES_MAX, ROWS_MAX
from unisono.journal.writer import JournalWriter

_CHUNK_ROWS = 32_768


def write_records(
    folder: str | Path,
    records: Iterable[Record],
    *,
    life: str = "0",
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    fsync: bool = False,
    tell: Callable[[int, int], object] = lambda done, of: None,
) -> None:
    """Write a history as the journals its processes would have kept, in one life each.

    Deliveries learn when their event was published, as far as the history tells. `tell` hears how many processes
    of how many are written.
    """
    by_process: dict[str, list[Record]] = {}
    published_at: dict[str, float] = {}
    for record in records:
        by_process.setdefault(record.process, []).append(record)
        if record.kind is Kind.PUBLISHED:
            published_at.setdefault(record.event, record.at)
    for done, (process, mine) in enumerate(by_process.items(), start=1):
        with JournalWriter(
            folder, process, life=life, rows_max=rows_max, bytes_max=bytes_max, wait=True, fsync=fsync
        ) as writer:
            for start in range(0, len(mine), _CHUNK_ROWS):
                writer.append(table_of(mine[start : start + _CHUNK_ROWS], published_at))
        tell(done, len(by_process))
