"""A full disk: JetStream gives a stream up for good when it cannot write, so the server is started again when there is room."""

from __future__ import annotations

import shutil
from pathlib import Path

SAID = b"no space left on device"
ROOM_BYTES, ROOM_SHARE = 64 * 1024 * 1024, 0.05  # free, or this share of the disk if that is less


class DiskWatch:
    """Reads what the server logs, and looks at its disk."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = _size(log)
        self.is_full = False  # the server has said so since it was started

    def begin(self) -> None:
        """The server is started: what it has said before does not count."""
        self._read, self.is_full = _size(self._log), False

    def look(self) -> bool:
        """Whether the server has just said that its disk is full."""
        if self.is_full:
            return False
        size = _size(self._log)
        try:
            with self._log.open("rb") as file:
                file.seek(self._read if size >= self._read else 0)  # it may have begun a new file
                self.is_full = SAID in file.read()
        except OSError:
            return False
        self._read = size
        return self.is_full

    def has_room(self) -> bool:
        """Whether it is worth while to try again."""
        disk = shutil.disk_usage(self._log.parent)
        return disk.free >= min(ROOM_BYTES, disk.total * ROOM_SHARE)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
