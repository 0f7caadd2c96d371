"""A clock that jumps: libfaketime sets the wall clock of one process; what measures durations goes on as it was."""

from __future__ import annotations

from pathlib import Path

JUMP = "3600"  # seconds
PLACES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1")


class Clock:
    """The wall clock of one process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump("")
        library = find_library()
        assert library is not None
        self.env = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def jump(self, sign: str) -> None:
        """An hour ahead ("+"), back ("-"), or right again ("")."""
        self._file.write_text(f"{sign}{JUMP}\n" if sign else "+0\n")


def find_library() -> str | None:
    """Where libfaketime is; None if it is not installed."""
    for place in PLACES:
        found = sorted(Path("/").glob(place.lstrip("/")))
        if found:
            return str(found[0])
    return None


def why_no_clock() -> str | None:
    """What to tell somebody who wants clocks to jump; None if they can."""
    return None if find_library() else "libfaketime is not there; 'apt-get install faketime' brings it"
