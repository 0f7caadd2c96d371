"""Writes down what happened, for the judges in `unisono.history`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO, Any

from unisono.history.record import Kind, Record, to_json
from unisono.model.errors import ConfigError

_FLUSH_RECORDS = 1000


class Recorder:
    """Appends records to a list, or to a file of JSON lines that others can read while it grows."""

    def __init__(self, target: list[Record] | str | Path) -> None:
        self._seq: dict[str, int] = {}
        self._file: IO[bytes] | None = None
        self._unwritten: list[bytes] = []
        self._list: list[Record] | None = None
        if isinstance(target, list):
            self._list = target
        elif isinstance(target, str | Path):
            try:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                self._file = open(target, "ab")  # noqa: SIM115 (closed by close)
            except OSError as error:
                raise ConfigError(f"cannot record to '{target}': {error}") from None
        else:
            raise ConfigError(f"record= takes a path or a list, not {type(target).__name__}")

    def write(self, kind: Kind, process: str, **fields: Any) -> None:
        """Note that something happened to `process` just now."""
        seq = self._seq[process] = self._seq.get(process, 0) + 1
        record = Record(kind, process, seq, time.time(), **fields)
        if self._list is not None:
            self._list.append(record)
            return
        self._unwritten.append(to_json(record))
        if len(self._unwritten) >= _FLUSH_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Write what has been gathered."""
        if self._file is not None and self._unwritten:
            self._file.write(b"\n".join(self._unwritten) + b"\n")
            self._file.flush()
        self._unwritten.clear()

    def close(self) -> None:
        """Write the rest and let go of the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
