"""Which topics share subscribers, kept up to date one topic at a time, while subscribers come, change and go.

The group of a topic is what its stamps name: every topic that registrations of enough weight hold together with
it. What a holder has held counts until it goes, also after it left: two subscriptions that never held the same
two topics at one time must still be told one order. So groups only grow, until a topic that nobody holds is
forgotten: nobody can be told its old events any more, and who comes later is owed newer ones only.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Set
from copy import deepcopy
from typing import TypeAlias

Group: TypeAlias = tuple[str, ...]


class Holder:
    """A subscription as the managers know it: what it wants now, and all it has held since it came."""

    __slots__ = ("topics", "wanted", "weight")

    def __init__(self, weight: int = 1) -> None:
        self.weight = weight
        self.wanted: set[str] = set()
        self.topics: set[str] = set()


class Groups:
    """The groups of all known topics, and who holds what."""

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.of: dict[str, Group] = {}  # what is in it never changes: whoever was given it goes on using it
        self._holders: dict[str, dict[Holder, None]] = {}
        self._wanted: Counter[str] = Counter()

    def know(self, topic: str) -> None:
        """A topic that has no group yet is one of its own."""
        self.of.setdefault(topic, (topic,))

    def is_wanted(self, topic: str) -> bool:
        """Whether anybody holds it now."""
        return topic in self._wanted

    def join(self, holder: Holder, topics: Iterable[str]) -> None:
        """A holder wants some topics more."""
        groups = None
        for topic in topics:
            holder.wanted.add(topic)
            self._wanted[topic] += 1
            if topic in holder.topics:
                continue  # it comes back to what has counted all the while
            holder.topics.add(topic)
            self._holders.setdefault(topic, {})[holder] = None
            shared = self._shared(holder, topic)
            current = self.of if groups is None else groups
            if not shared <= set(current[topic]):
                groups = dict(self.of) if groups is None else groups  # those in use stay as they are
                _grow(groups, topic, shared)
        if groups is not None:
            self.of = groups

    def _shared(self, holder: Holder, topic: str) -> Set[str]:
        """The topics that enough weight holds together with this one, among those of its newest holder."""
        if holder.weight >= self.threshold:
            return holder.topics
        others = [other for other in self._holders[topic] if other is not holder]
        if holder.weight + 1 < self.threshold:
            weights: Counter[str] = Counter()
            for one in (holder, *others):
                weights.update(dict.fromkeys(holder.topics & one.topics, one.weight))
            return {x for x, weight in weights.items() if weight >= self.threshold}
        shared: set[str] = set()
        for other in others:
            shared |= holder.topics & other.topics
            if len(shared) == len(holder.topics):
                break  # the others cannot add anything
        return shared

    def leave(self, holder: Holder, topics: Iterable[str]) -> set[str]:
        """A holder wants some topics no longer; returns those that nobody wants now."""
        unwanted = set()
        for topic in topics:
            holder.wanted.remove(topic)
            self._wanted[topic] -= 1
            if not self._wanted[topic]:
                del self._wanted[topic]
                unwanted.add(topic)
        return unwanted

    def dismiss(self, holder: Holder) -> set[str]:
        """A holder goes; returns the topics that nobody wants now."""
        unwanted = self.leave(holder, list(holder.wanted))
        for topic in holder.topics:
            del self._holders[topic][holder]
            if not self._holders[topic]:
                del self._holders[topic]
        holder.topics.clear()
        return unwanted

    def forget(self, topics: Set[str]) -> None:
        """Nobody wants these topics, and nobody needs to know that they ever were."""
        shrunk: dict[int, tuple[Group, Group]] = {}
        groups = {}
        for topic, group in self.of.items():
            if topic not in topics:
                if id(group) not in shrunk:
                    shrunk[id(group)] = (group, _without(group, topics))
                groups[topic] = shrunk[id(group)][1]
        self.of = groups
        for topic in topics:
            for holder in self._holders.pop(topic, ()):
                holder.topics.discard(topic)

    def check(self) -> None:
        """Groups are mutual, hold their own topic, and whoever wants a topic is one of its holders."""
        for topic, group in self.of.items():
            assert topic in group
            assert all(topic in self.of[x] for x in group)
        for topic, holders in self._holders.items():
            assert all(topic in holder.topics >= holder.wanted for holder in holders)
            assert sum(topic in holder.wanted for holder in holders) == self._wanted.get(topic, 0)

    def copy(self) -> Groups:
        """An independent twin."""
        return deepcopy(self)


def _grow(groups: dict[str, Group], topic: str, shared: Set[str]) -> None:
    """Put a topic into the groups of others and them into its own; equal groups stay one object.

    A pattern makes cliques of thousands of topics: each group is made once, not once for every member.
    """
    mine = tuple(sorted({*groups[topic], *shared}))
    groups[topic] = mine
    made: dict[int, tuple[Group, Group]] = {}
    for x in shared - {topic}:
        old = groups[x]
        if id(old) not in made:
            new = old if topic in old else _with(old, topic)
            made[id(old)] = (old, mine if new == mine else new)
        groups[x] = made[id(old)][1]


def _with(group: Group, topic: str) -> Group:
    longer = list(group)
    insort(longer, topic)
    return tuple(longer)


def _without(group: Group, topics: Set[str]) -> Group:
    return group if topics.isdisjoint(group) else tuple(x for x in group if x not in topics)
