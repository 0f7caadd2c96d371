"""Writes down what happened, for the judges in `unisono.history`."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from unisono.history.record import Kind, Record, to_json
from unisono.model.errors import ConfigError
from unisono.runtime.receipts import Flight, Receipt

log = logging.getLogger("unisono")
_FLUSH_RECORDS = 1000


class Recorder:
    """Appends records to a list, or to a file of JSON lines that others can read while it grows."""

    def __init__(self, target: list[Record] | str | Path) -> None:
        if not isinstance(target, list | str | Path):
            raise ConfigError(f"record= takes a path or a list, not {type(target).__name__}")
        self._target = target
        self._seq: dict[str, int] = {}
        self._file: IO[bytes] | None = None
        self._unwritten: list[bytes] = []

    def open(self) -> None:
        """Open the file, if it is one."""
        if isinstance(self._target, list):
            return
        try:
            Path(self._target).parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._target, "ab")  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise ConfigError(f"cannot record to '{self._target}': {error}; choose another path") from None

    def write(self, kind: Kind, process: str, **fields: Any) -> None:
        """Note that something happened to `process` just now."""
        seq = self._seq[process] = self._seq.get(process, 0) + 1
        record = Record(kind, process, seq, time.time(), **fields)
        if isinstance(self._target, list):
            self._target.append(record)
        elif self._file is not None:
            self._unwritten.append(to_json(record))
            if len(self._unwritten) >= _FLUSH_RECORDS:
                self.flush()

    def write_sequenced(self, process: str, flight: Flight) -> None:
        """Note the places that the events of a flight were given."""
        for seat, publication in enumerate(flight.publications):
            stamp, topic = Receipt(flight, seat).stamp, publication.topic
            if stamp:
                self.write(
                    Kind.SEQUENCED,
                    process,
                    event=str(publication.id),
                    topic=topic,
                    number=stamp[topic],
                    stamp=stamp,
                )

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

    def close(self) -> None:
        """Write the rest and let go of the file."""
        self.flush()
        self._let_go()

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what could not be written has been reported
                file.close()
