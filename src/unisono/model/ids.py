"""Names: topics, patterns of topics, and the identity of an event.

A topic is dot-separated words (`orders.eu.new`). A pattern may hold `*` for one whole word and `>` as its
last word for one or more. An event is known by (publisher, incarnation, n) and by nothing else: a retry
keeps its id, a restarted publisher takes a new incarnation.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from unisono.model.errors import TopicError

TOPIC_BYTES_MAX = 255
_WORD = re.compile(r"[^\s.*>\x00-\x1f\x7f/+#]+")


class EventId(NamedTuple):
    """Who published it, in which life, and which one it was."""

    publisher: str
    incarnation: int
    n: int

    def __str__(self) -> str:
        return f"{self.publisher}/{self.incarnation}/{self.n}"


def check_topic(name: str) -> str:
    """Return `name` if it is a topic, else raise TopicError saying what is wrong with it."""
    _check_string(name)
    _check_words(name, wildcards=False)
    return name


def check_pattern(name: str) -> str:
    """Return `name` if it is a topic or a pattern of topics, else raise TopicError."""
    _check_string(name)
    _check_words(name, wildcards=True)
    return name


def is_pattern(name: str) -> bool:
    """Whether `name` holds a wildcard word."""
    return any(word in ("*", ">") for word in name.split("."))


def matches(pattern: str, topic: str) -> bool:
    """Whether `topic` is one of those that `pattern` stands for."""
    words = topic.split(".")
    for i, word in enumerate(pattern.split(".")):
        if word == ">":
            return i < len(words)
        if i >= len(words) or word not in ("*", words[i]):
            return False
    return len(words) == len(pattern.split("."))


def _check_string(name: object) -> None:
    if not isinstance(name, str):  # before the cache, which takes nothing unhashable
        raise TopicError(f"a topic is a string, not {type(name).__name__}")


@lru_cache(maxsize=65536)
def _check_words(name: str, *, wildcards: bool) -> None:
    if not name:
        raise TopicError("a topic cannot be empty; topics are dot-separated words")
    if len(name.encode("utf-8", "surrogatepass")) > TOPIC_BYTES_MAX:
        raise TopicError(f"topic {name[:40] + '…'!r} is over the limit of {TOPIC_BYTES_MAX} bytes")
    words = name.split(".")
    for i, word in enumerate(words):
        if word == "":
            raise TopicError(f"topic {name!r} has an empty word; topics are words with single dots between")
        if word in ("*", ">"):
            if not wildcards:
                raise TopicError(f"{name!r} has a wildcard; events are published on one exact topic")
            if word == ">" and i != len(words) - 1:
                raise TopicError(f"pattern {name!r} has '>' before its end; '>' stands only as the last word")
            continue
        if not _WORD.fullmatch(word):
            raise TopicError(f"topic {name!r} {_fault(word)}; topics are dot-separated words")
        if not word.isprintable():
            raise TopicError(
                f"topic {name!r} has a character that cannot be printed; topics are dot-separated words"
            )


def _fault(word: str) -> str:
    if any(c.isspace() for c in word):
        return "has a space"
    if "*" in word or ">" in word:
        return f"has a misplaced wildcard in {word!r}"
    return f"has a character that is not allowed in {word!r}"
