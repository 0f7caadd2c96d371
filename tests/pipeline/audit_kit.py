"""Journals for tests, out of records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from unisono.history import Record
from unisono.journal.records import table_of
from unisono.journal.segments import Label, segment_path, write_segment


def write_journal(
    folder: Path, records: Iterable[Record], *, segment_rows: int = 7, ended: bool = True
) -> Path:
    """A life for each process, cut into short segments so that everything has to be carried over."""
    by_process: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_process[record.process].append(record)
    for process, mine in by_process.items():
        starts = range(0, len(mine), segment_rows)
        for number, start in enumerate(starts):
            label = Label(process, "0", number, ended and start == starts[-1])
            segment_path(folder, label).parent.mkdir(parents=True, exist_ok=True)
            write_segment(folder, label, table_of(mine[start : start + segment_rows]))
    return folder
