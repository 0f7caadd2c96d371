"""What a watch has found, on disk beside Spark's checkpoint: each thing once, whoever is killed when.

Spark runs a batch again when it was killed before the batch was committed, with the same rows. A batch that is in
the ledger is done and is passed over then. What was found is written before it is told, and that it was told after:
killed in between, the next watch tells it. (Killed between the last letter told and the note of it, the next watch
tells it again, under the same number.)
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from unisono.model.errors import ConfigError
from unisono.pipeline.lake import replace_bytes

VERSION = 1
JAVA_GONE_S_MAX = 30.0
POLL_S = 0.1


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to be told: a violation, something that cannot be judged, a segment that cannot be used."""

    what: str  # violation, doubt or refused
    number: int  # counts up from 1, over restarts too
    explanation: str
    promise: str = ""
    subscription: str = ""
    events: tuple[str, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    also: tuple[dict[str, str], ...] = ()
    at: float = 0.0  # when it was found
    delay_s: float = 0.0  # since the youngest record that shows it


class LifeSoFar(msgspec.Struct):
    """How much of a life was judged."""

    segments: int = 0
    rows: int = 0
    deliveries: int = 0
    is_broken: bool = False  # it cannot be read on


class Page(msgspec.Struct):
    """All that was judged up to a batch, and how many notices there were."""

    batch: int = -1
    notices: int = 0
    violations: int = 0
    unsure: int = 0  # of the notices that are no violations
    forgotten: int = 0  # stamps that came too late to be compared
    lives: dict[str, LifeSoFar] = msgspec.field(default_factory=dict)


class _Belongs(msgspec.Struct):
    """To which journal a ledger belongs, and whose Java last worked for it."""

    version: int
    journal: str
    java: int = 0


class Ledger:
    """The ledger of one watch; it serves one at a time."""

    def __init__(self, folder: str | Path, journal: str | Path) -> None:
        self.folder, self.journal = Path(folder).absolute(), Path(journal).absolute()
        self.spark = self.folder / "spark"
        self.java_log = self.folder / "java.log"
        self._belongs, self._page = self.folder / "watch.json", self.folder / "page.json"
        self._told, self._found, self._rows = (self.folder / name for name in ("told", "found", "rows"))
        self.page = Page()

    @contextmanager
    def opened(self) -> Iterator[Ledger]:
        """Make or read it, and keep others out; ConfigError where that cannot be done."""
        try:
            for place in (self.folder, self._found, self._rows):
                place.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / ".lock").open("a+")
        except OSError as error:
            raise ConfigError(
                f"the checkpoint '{self.folder}' cannot be used: {error.strerror}; name a folder you may write to"
            ) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(
                    f"another watch is using the checkpoint '{self.folder}'; name another one, or end it"
                ) from None
            self._read()
            yield self

    def _read(self) -> None:
        stale = f"the checkpoint '{self.folder}' {{}}; name another one, or delete it to begin from the start"
        try:
            belongs = msgspec.json.decode(self._belongs.read_bytes(), type=_Belongs)
            if self._page.exists():
                self.page = msgspec.json.decode(self._page.read_bytes(), type=Page)
        except FileNotFoundError:
            if self.spark.exists():
                raise ConfigError(stale.format("is not one of a watch")) from None
            belongs = _Belongs(VERSION, str(self.journal))
        except msgspec.DecodeError:
            raise ConfigError(stale.format("is damaged")) from None
        if belongs.version != VERSION:
            raise ConfigError(stale.format("was made by another version of unisono"))
        if belongs.journal != str(self.journal):
            raise ConfigError(stale.format(f"is of the journal '{belongs.journal}'"))
        _await_gone(belongs.java)
        self.note_java(0)

    def note_java(self, pid: int) -> None:
        """Who works for this watch: killed, its Java ends a moment later, and nobody may begin before."""
        replace_bytes(self._belongs, msgspec.json.encode(_Belongs(VERSION, str(self.journal), pid)))

    def has(self, batch: int) -> bool:
        """Whether a batch is done."""
        return batch <= self.page.batch

    def note_rows(self, life: str, number: int, rows: int) -> None:
        """How many rows a segment has, so that a row can be found again without a look at every footer."""
        handle = os.open(self._rows_of(life), os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, np.int64(rows).tobytes(), number * 8)
        finally:
            os.close(handle)

    def rows_of(self, life: str) -> list[int]:
        """The rows of each segment of a life that was judged."""
        found: list[int] = np.fromfile(self._rows_of(life), dtype=np.int64).tolist()
        return found

    def _rows_of(self, life: str) -> Path:
        return self._rows / quote(life, safe="")

    def write(self, page: Page, notices: list[Notice]) -> None:
        """A batch is done: first what was found, then that it is done."""
        if notices:
            replace_bytes(self._found / f"{page.batch:012d}.json", msgspec.json.encode(notices))
        replace_bytes(self._page, msgspec.json.encode(page))
        self.page = page

    def untold(self) -> Iterator[Notice]:
        """What was found and not told, as it is told: what was taken from here has been."""
        told = -1
        with suppress(FileNotFoundError, ValueError):
            told = int(self._told.read_text())
        for path in sorted(self._found.glob("*.json")):
            batch = int(path.stem)
            if told < batch <= self.page.batch:
                yield from msgspec.json.decode(path.read_bytes(), type=list[Notice])
                replace_bytes(self._told, str(batch).encode())

    def notices(self) -> list[Notice]:
        """All that was ever found."""
        paths = sorted(self._found.glob("*.json"))
        done = (path for path in paths if self.has(int(path.stem)))
        return [n for path in done for n in msgspec.json.decode(path.read_bytes(), type=list[Notice])]


def _await_gone(pid: int) -> None:
    """Wait for a process to end; ConfigError if it does not."""
    bound = time.monotonic() + JAVA_GONE_S_MAX
    while pid and _is_java(pid):
        if time.monotonic() > bound:
            raise ConfigError(f"the Java of an earlier watch (process {pid}) still runs; end it")
        time.sleep(POLL_S)


def _is_java(pid: int) -> bool:
    try:
        return b"java" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
