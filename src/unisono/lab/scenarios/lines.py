"""On which line of a TOML text each key stands: `tomllib` reads values and forgets where they were.

Only a text that `tomllib` has accepted is looked at here, so nothing is checked a second time.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]  # names of tables and keys, and places in arrays from 0

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]*")  # numbers, dates, true and false


def key_lines(text: str) -> dict[Path, int]:
    """The line of each key, table and element, from 1; of a table that is opened twice, the first."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


class _Scanner:
    """Walks through a text once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[Path, int] = {}  # arrays of tables -> how many there are so far

    def scan(self) -> None:
        """Find every key."""
        table: Path = ()
        while self._skip(_BLANK) and self.at < len(self.text):
            if self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        is_array = self.text.startswith("[[", self.at)
        start = self.at
        self.at += 1 + is_array
        *parents, last = self._key()
        self.at += 1 + is_array
        path = self._within((), parents)
        if is_array:
            place = self._tables[*path, last] = self._tables.get((*path, last), -1) + 1
            path += (last, place)
        else:
            path = self._within(path, [last])
        for end in range(1, len(path) + 1):
            self._note(path[:end], start)
        return path

    def _within(self, path: Path, names: list[str]) -> Path:
        """Follow names from a table; an array of tables means its last one."""
        for name in names:
            path += (name,)
            if path in self._tables:
                path += (self._tables[path],)
        return path

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table
        for name in self._key():
            path += (name,)
            self._note(path, start)
        self.at += 1  # the sign between key and value
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[str]:
        names: list[str] = []
        while True:
            self._skip(_SPACE)
            quoted = _STRING.match(self.text, self.at)
            if quoted is not None:
                names.append(tomllib.loads(f"key = {quoted[0]}")["key"])
                self.at = quoted.end()
            else:
                bare = _BARE_KEY.match(self.text, self.at)
                assert bare is not None, "not a key"
                names.append(bare[0])
                self.at = bare.end()
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return names
            self.at += 1

    def _value(self, path: Path) -> None:
        if self.text.startswith("[", self.at):
            self._elements(path)
        elif self.text.startswith("{", self.at):
            self._inline(path)
        else:
            self._skip(_STRING) or self._skip(_PLAIN)

    def _elements(self, path: Path) -> None:
        self.at += 1
        place = 0
        while self._skip(_BLANK) and not self.text.startswith("]", self.at):
            self._note((*path, place), self.at)
            self._value((*path, place))
            self._comma()
            place += 1
        self.at += 1

    def _inline(self, path: Path) -> None:
        self.at += 1
        while self._skip(_BLANK) and not self.text.startswith("}", self.at):
            self._pair(path)
            self._comma()
        self.at += 1

    def _comma(self) -> None:
        self._skip(_BLANK)
        self.at += self.text.startswith(",", self.at)

    def _skip(self, what: re.Pattern[str]) -> bool:
        found = what.match(self.text, self.at)
        if found is None:
            return False
        self.at = found.end()
        return True

    def _note(self, path: Path, start: int) -> None:
        self.lines.setdefault(path, bisect_right(self._newlines, start - 1) + 1)
