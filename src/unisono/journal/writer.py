"""Writes the journal of one process life, off the path of whoever has something to record.

Columns go into a queue that holds so many bytes; a thread takes them out, gathers them and writes segments.
When the disk is too slow and the queue is full, new rows are dropped and counted, never waited for: the caller
is an event loop, and a slow disk must not stop a bus. Nobody is fooled by that: `seq` has a hole, the next segment
says how many rows are missing, and readers report it. `wait=True` waits instead, for those who can.

A segment that cannot be written is kept and tried again every second; what does not fit meanwhile is dropped and
counted in the same way. `error` tells, and so does `on_error`, once for every trouble that begins.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from unisono.journal.schema import SCHEMA
from unisono.journal.segments import new_life
from unisono.journal.spool import BYTES_MAX, ROWS_MAX, SECONDS_MAX, Rotation, Spool
from unisono.model.errors import ClosedError, JournalError

log = logging.getLogger("unisono")
QUEUE_BYTES_MAX = 64 * 1024 * 1024
RETRY_S = 1.0
_BODY = SCHEMA.get_field_index("body")


class Columns(Protocol):
    """Rows that become a table in the writer's thread; a `pyarrow.Table` is one too."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""

    def to_table(self) -> pa.Table:
        """The rows, in the columns of the schema."""


class JournalWriter:
    """Takes columns from one thread and writes them, in order, as the segments of a new life of `process`."""

    def __init__(
        self,
        folder: str | Path,
        process: str,
        *,
        life: str | None = None,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        seconds_max: float = SECONDS_MAX,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        payloads: bool = False,
        wait: bool = False,
        fsync: bool = False,
        on_error: Callable[[JournalError], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        rotation = Rotation(rows_max, bytes_max, seconds_max)
        self._spool = Spool(Path(folder), process, life or new_life(), rotation, fsync=fsync)
        self._spool.open()
        self.rows = 0  # on disk
        self.dropped = 0  # neither on disk nor ever to be
        self.error: JournalError | None = None  # why nothing can be written at the moment
        self._queue: deque[pa.Table | Columns] = deque()
        self._queue_bytes = 0
        self._queue_bytes_max = queue_bytes_max
        self._payloads = payloads
        self._wait = wait
        self._on_error = on_error
        self._clock = clock
        self._taken = 0  # rows that were taken in, dropped ones not counted
        self._wanted = 0  # so many of them somebody wants on disk now
        self._retry_at = 0.0
        self._state = "open"  # then "closing", then "closed"
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"journal of {process}", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """Where the segments of this life are."""
        return self._spool.folder

    @property
    def life(self) -> str:
        """The name of this life."""
        return self._spool.life

    @property
    def waiting_bytes(self) -> int:
        """How much has been taken in and not yet gathered."""
        return self._queue_bytes

    # For whoever records.

    def append(self, columns: pa.Table | Columns) -> bool:
        """Take in some rows; False if they had to be dropped because the queue is full."""
        rows, size = columns.num_rows, columns.nbytes
        with self._changed:
            if self._state != "open":
                raise ClosedError(f"the journal of '{self._spool.process}' is closed")
            while self._queue and self._queue_bytes + size > self._queue_bytes_max:
                if not self._wait or self.error is not None:
                    self.dropped += rows
                    return False
                self._changed.wait()
            self._queue.append(columns)
            self._queue_bytes += size
            self._taken += rows
            self._changed.notify_all()
        return True

    def flush(self, timeout: float = 30.0) -> None:
        """Return when everything taken in so far is on disk; JournalError if it does not get there."""
        with self._changed:
            self._wanted = target = self._taken
            self._changed.notify_all()
            done = self._changed.wait_for(
                lambda: self.rows >= min(target, self._taken) or self.error is not None, timeout
            )
        if self.error is not None:
            raise self.error
        if not done:
            raise JournalError(f"the journal in '{self.folder}' was not written within {timeout:g} s")

    def close(self, timeout: float = 30.0) -> None:
        """Write the rest and mark the last segment; JournalError if that cannot be done."""
        with self._changed:
            if self._state == "closed":
                return
            self._state = "closing"
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise JournalError(f"the journal in '{self.folder}' was not finished within {timeout:g} s")
        if self.error is not None:
            raise JournalError(f"{self.error}; {self.dropped} rows are lost")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # In the thread.

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                self._changed.wait_for(self._is_needed, self._patience())
                columns = self._queue.popleft() if self._may_gather() else None
                is_last = self._state == "closing" and columns is None
            if columns is not None:
                self._gather(columns)
            if self._is_time_to_cut():
                self._cut()
        self._finish()

    def _may_gather(self) -> bool:
        """A spool that is full and cannot be written gathers no more: the queue fills, and drops."""
        return bool(self._queue) and not self._spool.is_full

    def _is_flush_wanted(self) -> bool:
        return not self._queue and self.rows < self._wanted

    def _is_time_to_cut(self) -> bool:
        now = self._clock()
        return (self.error is None or now >= self._retry_at) and (
            self._spool.is_due(now) or self._is_flush_wanted()
        )

    def _is_needed(self) -> bool:
        return self._may_gather() or self._state == "closing" or self._is_time_to_cut()

    def _patience(self) -> float | None:
        due = self._retry_at if self.error is not None else self._spool.due_at
        return None if due is None else max(0.0, due - self._clock())

    def _gather(self, columns: pa.Table | Columns) -> None:
        rows, size = columns.num_rows, columns.nbytes
        try:
            table = columns if isinstance(columns, pa.Table) else columns.to_table()
            if not self._payloads:
                table = table.set_column(_BODY, SCHEMA.field(_BODY), pa.nulls(table.num_rows, pa.binary()))
        except Exception:
            log.exception("%d rows of the journal in '%s' could not be made", rows, self.folder)
            table = SCHEMA.empty_table()
        self._spool.add(table, self._clock())
        with self._changed:
            self._queue_bytes -= size
            if table.num_rows != rows:
                self.dropped += rows
                self._taken -= rows
                self._wanted = min(self._wanted, self._taken)
            self._changed.notify_all()

    def _cut(self, *, is_last: bool = False) -> bool:
        """Write a segment; False if it cannot be."""
        rows = self._spool.rows
        try:
            self._spool.cut(dropped=self.dropped, is_last=is_last)
        except (OSError, pa.ArrowException) as error:
            self._fail(error)
            return False
        with self._changed:
            self.rows += rows - self._spool.rows
            self.error = None
            self._changed.notify_all()
        return True

    def _fail(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        told = self.error is not None
        with self._changed:
            self._retry_at = self._clock() + RETRY_S
            self.error = JournalError(
                f"cannot write the journal in '{self.folder}': {reason}; make room there, or choose another folder"
            )
            self._changed.notify_all()
        if not told and self._on_error is not None:
            self._on_error(self.error)
        elif not told:
            log.error("%s", self.error)

    def _finish(self) -> None:
        """Write what is left, with the mark of a good end on the last segment; give up where it cannot be."""
        while self._cut(is_last=not self._queue):
            if self._queue:
                self._gather(self._queue.popleft())
            elif not self._spool.rows:
                break
        with self._changed:
            self.dropped += self._taken - self.rows
            self._state = "closed"
            self._changed.notify_all()
