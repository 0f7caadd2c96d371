"""Which topics a pattern stands for, for many topics at once.

`unisono.model.ids.matches` says what is meant; this is the same, faster, and a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from unisono.model.ids import is_pattern


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    words = [{"*": r"[^.]+", ">": r".+"}.get(word) or re.escape(word) for word in pattern.split(".")]
    return re.compile(r"\.".join(words), re.DOTALL)


def is_match(patterns: Iterable[str], topic: str) -> bool:
    """Whether one of the patterns stands for this topic."""
    return any(_compiled(pattern).fullmatch(topic) for pattern in patterns)


def matching(patterns: Iterable[str], topics: Iterable[str]) -> list[str]:
    """The topics that the patterns stand for, in the order they are given."""
    found = [_compiled(pattern).fullmatch for pattern in patterns]
    return [topic for topic in topics if any(match(topic) for match in found)] if found else []


def split(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics and patterns apart, each in its order."""
    names = tuple(names)
    return tuple(n for n in names if not is_pattern(n)), tuple(n for n in names if is_pattern(n))
