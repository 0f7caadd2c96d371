"""Reads the tables of a scenario file: every value is asked for by key, and what is wrong is one line.

The line names the file, the line in it and the key: `world.toml, line 12: 'publications.rate' is above 0, not -5`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any, NoReturn

from unisono.lab.scenarios.lines import Path, key_lines
from unisono.model.errors import ConfigError

BYTES_MAX = 10_000_000
_SHOWN_MAX = 60
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


class Text:
    """A scenario file: its data, and where each key stands."""

    def __init__(self, name: str, text: str, homes: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.homes = homes or {}  # key -> the table it belongs to, for who looks for it elsewhere
        try:
            self.data = tomllib.loads(text)
            self._lines = key_lines(text.replace("\r\n", "\n"))
        except RecursionError:
            raise ConfigError(f"{name} is not TOML: it is nested too deeply") from None
        except ValueError as error:
            raise ConfigError(_not_toml(name, text, str(error))) from None

    def line_of(self, path: Path) -> int:
        """The line of a key, or of the table it would be in."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


def read_text(file: File, homes: Mapping[str, str] | None = None) -> Text:
    """The text of a file; ConfigError where there is none, or one that is no text."""
    try:
        if file.is_dir():
            raise ConfigError(f"{file} is a folder; name a scenario file in it")
        if file.stat().st_size > BYTES_MAX:
            raise ConfigError(f"{file} is over the limit of {BYTES_MAX:,} bytes for a scenario")
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise ConfigError(f"{file} is not a text file: byte {error.start} is not UTF-8") from None
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{one_line(str(file))} cannot be read: {why}") from None
    if not text.strip():
        raise ConfigError(f"{file} is empty; docs/lab.md shows what a scenario says")
    return Text(str(file), text, homes)


class Table:
    """One table of a scenario: who asks for a key gets a value that fits, or the user gets a line."""

    def __init__(self, text: Text, path: Path, data: Mapping[str, Any], keys: Sequence[str]) -> None:
        self.text = text
        self.path = path
        self.data = data
        for key in data:
            if key not in keys:
                self.fail(key, self._unknown(key, keys))

    def __contains__(self, key: str) -> bool:
        return key in self.data

    @property
    def title(self) -> str:
        """The name of the table, as headers have it."""
        return ".".join(str(part) for part in self.path if isinstance(part, str))

    def fail(self, key: str, why: str, *, place: int | None = None) -> NoReturn:
        """Raise the one line that says what is wrong with a key, or with an element of its array."""
        raise ConfigError(f"{self.place_of(key, place)} {one_line(why)}")

    def place_of(self, key: str, place: int | None = None) -> str:
        """The file, the line and the key, or an element of its array, as every complaint begins."""
        path = (*self.path, key)
        line = self.text.line_of(path if place is None else (*path, place))
        return f"{self.text.name}, line {line}: {'.'.join(part for part in (self.title, key) if part)!r}"

    def missing(self, key: str, what: str) -> NoReturn:
        """Raise the line for a key that must be there."""
        self.fail(key, f"is missing: {what}")

    # Values.

    def number(self, key: str, otherwise: float, *, least: float = 0.0, most: float = 1e9) -> float:
        """A number between two bounds."""
        value = self.data.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            self.fail(key, f"is a number, not {shown(value)}")
        self._bound(key, value, least, most)
        return float(value)

    def positive(self, key: str, otherwise: float, *, most: float = 1e9) -> float:
        """A number above 0."""
        if self.number(key, otherwise, least=float("-inf"), most=most) <= 0:
            self.fail(key, f"is above 0, not {shown(self.data.get(key, otherwise))}")
        return float(self.data.get(key, otherwise))

    def whole(self, key: str, otherwise: int, *, least: int = 0, most: int = 1_000_000) -> int:
        """A whole number between two bounds."""
        value = self.data.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"is a whole number, not {shown(value)}")
        self._bound(key, value, least, most)
        return value

    def flag(self, key: str, otherwise: bool) -> bool:
        """True or false."""
        value = self.data.get(key, otherwise)
        if not isinstance(value, bool):
            self.fail(key, f"is true or false, not {shown(value)}")
        return value

    def word(self, key: str, otherwise: str, words: Sequence[str]) -> str:
        """One of some words."""
        value = self.data.get(key, otherwise)
        if value not in words:
            self.fail(key, f"is one of {', '.join(words)}, not {shown(value)}{_hint(value, words)}")
        assert isinstance(value, str)
        return value

    def string(self, key: str, otherwise: str) -> str:
        """A string of one line that is not empty."""
        value = self.data.get(key, otherwise)
        if not isinstance(value, str) or not value.isprintable() or (key in self.data and not value.strip()):
            self.fail(key, f"is a word, not {shown(value)}")
        return value

    def strings(self, key: str) -> list[str]:
        """An array of strings, none of them twice."""
        value = self.data.get(key, [])
        if not isinstance(value, list):
            self.fail(key, f"is an array of words, not {shown(value)}")
        for place, element in enumerate(value):
            if not isinstance(element, str):
                self.fail(key, f"is an array of words, and {shown(element)} is none", place=place)
            if element in value[:place]:
                self.fail(key, f"has {shown(element)} twice", place=place)
        return value

    # Tables within.

    def table(self, key: str, keys: Sequence[str]) -> Table:
        """The table of this name, empty if there is none."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, f"is a table, not {shown(value)}: write [{key}] on a line of its own")
        return Table(self.text, (*self.path, key), value, keys)

    def tables(self, key: str, keys: Sequence[str]) -> list[Table]:
        """The tables of this name: [[key]] any number of times, or [key] once."""
        value = self.data.get(key, [])
        if isinstance(value, dict):
            return [self.table(key, keys)]
        if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
            self.fail(key, f"is made of tables, not {shown(value)}: write [[{key}]] on a line of its own")
        return [Table(self.text, (*self.path, key, i), table, keys) for i, table in enumerate(value)]

    def _unknown(self, key: str, keys: Sequence[str]) -> str:
        home = self.text.homes.get(key)
        if home is not None and (not home or not self.title):
            place = f"in [{home}]" if home else "at the top of the file, before the first [table]"
            hint = f"; it belongs {place}"
        else:
            hint = _hint(key, keys) or f"; the keys are {', '.join(keys)}"
        return f"is not a key of {f'[{self.title}]' if self.title else 'a scenario'}{hint}"

    def _bound(self, key: str, value: float, least: float, most: float) -> None:
        if value < least:
            self.fail(key, f"is at least {_limit(least)}, not {shown(value)}")
        if value > most:
            self.fail(key, f"is at most {_limit(most)}, not {shown(value)}")


def _not_toml(name: str, text: str, why: str) -> str:
    """What `tomllib` says, and the line that it means."""
    found = _AT_LINE.search(why)
    if found is None:
        return f"{name} is not TOML: {one_line(why)}"
    line = int(found[1])
    there = text.replace("\r\n", "\n").split("\n")[line - 1].strip()
    return f"{name}, line {line}: {shown(there)} is not TOML: {one_line(_AT_LINE.sub('', why))}"


def _limit(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def shown(value: object) -> str:
    """A value as TOML would have it, not longer than what one looks at."""
    match value:
        case bool():
            text = str(value).lower()
        case str():
            text = f'"{value}"'
        case dict():
            text = "a table"
        case list():
            text = f"an array of {len(value)}"
        case int() if abs(value) > 10**20:
            text = "a number of more than 20 digits"
        case _:
            text = str(value)
    return one_line(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…")


def one_line(text: str) -> str:
    """The text without anything that a terminal would break or obey."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _hint(value: object, words: Sequence[str]) -> str:
    near = get_close_matches(value, words, 1, 0.6) if isinstance(value, str) else []
    if value == "order" and "guarantee" in words:
        near = ["guarantee"]  # what the bus calls it
    return f"; did you mean '{near[0]}'?" if near else ""
