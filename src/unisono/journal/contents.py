"""What is in a journal, while it grows or long after: its segments, and in words what is wrong or missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from unisono.journal.schema import LATER, SCHEMA, VERSION, VERSION_KEY
from unisono.journal.segments import SUFFIX, Label
from unisono.model.errors import JournalError

Trouble = Literal["empty", "corrupt", "foreign", "newer", "copy", "gap", "tail"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A whole segment: where it is, what it says about itself, and which rows it holds."""

    path: Path
    label: Label
    rows: int
    first_seq: int  # 0 where there are no rows
    last_seq: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a reader must know: a file that was left out, or rows that are not there."""

    trouble: Trouble
    path: Path  # of the file, or of the folder of the life
    reason: str  # a sentence


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a journal: its usable segments, life by life in order, and everything that is wrong."""

    segments: list[Segment]
    problems: list[Problem]


class _UnusableError(Exception):
    """A file that cannot be used, and why."""

    def __init__(self, trouble: Trouble, reason: str) -> None:
        super().__init__(reason)
        self.trouble = trouble


def scan(folder: str | Path) -> Contents:
    """Look at every segment's footer; JournalError if there is no such folder, and nothing else."""
    root = Path(folder)
    if not root.is_dir():
        raise JournalError(f"there is no journal in '{root}': no such folder")
    segments: dict[tuple[str, str, int], Segment] = {}
    problems: list[Problem] = []
    for path in sorted(root.rglob(f"*{SUFFIX}")):
        if any(part[0] in "._" for part in path.relative_to(root).parts) or not path.is_file():
            continue  # what a writer has put aside, and what other tools keep beside their data
        try:
            segment = _look(path)
        except _UnusableError as unusable:
            problems.append(Problem(unusable.trouble, path, f"{path.name} is left out: {unusable}"))
            continue
        label = segment.label
        first = segments.setdefault((label.process, label.life, label.number), segment)
        if first is not segment:
            reason = f"{path.name} is left out: it says it is the same segment as '{first.path}'"
            problems.append(Problem("copy", path, reason))
    lives: dict[tuple[str, str], list[Segment]] = {}
    for _, segment in sorted(segments.items()):
        lives.setdefault((segment.label.process, segment.label.life), []).append(segment)
    for life in lives.values():
        problems.extend(_missing(life))
    return Contents([segment for life in lives.values() for segment in life], problems)


def _look(path: Path) -> Segment:
    """What the footer of a file says; raises _UnusableError."""
    try:
        if path.stat().st_size == 0:
            raise _UnusableError("empty", "it has no bytes")
        footer = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise _UnusableError("corrupt", f"it is not a whole Parquet file ({first_line(error)})") from None
    metadata = footer.metadata or {}
    try:
        version = int(metadata[VERSION_KEY])
        if version > VERSION:
            raise _UnusableError(
                "newer", f"its schema has version {version} and this reader knows {VERSION}; upgrade unisono"
            )
        label = Label.from_metadata(metadata)
    except (KeyError, ValueError):
        raise _UnusableError("foreign", "no journal wrote it: it does not name its schema") from None
    missing = set(SCHEMA.names) - LATER - {column.split(".")[0] for column in _columns(footer)}
    if missing:
        raise _UnusableError("foreign", f"it lacks the column '{min(missing)}'")
    return Segment(path, label, footer.num_rows, *_seqs(path, footer))


def _columns(footer: pq.FileMetaData) -> Iterable[str]:
    return (footer.schema.column(i).path for i in range(footer.num_columns))


def _seqs(path: Path, footer: pq.FileMetaData) -> tuple[int, int]:
    """The first and the last seq, from the statistics where there are some."""
    if not footer.num_rows:
        return 0, 0
    place = list(_columns(footer)).index("seq")
    found = [footer.row_group(i).column(place).statistics for i in range(footer.num_row_groups)]
    if all(s is not None and s.has_min_max for s in found):
        return min(s.min for s in found), max(s.max for s in found)
    try:
        seqs = pq.read_table(path, columns=["seq"]).column(0)
        return seqs[0].as_py(), seqs[-1].as_py()
    except (pa.ArrowException, OSError) as error:
        raise _UnusableError("corrupt", f"its rows cannot be read ({first_line(error)})") from None


def _missing(life: list[Segment]) -> Iterator[Problem]:
    """What the segments of one life do not hold."""
    folder, end = life[0].path.parent, life[-1].label
    who = f"process '{end.process}' (life {end.life})"
    newest = number = holes = 0
    for segment in life:
        label, hole = segment.label, segment.last_seq - newest - segment.rows if segment.rows else 0
        if label.number > number:
            names = (
                f"the segments {number} to {label.number - 1}"
                if label.number > number + 1
                else f"segment {number}"
            )
            until = f" and before seq {segment.first_seq}" if segment.rows else ""
            yield Problem(
                "gap", folder, f"{who} lacks {names}: what it did after seq {newest}{until} is missing"
            )
        elif hole > 0:
            reason = ": the disk was too slow or full" if label.dropped > holes else ""
            yield Problem(
                "gap",
                segment.path,
                f"{who} lacks {hole} rows after seq {newest} and before seq {segment.last_seq}{reason}",
            )
        holes += hole
        newest, number = max(newest, segment.last_seq), label.number + 1
    if not end.is_last:
        yield Problem(
            "tail",
            folder,
            f"{who} still runs, or ended in a crash: what it did after seq {newest} may be missing",
        )
    elif end.dropped > holes:
        yield Problem(
            "gap",
            folder,
            f"{who} lacks its last {end.dropped - holes} rows, after seq {newest}: the disk was too slow or full",
        )


def first_line(error: BaseException) -> str:
    """The first line of what a library had to say."""
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
