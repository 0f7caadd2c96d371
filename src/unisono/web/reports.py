"""Reports of audits and of the lab that lie in folders: found, and shown as they are.

A report is somebody's document: it is shown in a frame that may run its own scripts, draw, and do nothing else. It
cannot ask the dashboard for anything, nor anybody else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

FILES_MAX = 500  # that are listed
KNOWN_MAX = 20 * FILES_MAX  # that can be asked for, those that are gone among them
SEEN_MAX = 20_000  # that are looked at
DEPTH_MAX = 6
BYTES_MAX = 32 * 1024 * 1024
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
FRAMED = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)


class Report(msgspec.Struct, frozen=True):
    """A file that somebody may want to read."""

    n: int  # by which it is asked for
    name: str  # its path below its folder
    folder: str
    kind: str  # html, json, …
    bytes: int
    changed_at: float
    verdict: str = ""  # of an audit, if it says so at once


class Reports:
    """What lies in some folders. Only what was listed can be read."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._known: list[Path] = []
        self._numbers: dict[Path, int] = {}

    def found(self) -> list[Report]:
        """Every report there is now, the newest first."""
        if len(self._known) > KNOWN_MAX:
            self._known, self._numbers = [], {}
        reports = []
        for folder in self._folders:
            for path in _walk(folder):
                try:
                    stat = path.stat()
                except OSError:
                    continue
                n = self._numbers.setdefault(path, len(self._known))
                if n == len(self._known):
                    self._known.append(path)
                name = str(path.relative_to(folder))
                verdict = _verdict(path, stat.st_size) if path.suffix == ".json" else ""
                kind = path.suffix[1:]
                reports.append(
                    Report(n, name, folder.name or str(folder), kind, stat.st_size, stat.st_mtime, verdict)
                )
        return sorted(reports, key=lambda report: (-report.changed_at, report.name))[:FILES_MAX]

    def read(self, n: int) -> tuple[bytes, str, str] | None:
        """What is in a report, of which kind it is, and what it may do; None if there is none."""
        if not 0 <= n < len(self._known):
            return None
        path = self._known[n]
        try:
            if path.is_symlink() or path.stat().st_size > BYTES_MAX:
                return None
            return path.read_bytes(), KINDS[path.suffix], FRAMED
        except OSError:
            return None


def _walk(folder: Path) -> list[Path]:
    """The files of a folder that may be shown; links are not followed."""
    found: list[Path] = []
    todo, seen = [(folder, 0)], 0
    while todo and len(found) < FILES_MAX and seen < SEEN_MAX:
        here, depth = todo.pop()
        try:
            inside = sorted(here.iterdir())
        except OSError:
            continue
        seen += len(inside)
        for path in inside:
            if path.is_symlink() or path.name.startswith((".", "_")):
                continue
            if path.is_dir():
                if depth < DEPTH_MAX:
                    todo.append((path, depth + 1))
            elif path.suffix in KINDS and path.is_file():
                found.append(path)
    return found


def _verdict(path: Path, size: int) -> str:
    """What a document of ours says at its top: held, violated, unknown."""
    if size > 2 * 1024 * 1024:
        return ""
    try:
        document: Any = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return ""
    said = document.get("verdict") if isinstance(document, dict) else None
    return said if isinstance(said, str) and len(said) < 40 else ""
