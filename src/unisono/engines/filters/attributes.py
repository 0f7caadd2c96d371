"""Names with dots: what is nested in an event, seen as one flat mapping."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any


def prefixes(names: Iterable[str]) -> frozenset[str]:
    """The names of all mappings in which one of these names could be found: of `a.b.c`, `a` and `a.b`."""
    return frozenset(name[:at] for name in names for at, letter in enumerate(name) if letter == ".")


def flat(attributes: Mapping[str, Any], wanted: Collection[str]) -> Mapping[str, Any]:
    """The attributes with those of the wanted nested mappings under dotted names; what is less deep counts."""
    if not wanted:
        return attributes
    nested = [
        (name, value) for name, value in attributes.items() if name in wanted and isinstance(value, Mapping)
    ]
    if not nested:
        return attributes
    found = dict(attributes)
    while nested:
        deeper: list[tuple[str, Mapping[str, Any]]] = []
        for path, inner in nested:
            for key, value in inner.items():
                if isinstance(key, str) and (name := f"{path}.{key}") not in found:
                    found[name] = value
                    if isinstance(value, Mapping) and name in wanted:
                        deeper.append((name, value))
        nested = deeper
    return found
