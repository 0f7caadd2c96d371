"""Writes down what happened, for the judges in `unisono.history`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from unisono.history.record import Kind, Record, to_json
from unisono.model.errors import ConfigError, JournalError
from unisono.model.event import Event
from unisono.model.frames import Publication
from unisono.runtime.receipts import Flight, Receipt

if TYPE_CHECKING:
    from unisono.journal.options import Journal
    from unisono.journal.writer import JournalWriter

log = logging.getLogger("unisono")
_FLUSH_RECORDS = 1000
_CUT_S = 0.25  # how long a row may wait before the journal's writer has it
_CLOSE_S = 5.0


class Recorder(Protocol):
    """Where a bus notes what happens to it, in the order in which it happens."""

    def open(self, report: Callable[[Exception], None]) -> None:
        """Get ready, or refuse by raising; troubles that come later go to `report`."""

    def write(self, kind: Kind, subscription: str = "", **fields: Any) -> None:
        """Note something that the others have no name for."""

    def published(self, publication: Publication) -> None:
        """The application handed over an event."""

    def sequenced(self, flight: Flight) -> None:
        """The events of a flight have their places."""

    def delivered(self, subscription: str, event: Event[Any]) -> None:
        """The application was handed an event."""

    def delivered_many(self, subscription: str, events: list[Event[Any]]) -> None:
        """The application was handed some events at once."""

    async def close(self) -> None:
        """Write the rest."""


def make_recorder(
    process: str, record: list[Record] | str | Path | None, journal: Journal | str | Path | None
) -> Recorder | None:
    """What `connect` was asked for by `record=` and `journal=`."""
    if journal is None:
        return None if record is None else ListRecorder(process, record)
    if record is not None:
        raise ConfigError("record= and journal= both record the history; choose one")
    return JournalRecorder(process, journal)


class ListRecorder:
    """Appends records to a list, or to a file of JSON lines that others can read while it grows."""

    def __init__(self, process: str, target: list[Record] | str | Path) -> None:
        if not isinstance(target, list | str | Path):
            raise ConfigError(f"record= takes a path or a list, not {type(target).__name__}")
        self._process = process
        self._target = target
        self._seq = 0
        self._file: IO[bytes] | None = None
        self._unwritten: list[bytes] = []

    def open(self, report: Callable[[Exception], None]) -> None:
        """Open the file, if it is one."""
        if isinstance(self._target, list):
            return
        try:
            Path(self._target).parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._target, "ab")  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise ConfigError(f"cannot record to '{self._target}': {error}; choose another path") from None

    def write(self, kind: Kind, subscription: str = "", **fields: Any) -> None:
        """Note that something happened just now."""
        self._seq += 1
        record = Record(kind, self._process, self._seq, time.time(), subscription=subscription, **fields)
        if isinstance(self._target, list):
            self._target.append(record)
        elif self._file is not None:
            self._unwritten.append(to_json(record))
            if len(self._unwritten) >= _FLUSH_RECORDS:
                self.flush()

    def published(self, publication: Publication) -> None:
        """Note that the application handed over an event."""
        self.write(
            Kind.PUBLISHED,
            event=str(publication.id),
            topic=publication.topic,
            deadline=publication.deadline,
        )

    def sequenced(self, flight: Flight) -> None:
        """Note the places that the events of a flight were given."""
        for seat, publication in enumerate(flight.publications):
            stamp, topic = Receipt(flight, seat).stamp, publication.topic
            if stamp:
                self.write(
                    Kind.SEQUENCED, event=str(publication.id), topic=topic, number=stamp[topic], stamp=stamp
                )

    def delivered(self, subscription: str, event: Event[Any]) -> None:
        """Note that the application was handed an event."""
        stamp = event.stamp
        self.write(
            Kind.DELIVERED,
            subscription,
            event=str(event._publication.id),
            topic=event.topic,
            number=stamp.get(event.topic, 0),
            stamp=stamp or None,
            in_order=event.in_order,
            deadline=event.deadline,
        )

    def delivered_many(self, subscription: str, events: list[Event[Any]]) -> None:
        """Note that the application was handed some events."""
        for event in events:
            self.delivered(subscription, event)

    def flush(self) -> None:
        """Write what has been gathered. A disk that is full ends the recording, never the bus."""
        if self._file is None or not self._unwritten:
            return
        try:
            self._file.write(b"\n".join(self._unwritten) + b"\n")
            self._file.flush()
        except OSError as error:
            log.error("recording to '%s' has ended: %s", self._target, error)
            self._let_go()
        self._unwritten.clear()

    async def close(self) -> None:
        """Write the rest and let go of the file."""
        self.flush()
        self._let_go()

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what could not be written has been reported
                file.close()


class JournalRecorder:
    """Keeps a journal: rows are noted here, made into columns now and then, and written by a thread."""

    def __init__(self, process: str, journal: Journal | str | Path) -> None:
        try:
            from unisono.journal.options import Journal
            from unisono.journal.tape import Tape
        except ImportError as error:
            raise ConfigError(f"journal= needs {error.name}; pip install 'unisono[journal]'") from None
        self._journal = journal if isinstance(journal, Journal) else Journal(journal)
        self._tape = Tape(process, self._take, payloads=self._journal.payloads)
        self._writer: JournalWriter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._report: Callable[[Exception], None] = lambda error: None
        self.published = self._tape.published
        self.delivered = self._tape.delivered
        self.delivered_many = self._tape.delivered_many

    def open(self, report: Callable[[Exception], None]) -> None:
        """Make the folder of this life; JournalError says why there cannot be one."""
        from unisono.journal.writer import JournalWriter

        loop, journal = asyncio.get_running_loop(), self._journal

        def tell(error: JournalError) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
                loop.call_soon_threadsafe(report, error)

        self._report = report
        self._writer = JournalWriter(
            journal.folder,
            self._tape.process,
            rows_max=journal.rows_max,
            bytes_max=journal.bytes_max,
            seconds_max=journal.seconds_max,
            queue_bytes_max=journal.queue_bytes_max,
            payloads=journal.payloads,
            fsync=journal.fsync,
            on_error=tell,
        )
        self._timer = loop.call_later(_CUT_S, self._tick)

    def write(self, kind: Kind, subscription: str = "", **fields: Any) -> None:
        """Note that something happened just now."""
        self._tape.note(kind, subscription, **fields)

    def sequenced(self, flight: Flight) -> None:
        """Note the places that the events of a flight were given."""
        if flight.run is not None:
            self._tape.sequenced(flight.run)

    def _take(self, rows: Any) -> None:
        if self._writer is not None:
            self._writer.append(rows)

    def _tick(self) -> None:
        self._tape.cut()
        self._timer = asyncio.get_running_loop().call_later(_CUT_S, self._tick)

    async def close(self) -> None:
        """Write the rest, with the mark of a good end."""
        if self._timer is not None:
            self._timer.cancel()
        self._tape.cut()
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                await asyncio.to_thread(writer.close, _CLOSE_S)
            except JournalError as error:
                self._report(error)
