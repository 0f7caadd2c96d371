"""Whether what a world has views of is ordered as views promise: completely, whoever listens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from unisono.engines.takeover.control import Control
from unisono.engines.takeover.patterns import matching
from unisono.model.frames import Stamped

Viewed = Mapping[int, Iterable[frozenset[str]]]
"""Epoch -> the topics of each view that counts in it."""


def viewed(control: Control) -> list[frozenset[str]]:
    """The topics of each view in the epoch of an active control record."""
    return [frozenset(matching(view.topics, control.plan.rank)) for view in control.views.values()]


def unordered(stored: list[Stamped], views: Viewed) -> Iterator[str]:
    """Pairs of events of one view and one epoch of which no stamp says which is first."""
    epochs: dict[int, list[Stamped]] = {}
    for event in stored:
        epochs.setdefault(event.epoch, []).append(event)
    for epoch, topics in views.items():
        for view in topics:
            held = [event for event in epochs.get(epoch, ()) if event.topic in view]
            for one, other in combinations(held, 2):
                if not (_precedes(one, other) or _precedes(other, one)):
                    ids = f"{one.publication.id} and {other.publication.id}"
                    yield f"views: nothing orders {ids} on {one.topic} and {other.topic} in epoch {epoch}"


def _precedes(one: Stamped, other: Stamped) -> bool:
    return other.entries.get(one.topic, 0) >= one.number
