"""Which segments a journal has, life by life, and which of them cannot be used and why.

Only footers are read. A life is judged up to its first unusable segment: what comes after a hole has lost its
context.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from unisono.journal import schema
from unisono.journal.segments import process_name
from unisono.model.errors import HistoryError


class Segment(NamedTuple):
    """One whole file of a life."""

    path: str
    number: int
    rows: int
    bytes: int


class Refused(NamedTuple):
    """A file that cannot be used, and why."""

    path: str
    reason: str


class Life(NamedTuple):
    """The segments of one life of one process, from its beginning on, without a hole."""

    name: str
    segments: tuple[Segment, ...]
    is_whole: bool  # it ended in good order, and nothing of it is missing

    @property
    def rows(self) -> int:
        """How many records it has."""
        return sum(s.rows for s in self.segments)


class Listing(NamedTuple):
    """All that is in a journal."""

    lives: tuple[Life, ...]
    refused: tuple[Refused, ...]
    unended: frozenset[str] = frozenset()  # processes of which something may not have been written


class Footer(NamedTuple):
    """What a segment says about itself."""

    segment: Segment
    is_last: bool
    dropped: int


def list_journal(folder: str | Path) -> Listing:
    """Every life of a journal; raises HistoryError when there is no such folder."""
    lives: list[Life] = []
    refused: list[Refused] = []
    for name, paths in by_life(folder):
        footers: list[Footer] = []
        for path in paths:
            footer = read_footer(path)
            if isinstance(footer, Refused):
                refused.append(footer)
            else:
                footers.append(footer)
        lives.append(_life(name, footers, refused))
    whole = {life.name for life in lives if life.is_whole}
    unended = {process_name(name.split("/")[0]) for name in begun(Path(folder)) if name not in whole}
    return Listing(tuple(life for life in lives if life.segments), tuple(refused), frozenset(unended))


def begun(root: Path) -> Iterator[str]:
    """Every life that has begun: one that was killed at once may have written nothing but its folder."""
    for place in root.glob("*/*"):
        name = place.relative_to(root)
        if place.is_dir() and not any(part[0] in "._" for part in name.parts):
            yield name.as_posix()


def by_life(folder: str | Path) -> Iterator[tuple[str, list[str]]]:
    """The files of each folder of a journal, in a fixed order."""
    root = Path(folder)
    if not root.is_dir():
        raise HistoryError(f"'{folder}' is no folder; name the folder a journal was recorded to")
    try:
        for place, folders, files in os.walk(root):
            folders.sort()
            # A name that begins with a dot or an underscore is a file that is still being written.
            mine = sorted(f for f in files if f.endswith(".parquet") and f[0] not in "._")
            if mine:
                yield Path(place).relative_to(root).as_posix(), [str(Path(place) / f) for f in mine]
    except OSError as error:
        raise HistoryError(f"journal '{folder}' cannot be read: {error.strerror}") from None


def read_footer(path: str) -> Footer | Refused:
    """What the segment at `path` is, or why it cannot be used."""
    try:
        size = Path(path).stat().st_size
        if not size:
            return Refused(path, "empty: the file has no bytes")
        footer = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        return Refused(path, f"corrupt: {_first_line(error)}")
    own = footer.metadata or {}
    version = own.get(schema.VERSION_KEY, b"")
    if not version.isdigit():
        return Refused(path, "foreign: a Parquet file, but not a segment of a journal")
    if int(version) > schema.VERSION:
        return Refused(
            path,
            f"newer: written with schema version {int(version)}, this unisono reads up to {schema.VERSION}; upgrade it",
        )
    missing = set(schema.SCHEMA.names) - schema.LATER - set(footer.schema.to_arrow_schema().names)
    if missing:
        return Refused(path, f"foreign: columns {', '.join(sorted(missing))} are missing")
    is_last = own.get(schema.LAST_KEY) == b"1"
    if not footer.num_rows and not is_last:  # the last may have nothing more to say than that it is the last
        return Refused(path, "empty: the segment has no rows")
    index = own.get(schema.SEGMENT_KEY, b"0")
    dropped = own.get(schema.DROPPED_KEY, b"0")
    return Footer(
        Segment(path, int(index) if index.isdigit() else 0, footer.num_rows, size),
        is_last,
        int(dropped) if dropped.isdigit() else 0,
    )


def _life(name: str, footers: Iterable[Footer], refused: list[Refused]) -> Life:
    usable: list[Segment] = []
    is_whole = False
    for footer in sorted(footers, key=lambda f: f.segment.number):
        if footer.segment.number != len(usable):
            twice = footer.segment.number < len(usable)
            why = "is there twice" if twice else f"follows a hole: segment {len(usable)} is missing"
            refused.append(
                Refused(footer.segment.path, f"out of line: segment {footer.segment.number} {why}")
            )
            is_whole = False
            if twice:
                continue
            break
        usable.append(footer.segment)
        is_whole = footer.is_last and not footer.dropped
    return Life(name, tuple(usable), is_whole)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
