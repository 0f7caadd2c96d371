"""The data directory: ours alone, and one server's at a time."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from unisono.model.errors import ServerError

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
LAST_BREATH_S = 5.0  # how long a server whose master was killed may take to go


class DataDirectory:
    """A directory, locked while it is open.

    The server inherits the lock: were we killed, the directory is free only when the server is gone too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None

    def open(self) -> None:
        """Make it if it is not there, and lock it; raises ServerError when somebody else has it."""
        try:
            self.path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            file = os.open(self.path / "unisono.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise ServerError(
                f"the data directory {self.path} cannot be used: {error.strerror}; give another with --data"
            ) from error
        deadline = time.monotonic() + LAST_BREATH_S
        while not _locked(file):
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            if _is_alive(holder) or time.monotonic() > deadline:
                os.close(file)
                raise ServerError(
                    f"the data directory {self.path} is in use by process {holder or 'unknown'}; "
                    "stop that one first, or give another directory with --data"
                )
            time.sleep(0.02)
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._lock = file

    @property
    def lock(self) -> int:
        """The open lock file, for the server to inherit."""
        assert self._lock is not None, "the directory is not open"
        return self._lock

    def close(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def write_private(path: Path, text: str) -> None:
    """Put a file in place at once, readable by us alone."""
    beside = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        beside.unlink()
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)
    beside.replace(path)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
