"""Which event came before which, and whether several such orders contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import TypeAlias

from unisono.history import Kind
from unisono.model.ids import EventId
from unisono.sim.explore.story import Log

Pair: TypeAlias = tuple[EventId, EventId]
"""Two events of which the first was delivered before the second, both untagged."""


def untagged_pairs(log: Log) -> Iterable[Pair]:
    """Which event was delivered before which."""
    return combinations([e.event for e in log if e.event and e.kind is Kind.DELIVERED and e.in_order], 2)


def has_cycle(pairs: set[Pair]) -> bool:
    """Whether these pairs fit into no single order."""
    after: dict[EventId, list[EventId]] = {}
    for first, second in pairs:
        after.setdefault(first, []).append(second)
    done: dict[EventId, bool] = {}  # event -> whether all that follows it has been seen

    def loops(event: EventId) -> bool:
        if event in done:
            return not done[event]
        done[event] = False
        found = any(loops(later) for later in after.get(event, ()))
        done[event] = True
        return found

    return any(loops(event) for event in after)


def shortest_cycle(pairs: Mapping[str, Mapping[Pair, Log]], longest: int) -> dict[str, Pair]:
    """A shortest cycle in which every pair is of another subscriber, if there is one of at most this length."""
    for length in range(2, longest + 1):
        for name, mine in pairs.items():
            for first, second in mine:
                found = _close(pairs, first, second, {name: (first, second)}, length)
                if found:
                    return found
    return {}


def _close(
    pairs: Mapping[str, Mapping[Pair, Log]], start: EventId, here: EventId, used: dict[str, Pair], length: int
) -> dict[str, Pair]:
    last = len(used) + 1 == length
    for name, mine in pairs.items():
        if name in used:
            continue
        for first, second in mine:
            if first != here or (last and second != start) or (not last and second == start):
                continue
            found = used | {name: (first, second)}
            if not last:
                found = _close(pairs, start, second, found, length)
            if found:
                return found
    return {}
