"""Where keys stand in a TOML text, whatever it is written like."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.lab.scenarios.lines import Path, key_lines

TEXT = '''\
# a comment with a key = 1 in it
seed = 1  # and [a.table] behind it
name = "not # a comment, [[not]] a table"

[topics]
count = 5
"quoted key" = 'C:\\path # here too'
nested.dotted.key = true

[[subscribers]]
count = 2
topics = [
  "a",  # the first
  "b, ] and }",
]
popularity = { kind = "zipf", shape = 1.0 }
[subscribers.more]
x = 1

[[subscribers]]
text = """
count = 7
\\""" still text ""two""" # after it
count = 3
[[subscribers.inner]]
deep = 1979-05-27 07:32:00
[[subscribers.inner]]
deep = \'\'\'it''s
\'\'\'
deeper = [[1, 2], [{ a = 1 }, { a = "]" }]]

[ network . "notifications" ]
loss=0.5
'''

EXPECTED: dict[Path, int] = {
    ("seed",): 2,
    ("name",): 3,
    ("topics",): 5,
    ("topics", "count"): 6,
    ("topics", "quoted key"): 7,
    ("topics", "nested"): 8,
    ("topics", "nested", "dotted", "key"): 8,
    ("subscribers",): 10,
    ("subscribers", 0): 10,
    ("subscribers", 0, "count"): 11,
    ("subscribers", 0, "topics"): 12,
    ("subscribers", 0, "topics", 0): 13,
    ("subscribers", 0, "topics", 1): 14,
    ("subscribers", 0, "popularity", "shape"): 16,
    ("subscribers", 0, "more"): 17,
    ("subscribers", 0, "more", "x"): 18,
    ("subscribers", 1): 20,
    ("subscribers", 1, "text"): 21,
    ("subscribers", 1, "count"): 24,
    ("subscribers", 1, "inner", 0): 25,
    ("subscribers", 1, "inner", 0, "deep"): 26,
    ("subscribers", 1, "inner", 1, "deep"): 28,
    ("subscribers", 1, "inner", 1, "deeper", 1, 1, "a"): 30,
    ("network", "notifications"): 32,
    ("network", "notifications", "loss"): 33,
}


def paths(value: Any, path: Path = ()) -> set[Path]:
    """Every key and element there is in data."""
    found = {path} if path else set()
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= paths(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            found |= paths(inner, (*path, place))
    return found


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_every_key_has_its_line(ending: str) -> None:
    lines = key_lines(TEXT.replace("\n", ending))
    assert {path: lines.get(path) for path in EXPECTED} == EXPECTED
    assert paths(tomllib.loads(TEXT)) <= set(lines)


def test_an_empty_text_has_no_keys() -> None:
    assert key_lines("") == {}
    assert key_lines("\n  # only this") == {}


_WORD = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_VALUES = st.recursive(
    st.integers(-9, 9) | st.booleans() | _WORD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORD, inner, max_size=3),
    max_leaves=8,
)


def quoted(text: str) -> str:
    """A basic string."""
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


def written(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(k)} = {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(written, value)) + "]"
    return quoted(value) if isinstance(value, str) else str(value)


@given(st.lists(st.dictionaries(_WORD, _VALUES, max_size=3), max_size=3))
def test_whatever_is_written_is_found(tables: list[dict[str, Any]]) -> None:
    text, expected = "", {}
    for place, table in enumerate(tables):
        text += "[[t]]\n"
        for key, value in table.items():
            expected["t", place, key] = text.count("\n") + 1
            text += f"{quoted(key)} = {written(value)} # {key.isascii()}\n"
    found = key_lines(text)
    assert {path: found.get(path) for path in expected} == expected
    assert paths(tomllib.loads(text)) <= set(found)
