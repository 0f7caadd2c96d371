"""The lake: where a journal's tables, states and verdicts live, and how things get there whole or not at all."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from unisono.pipeline.certify import Witnessed
    from unisono.pipeline.tally import Tally

_STATE_VERSION = 3
QUARANTINE = pa.schema([("path", pa.string()), ("reason", pa.string()), ("at", pa.float64())])


class Lake:
    """The folders of a lake; everything in it can be made again from the journal."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.landed = self.folder / "landed"  # segments that may be used, as links
        self.quarantined = self.folder / "quarantined"  # a row for each that may not
        self.states = self.folder / "states"  # what is carried over, one file for each life
        self.verdicts = self.folder / "verdicts"  # what the last run came to
        self.plan = self.folder / "plan"  # the plan that follows from it
        self.warehouse = self.folder / "warehouse"  # the tables
        self.storage = self.folder / "storage"  # how far each stream has come
        self.project = self.folder / "project"  # the declarative pipeline as it is run
        self.conf = self.folder / "conf"

    def open(self) -> Lake:
        """Make the folders; ConfigError where that cannot be done."""
        try:
            for place in (
                self.landed,
                self.quarantined,
                self.states,
                self.verdicts,
                self.plan,
                self.storage,
                self.conf,
            ):
                place.mkdir(parents=True, exist_ok=True)
            probe = self.folder / ".probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigError(
                f"the lake '{self.folder}' cannot be used: {error.strerror}; name a folder you may write to"
            ) from None
        return self

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out; whoever holds it and dies lets go of it."""
        with (self.folder / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(
                    f"another run is using the lake '{self.folder}'; wait for it to end"
                ) from None
            yield

    def state(self, life: str) -> Witnessed | None:
        """What the last run knew of a life; None if it is new, damaged, or written by another version.

        What is not known is judged again from the journal.
        """
        return _load(self._state_path(life))

    def tallies(self) -> list[Tally]:
        """What the lives that were judged tell a planner; ConfigError if there is no such lake."""
        states = [_load(path) for path in sorted(self.states.glob("*.pickle"))]
        found = [state.tally for state in states if state is not None and state.tally is not None]
        if not found:
            raise ConfigError(
                f"'{self.folder}' is no lake with anything in it; make one with 'unisono pipeline run'"
            )
        return found

    def keep_state(self, life: str, state: Witnessed) -> None:
        """Replace the state of a life at once."""
        replace_bytes(self._state_path(life), pickle.dumps((_STATE_VERSION, state), protocol=5))

    def _state_path(self, life: str) -> Path:
        return self.states / f"{quote(life, safe='')}.pickle"

    def land(self, life: str, number: int, path: str) -> bool:
        """Put a segment in view of the tables; whether it was not there before."""
        place = self.landed / f"{quote(life, safe='')}-{number:08d}.parquet"
        if place.exists():
            return False
        aside = place.with_name(f".{place.name}.tmp")
        with suppress(FileNotFoundError):
            aside.unlink()
        try:
            os.link(path, aside)
        except OSError:  # another disk
            shutil.copyfile(path, aside)
        aside.rename(place)
        return True

    def quarantine(self, path: str, reason: str, at: float) -> bool:
        """Note a segment that cannot be used; whether that is news."""
        name = blake2b(f"{path}\n{reason}".encode(), digest_size=12).hexdigest()
        place = self.quarantined / f"{name}.parquet"
        if place.exists():
            return False
        replace_table(place, pa.table([[path], [reason], [at]], schema=QUARANTINE))
        return True


def _load(path: Path) -> Witnessed | None:
    try:
        version, state = pickle.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError:
        raise
    except Exception:  # a pickle that is not whole can raise anything
        return None
    return state if version == _STATE_VERSION else None


def replace_bytes(path: Path, data: bytes) -> None:
    """Write a file aside and rename it over what was there."""
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)


def replace_table(path: Path, table: pa.Table) -> None:
    """The same for a Parquet file."""
    aside = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, aside)
    aside.rename(path)
