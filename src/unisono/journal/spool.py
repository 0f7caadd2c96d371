"""Columns on their way to disk: gathered until a segment is due by rows, bytes or time, then written whole.

No thread and no clock: `now` is an argument, whoever calls decides when.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from unisono.journal.schema import SCHEMA
from unisono.journal.segments import Label, folder_name, write_segment
from unisono.model.errors import ConfigError, JournalError

ROWS_MAX = 262_144
BYTES_MAX = 64 * 1024 * 1024
SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a segment is full: whichever comes first."""

    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX  # of columns in memory; a file is several times smaller
    seconds_max: float = SECONDS_MAX  # since the first row of the segment

    def __post_init__(self) -> None:
        for name in ("rows_max", "bytes_max", "seconds_max"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"{name}={value!r}; a segment needs a limit above 0")


class Spool:
    """The segment in the making of one process life, and the numbers of those before it."""

    def __init__(
        self, journal: Path, process: str, life: str, rotation: Rotation, *, fsync: bool = False
    ) -> None:
        self.journal = journal
        self.process = process
        self.life = life
        self.segments = 0  # written so far
        self.rows = 0  # gathered, not written
        self.bytes = 0
        self._rotation = rotation
        self._fsync = fsync
        self._tables: list[pa.Table] = []
        self._since = 0.0  # when the first of them came

    @property
    def folder(self) -> Path:
        """Where the segments of this life are."""
        return self.journal / folder_name(self.process) / folder_name(self.life)

    def open(self) -> None:
        """Make the folder; JournalError says why there cannot be one."""
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError:
            raise JournalError(
                f"process '{self.process}' has already had a life '{self.life}' in '{self.journal}'; "
                "choose another folder, or another name for the life"
            ) from None
        except OSError as error:
            raise JournalError(
                f"cannot keep a journal in '{self.journal}': {error.strerror or error}; choose another folder"
            ) from None

    def add(self, table: pa.Table, now: float) -> None:
        """Gather some rows."""
        if table.num_rows:
            if not self._tables:
                self._since = now
            self._tables.append(table)
            self.rows += table.num_rows
            self.bytes += table.nbytes

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a segment."""
        return self.rows >= self._rotation.rows_max or self.bytes >= self._rotation.bytes_max

    @property
    def due_at(self) -> float | None:
        """When what has been gathered must be written, full or not."""
        return self._since + self._rotation.seconds_max if self._tables else None

    def is_due(self, now: float) -> bool:
        """Whether it is time to cut."""
        return self.is_full or (self.due_at is not None and now >= self.due_at)

    def cut(self, *, dropped: int = 0, is_last: bool = False) -> Path:
        """Write a segment of at most `rows_max` rows; OSError leaves everything as it was, to be tried again."""
        table = pa.concat_tables(self._tables) if self._tables else SCHEMA.empty_table()
        rest = table.slice(self._rotation.rows_max)
        is_last = is_last and not rest.num_rows
        label = Label(self.process, self.life, self.segments, is_last, dropped)
        whole = table.slice(0, self._rotation.rows_max).unify_dictionaries()
        path = write_segment(self.journal, label, whole, fsync=self._fsync)
        self.segments += 1
        self._tables = [rest] if rest.num_rows else []
        self.rows, self.bytes = rest.num_rows, rest.nbytes if rest.num_rows else 0
        return path
