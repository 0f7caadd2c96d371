"""Topics as each broker spells them, and back, without loss.

A topic is dot-separated words of printable characters other than `. * > / + #` and spaces (see `model.ids`).

    unisono          NATS               Redis               MQTT
    orders.eu        u.orders.eu        u:orders.eu         u/orders/eu
    orders.*         u.orders.*         (filtered here)     u/orders/+
    orders.>         u.orders.>         (filtered here)     u/orders/+/#

`>` is one word or more, MQTT's `#` is none or more: hence `+/#`. The prefix keeps topics such as `$SYS` apart from
what brokers reserve for themselves, so it cannot be empty.
"""

from __future__ import annotations

import re

from unisono.model.errors import ConfigError, FrameError, TopicError
from unisono.model.ids import check_pattern, check_topic

_GLOB = re.compile(r"([\\\[\]?*^])")


def check_prefix(scheme: str, prefix: str, separator: str) -> str:
    """Return the prefix if it is words of a topic, each followed by the separator; else raise ConfigError."""
    words = prefix.removesuffix(separator).split(separator)
    try:
        if not prefix.endswith(separator) or not all(check_topic(word) and "." not in word for word in words):
            raise TopicError
    except TopicError:
        raise ConfigError(
            f"{scheme}:// option prefix={prefix!r}; it is words with '{separator}' after each, like 'u{separator}'"
        ) from None
    return prefix


def overlap(one: str, other: str) -> bool:
    """Whether some topic is meant by both of two topics or patterns."""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(left) == len(right)


def to_subject(name: str, prefix: str) -> str:
    """A topic or pattern as a NATS subject."""
    return prefix + check_pattern(name)


def from_subject(subject: str, prefix: str) -> str:
    """The topic or pattern of a NATS subject."""
    return _without(subject, prefix)


def to_filter(name: str, prefix: str) -> str:
    """A topic or pattern as an MQTT topic or topic filter."""
    levels = [
        "+" if word == "*" else "+/#" if word == ">" else word for word in check_pattern(name).split(".")
    ]
    return prefix + "/".join(levels)


def from_filter(topic_filter: str, prefix: str) -> str:
    """The topic or pattern of an MQTT topic or topic filter."""
    levels = _without(topic_filter, prefix).split("/")
    if levels[-2:] == ["+", "#"]:
        levels[-2:] = [">"]
    return ".".join("*" if level == "+" else level for level in levels)


def to_key(topic: str, prefix: str) -> str:
    """A topic as a Redis key or channel."""
    return prefix + check_topic(topic)


def from_key(key: str, prefix: str) -> str:
    """The topic of a Redis key or channel."""
    return _without(key, prefix)


def to_glob(pattern: str, prefix: str) -> str:
    """A Redis glob that finds all channels of a pattern, and more: a glob's `*` does not stop at dots."""
    words = [
        "*" if word in ("*", ">") else _GLOB.sub(r"\\\1", word) for word in check_pattern(pattern).split(".")
    ]
    return _GLOB.sub(r"\\\1", prefix) + ".".join(words)


def _without(name: str, prefix: str) -> str:
    if not name.startswith(prefix):
        raise FrameError(f"{name!r} does not begin with {prefix!r}: it is no topic of ours")
    return name[len(prefix) :]
