"""What a process of a run did, written down before it counts: a line of JSON each, whole even if it is killed.

Times are of the machine's steady clock, the same for every process of a run.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened to one process."""

    what: str  # began, published, unconfirmed, acknowledged, opened, delivered, stopped, ended
    at: float
    id: str = ""
    topic: str = ""
    number: int = 0
    topics: tuple[str, ...] = ()
    missed: int = 0
    redelivered: bool = False
    text: str = ""


class Diary:
    """A file that is only ever added to, by one process after another."""

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._encoder = msgspec.json.Encoder()

    def write(self, what: str, **fields: object) -> None:
        """Add an entry; it is the kernel's when this returns, and outlives us."""
        entry = Entry(what, time.monotonic(), **fields)  # type: ignore[arg-type]
        os.write(self._file, self._encoder.encode(entry) + b"\n")


def read_diary(path: str | Path) -> list[Entry]:
    """What was written so far; a line that is not whole yet is left out."""
    try:
        lines = Path(path).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    decoder = msgspec.json.Decoder(Entry)
    return [decoder.decode(line) for line in lines]
