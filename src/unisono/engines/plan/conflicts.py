"""From subscriptions to the conflict graph: which topics must be ordered against each other.

Two topics conflict when the registrations that hold both weigh at least `threshold` together. At threshold 2
this is total notification order: an order between two topics matters once two subscribers can compare notes.
A subscription that wants its topics ordered even when nobody shares them weighs as much as the threshold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias, TypeVar

from unisono.model.errors import ConfigError

THRESHOLD_DEFAULT = 2

_K = TypeVar("_K")

Conflicts: TypeAlias = Mapping[str, AbstractSet[str]]
"""For every topic the others it conflicts with: symmetric, and never the topic itself."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A set of topics held together, and by how many subscribers."""

    topics: frozenset[str]
    weight: int = 1


class Overlaps:
    """The conflict graph of a changing set of registrations, kept up to date one registration at a time."""

    def __init__(self, threshold: int = THRESHOLD_DEFAULT, topics: Iterable[str] = ()) -> None:
        """Start empty; `topics` are part of the graph even while nobody holds them."""
        if threshold < 1:
            raise ConfigError(f"the overlap threshold is at least 1, not {threshold}")
        self.threshold = threshold
        self._fixed = frozenset(topics)
        self._held: Counter[frozenset[str]] = Counter()
        self._holders: Counter[str] = Counter()
        self._shared: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._conflicts: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, topics: AbstractSet[str], weight: int = 1) -> None:
        """Count `weight` more subscribers of exactly these topics, in time quadratic in their number."""
        self._change(frozenset(topics), _positive(weight))

    def discard(self, topics: AbstractSet[str], weight: int = 1) -> None:
        """Take back what `add` counted; raises ConfigError when that much was never added."""
        held = self._held[frozenset(topics)]
        if _positive(weight) > held:
            raise ConfigError(
                f"cannot discard weight {weight} of {sorted(topics)}: only {held} is registered"
            )
        self._change(frozenset(topics), -weight)

    def conflicts(self, topic: str) -> frozenset[str]:
        """The topics that `topic` conflicts with; none for a topic nobody holds."""
        return frozenset(self._conflicts.get(topic, ()))

    def graph(self) -> dict[str, frozenset[str]]:
        """The whole conflict graph, by topic name."""
        return {topic: self.conflicts(topic) for topic in sorted(self._fixed | self._holders.keys())}

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The topics that conflict directly or through others, together."""
        return components(self.graph())

    def _change(self, topics: frozenset[str], weight: int) -> None:
        _count(self._held, topics, weight)
        for topic in topics:
            _count(self._holders, topic, weight)
        for topic, other in permutations(topics, 2):
            _count(self._shared[topic], other, weight)
            if self._shared[topic].get(other, 0) >= self.threshold:
                self._conflicts[topic].add(other)
            else:
                self._conflicts[topic].discard(other)
        # A process that lives for years must not remember every topic it ever saw.
        for topic in topics:
            if topic not in self._holders:
                self._shared.pop(topic, None)
                self._conflicts.pop(topic, None)


def conflict_graph(
    subscriptions: Iterable[Registration | AbstractSet[str]],
    topics: Iterable[str] = (),
    threshold: int = THRESHOLD_DEFAULT,
) -> dict[str, frozenset[str]]:
    """The conflict graph of these subscriptions; `topics` are in it even if nobody holds them."""
    overlaps = Overlaps(threshold, topics)
    for subscription in subscriptions:
        if isinstance(subscription, Registration):
            overlaps.add(subscription.topics, subscription.weight)
        else:
            overlaps.add(subscription)
    return overlaps.graph()


def components(conflicts: Conflicts) -> tuple[tuple[str, ...], ...]:
    """The connected components of a conflict graph, each sorted by name, in the order of their first names."""
    found: list[tuple[str, ...]] = []
    reached: set[str] = set()
    for start in sorted(conflicts):
        if start in reached:
            continue
        reached.add(start)
        component = [start]
        for topic in component:  # grows while it is walked
            fresh = conflicts[topic] - reached
            reached |= fresh
            component.extend(fresh)
        found.append(tuple(sorted(component)))
    return tuple(found)


def _positive(weight: int) -> int:
    if weight < 1:
        raise ConfigError(f"the weight of a registration is at least 1, not {weight}")
    return weight


def _count(counts: dict[_K, int], key: _K, change: int) -> None:
    total = counts.get(key, 0) + change
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)
