"""The order of one closed epoch: the same for everybody who reads it.

Repeatedly, of what follows nothing that is left, what was published first. What any subscriber held together is ordered
by stamps, so this agrees with every delivery; only events that nobody held together are put in an order that no stamp
gives, by their publishers' clocks. Sorting a part of the epoch would be wrong: what is left out may lie between two
events. A bundle goes as a whole: its node numbered all of it at once, so nothing that is ordered with any of it lies in
between.

With good clocks causes come before effects too, where no stamp says so. Whatever an event follows was published before
it had its place, and everything that somebody publishes who was told of it is younger than all of that. Only its own
publisher may have had the next one ready long before, and held it back until then. So an event also follows the one
before it of the same publisher life, where their stamps know nothing of each other, unless that would make a circle:
stamps win.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise
from math import isfinite
from typing import NamedTuple, TypeAlias

from unisono.model.bundles import StampedBundle
from unisono.model.frames import Entries, Stamped

Unit: TypeAlias = Stamped | StampedBundle
"""What was numbered at once."""

_Edges: TypeAlias = list[list[int]]  # by place: the places that come before it


class _Seen(NamedTuple):
    """What counts of a unit; unrelated ones are sorted by these, and no two are equal."""

    at: float
    publisher: str
    incarnation: int
    n: int
    topic: str
    number: int
    firsts: Entries  # its first number on each of its topics
    names: Entries  # its stamp
    unit: Unit


def in_order(units: Iterable[Unit]) -> list[Unit]:
    """All events of an epoch in the order of the log; numbers that are not among them do not exist."""
    row = sorted(map(_look_at, units))
    stamps, publishers = _by_stamps(row), _by_publishers(row)
    places = _sort(stamps, publishers)
    if len(places) < len(row):
        publishers = _without_circles(publishers, stamps)
        places = _sort(stamps, publishers)
    if len(places) < len(row):  # stamps that contradict each other: no promise is left to keep
        places = _sort(_without_circles(stamps), [[] for _ in row])
    return [row[place].unit for place in places]


def _look_at(unit: Unit) -> _Seen:
    if isinstance(unit, Stamped):
        p, entries = unit.publication, unit.entries
        topic, number = p.topic, entries[p.topic]
        at = p.published_at if isfinite(p.published_at) else 0.0  # what makes no sense counts as old
        return _Seen(at, p.publisher, p.incarnation, p.n, topic, number, {topic: number}, entries, unit)
    at = max([at for part in unit.parts for at in part.published_at if isfinite(at)], default=0.0)
    firsts = {topic: unit.clock[topic] + 1 for topic in unit.topics}
    topic = unit.topics[0]
    return _Seen(
        at, unit.publisher, unit.incarnation, unit.first, topic, firsts[topic], firsts, unit.clock, unit
    )


def _by_stamps(row: list[_Seen]) -> _Edges:
    """For each the last one of every topic that it follows, of its own topics too."""
    found: dict[str, list[tuple[int, int]]] = {}  # topic -> first numbers, and where they are
    lasts: dict[str, dict[int, int]] = {}  # topic -> last numbers, and where they are
    for place, seen in enumerate(row):
        for topic, number in seen.firsts.items():
            found.setdefault(topic, []).append((number, place))
            last = number if isinstance(seen.unit, Stamped) else seen.unit.newest(topic)
            lasts.setdefault(topic, {})[last] = place
    for numbered in found.values():
        numbered.sort()
    edges: _Edges = []
    for seen in row:
        before: list[int] = []
        for topic, number in seen.names.items():
            known = lasts.get(topic)
            if known is None:
                continue
            if topic in seen.firsts:
                number = seen.firsts[topic] - 1
            if (exact := known.get(number)) is not None:
                before.append(exact)
            elif i := bisect_left(found[topic], (number + 1,)):  # a number that nobody has: the one before it
                before.append(found[topic][i - 1][1])
        edges.append(before)
    return edges


def _by_publishers(row: list[_Seen]) -> _Edges:
    """For each the one before it of the same publisher life, unless their stamps know of each other's topics."""
    lives: dict[tuple[str, int], list[int]] = {}
    for place, seen in enumerate(row):
        lives.setdefault((seen.publisher, seen.incarnation), []).append(place)
    edges: _Edges = [[] for _ in row]
    for life in lives.values():
        for first, second in pairwise(sorted(life, key=lambda place: row[place].n)):
            a, b = row[first], row[second]
            if a.firsts.keys().isdisjoint(b.names) and b.firsts.keys().isdisjoint(a.names):
                edges[second].append(first)
    return edges


def _sort(stamps: _Edges, publishers: _Edges) -> list[int]:
    """The places in order, but for those that follow each other in a circle, and what follows them."""
    left, after = [0] * len(stamps), [list[int]() for _ in stamps]
    for kind in (stamps, publishers):
        for place, before in enumerate(kind):
            left[place] += len(before)
            for earlier in before:
                after[earlier].append(place)
    ready = [place for place, count in enumerate(left) if not count]  # smaller ones were published before
    places: list[int] = []
    while ready:
        place = heappop(ready)
        places.append(place)
        for later in after[place]:
            left[later] -= 1
            if not left[later]:
                heappush(ready, later)
    return places


def _without_circles(edges: _Edges, others: _Edges | None = None) -> _Edges:
    """These edges without those that are part of a circle, of which the others may be part too."""
    every = edges if others is None else [[*a, *b] for a, b in zip(edges, others, strict=True)]
    circle = _circles(every)
    return [[p for p in before if circle[p] != circle[place]] for place, before in enumerate(edges)]


def _circles(edges: _Edges) -> list[int]:
    """For each place the circle that it is part of; each of the others has one to itself (Tarjan)."""
    count, index, low = 0, [0] * len(edges), [0] * len(edges)
    circle, open_ = [-1] * len(edges), list[int]()
    for root in range(len(edges)):
        path = [(root, iter(edges[root]))] if not index[root] else []
        while path:
            place, rest = path[-1]
            if not index[place]:
                count += 1
                index[place] = low[place] = count
                open_.append(place)
            for earlier in rest:
                if not index[earlier]:
                    path.append((earlier, iter(edges[earlier])))
                    break
                if circle[earlier] < 0:
                    low[place] = min(low[place], low[earlier])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[place])
                while low[place] == index[place] and circle[place] < 0:
                    circle[open_.pop()] = place
    return circle
