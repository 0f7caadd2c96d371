"""Histories as JSON lines, one record a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unisono.history.record import Record, from_json, to_json
from unisono.model.errors import HistoryError


def read_history(path: str | Path) -> list[Record]:
    """The records of a file of JSON lines; an error names the line."""
    records: list[Record] = []
    try:
        with Path(path).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    records.append(_read_line(path, number, line))
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror}") from error
    return records


def write_history(path: str | Path, records: Iterable[Record]) -> None:
    """Write `records` as JSON lines, replacing what was there."""
    with Path(path).open("wb") as lines:
        for record in records:
            lines.write(to_json(record) + b"\n")


def _read_line(path: str | Path, number: int, line: bytes) -> Record:
    try:
        return from_json(line)
    except HistoryError as error:
        raise HistoryError(f"{path}, line {number}: {error}") from None
