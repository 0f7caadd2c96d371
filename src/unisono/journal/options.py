"""How a bus keeps its journal: `unisono.connect(url, journal=Journal("journal", payloads=True))`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unisono.journal.spool import BYTES_MAX, ROWS_MAX, SECONDS_MAX, Rotation
from unisono.journal.writer import QUEUE_BYTES_MAX
from unisono.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Journal:
    """A folder, and when a segment in it is full; a plain path is one with everything as it is here."""

    folder: str | Path
    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    seconds_max: float = SECONDS_MAX
    queue_bytes_max: int = QUEUE_BYTES_MAX  # beyond it rows are dropped, and counted
    payloads: bool = False  # record what was published, not only that it was
    fsync: bool = False  # make every segment outlast a power cut

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | Path) or not str(self.folder):
            raise ConfigError(f"journal= takes a folder or a Journal, not {self.folder!r:.80}")
        Rotation(self.rows_max, self.bytes_max, self.seconds_max)
