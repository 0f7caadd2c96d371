"""One segment: what it is called, what it says about itself, and how it comes into view whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from unisono.journal.schema import (
    DROPPED_KEY,
    LAST_KEY,
    LIFE_KEY,
    PROCESS_KEY,
    SCHEMA,
    SEGMENT_KEY,
    VERSION,
    VERSION_KEY,
)
from unisono.model.errors import JournalError

SUFFIX = ".parquet"
_WORDS = [f.name for f in SCHEMA if pa.types.is_dictionary(f.type)]
# Numbers that mostly count up take a bit or two each as differences.
_COUNTERS = dict.fromkeys(("seq", "n", "number", "stamp.list.element"), "DELTA_BINARY_PACKED")


@dataclass(frozen=True, slots=True)
class Label:
    """What a segment says about itself."""

    process: str
    life: str
    number: int  # 0, 1, 2, … within the life
    is_last: bool = False  # the life ended in good order, and this is all of it
    dropped: int = 0  # rows of this life that were not written, up to here

    def to_metadata(self) -> dict[bytes, bytes]:
        """The key-value metadata of the file."""
        return {
            VERSION_KEY: str(VERSION).encode(),
            PROCESS_KEY: self.process.encode(),
            LIFE_KEY: self.life.encode(),
            SEGMENT_KEY: str(self.number).encode(),
            LAST_KEY: b"1" if self.is_last else b"0",
            DROPPED_KEY: str(self.dropped).encode(),
        }

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes]) -> Label:
        """The label in such metadata; KeyError or ValueError where there is none."""
        return cls(
            metadata[PROCESS_KEY].decode(),
            metadata[LIFE_KEY].decode(),
            int(metadata[SEGMENT_KEY]),
            metadata.get(LAST_KEY) == b"1",
            int(metadata.get(DROPPED_KEY, b"0")),
        )


def folder_name(process: str) -> str:
    """A name for the folder of a process that every file system takes, and no reader skips as hidden."""
    try:
        name = quote(process, safe="")
    except UnicodeEncodeError:
        raise JournalError(f"process {process!r} has a name that is not text; choose another name") from None
    if not name:
        raise JournalError("a process without a name cannot keep a journal; give it one")
    if name[0] in "._":  # Spark and Arrow skip what begins so
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return name


def process_name(folder: str) -> str:
    """The process whose folder has this name."""
    return unquote(folder)


def new_life() -> str:
    """A name for a life that begins now: lives of a process sort by when they began."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(4)}"


def segment_path(journal: Path, label: Label) -> Path:
    """Where the segment of that label belongs."""
    return journal / folder_name(label.process) / folder_name(label.life) / f"{label.number:08d}{SUFFIX}"


def write_segment(journal: Path, label: Label, table: pa.Table, *, fsync: bool = False) -> Path:
    """Write a segment aside and rename it into view; OSError if that cannot be done, and nothing is left."""
    path = segment_path(journal, label)
    aside = path.with_name(f".{path.name}.tmp")
    try:
        with aside.open("wb") as file:
            pq.write_table(
                table.replace_schema_metadata(label.to_metadata()),
                file,
                compression="zstd",
                compression_level=1,
                use_dictionary=[*_WORDS, "incarnation", "epoch"],
                column_encoding=_COUNTERS,
                write_statistics=["seq", "at"],
            )
            if fsync:
                file.flush()
                os.fsync(file.fileno())
        aside.rename(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
    if fsync:
        _fsync_folder(path.parent)
    return path


def _fsync_folder(folder: Path) -> None:
    """Make a rename last; the name of a file is in its folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
