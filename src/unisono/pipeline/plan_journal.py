"""The records of a journal as one frame, for plans and reports; what cannot be read is told, not guessed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unisono.model.errors import HistoryError
from unisono.pipeline.segments import list_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_journal(spark: SparkSession, journal: Path) -> DataFrame:
    """Every record of the usable segments; raises HistoryError when there is none."""
    listing = list_journal(journal)
    paths = [segment.path for life in listing.lives for segment in life.segments]
    if not paths:
        why = f": {listing.refused[0].path}: {listing.refused[0].reason}" if listing.refused else ""
        raise HistoryError(f"{journal} holds no usable segment{why}")
    return spark.read.parquet(*paths)
