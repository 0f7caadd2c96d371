"""The segments of a journal that can be read, as one frame, and the others with the reason why not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from unisono.journal.schema import SCHEMA, VERSION, VERSION_KEY
from unisono.model.errors import HistoryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Skipped(msgspec.Struct, frozen=True):
    """A file in a journal that is not read, and why."""

    path: str
    reason: str


def find_segments(journal: Path) -> tuple[list[Path], list[Skipped]]:
    """The readable segments of a journal, oldest name first, and what else lies there; looks at footers only."""
    if not journal.is_dir():
        raise HistoryError(f"{journal} is not a folder; a journal is the folder that a process recorded into")
    good: list[Path] = []
    skipped: list[Skipped] = []
    for path in sorted(journal.rglob("*.parquet")):
        if path.name.startswith((".", "_")):
            continue  # still being written
        reason = _objection(path)
        if reason is None:
            good.append(path)
        else:
            skipped.append(Skipped(str(path.relative_to(journal)), reason))
    return good, skipped


def read_journal(spark: SparkSession, journal: Path) -> DataFrame:
    """Every record of the readable segments; raises HistoryError when there is none."""
    good, skipped = find_segments(journal)
    if not good:
        why = f": {skipped[0].path}: {skipped[0].reason}" if skipped else ""
        raise HistoryError(f"{journal} holds no readable segment{why}")
    return spark.read.parquet(*map(str, good))


def _objection(path: Path) -> str | None:
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return "not readable as Parquet"
    version = (schema.metadata or {}).get(VERSION_KEY)
    if version is None:
        return "not a journal segment"
    if version != str(VERSION).encode():
        return f"schema version {version.decode(errors='replace')}, this program reads {VERSION}"
    missing = [name for name in SCHEMA.names if name not in schema.names]
    return f"lacks the columns {', '.join(missing)}" if missing else None
