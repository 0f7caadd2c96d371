"""Publications recorded elsewhere, from CSV or Parquet, a portion at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

PORTION_ROWS = 65_536


class Traced(NamedTuple):
    """One publication of a trace."""

    at: float
    topic: str
    publisher: str = "p1"
    size_bytes: int = 0


class TraceError(ValueError):
    """A trace cannot be read, and why, with file and row."""


def read_trace(path: str | Path) -> Iterator[Traced]:
    """The publications of a trace, in the order of time, read as they are asked for.

    Columns `at` (seconds) and `topic` must be there, `publisher` and `size_bytes` may be.
    """
    path = Path(path)
    rows = _parquet_rows(path) if path.suffix == ".parquet" else _csv_rows(path)
    latest = 0.0
    for number, row in rows:
        traced = _traced(row, f"{path.name}, row {number}")
        if traced.at < latest:
            raise TraceError(
                f"{path.name}, row {number}: {traced.at} is before {latest}; sort the trace by 'at'"
            )
        latest = traced.at
        yield traced


def _traced(row: Mapping[str, Any], where: str) -> Traced:
    if None in row:
        raise TraceError(f"{where}: more values than there are columns")
    try:
        at, topic = float(row["at"]), str(row["topic"] or "")
        publisher, size = str(row.get("publisher") or "p1"), int(row.get("size_bytes") or 0)
    except KeyError as error:
        raise TraceError(f"{where}: no column {error}; a trace has 'at' and 'topic'") from None
    except (TypeError, ValueError) as error:
        raise TraceError(f"{where}: {error}; 'at' is a number of seconds, 'size_bytes' a whole one") from None
    if not topic or not 0 <= at < inf or size < 0:
        raise TraceError(
            f"{where}: a publication has a topic, a time and a size, none below zero or infinite"
        )
    return Traced(at, topic, publisher, size)


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from enumerate(csv.DictReader(file), start=2)  # the first row has the names


def _parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    from pyarrow.parquet import ParquetFile  # only who reads Parquet needs it

    number = 0
    with ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=PORTION_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield number, row
