"""The tree as the layer above gives it: links that go, links that join what fell apart."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TypeAlias

Edge: TypeAlias = tuple[str, str]


class Forest:
    """The links between live dispatchers."""

    def __init__(self, nodes: Iterable[str], edges: Iterable[Edge], degree_max: int) -> None:
        self.degree_max = degree_max
        self.near: dict[str, dict[str, None]] = {node: {} for node in nodes}
        for a, b in edges:
            self._join(a, b)

    def edges(self) -> list[Edge]:
        """All links, each once."""
        return sorted((a, b) for a, others in self.near.items() for b in others if a < b)

    def rewire(self, random: Random) -> tuple[list[Edge], list[Edge]]:
        """Cut a link and join the two parts elsewhere: what is gone, and what is new."""
        edges = self.edges()
        if len(edges) < 2:
            return [], []
        a, b = random.choice(edges)
        self._cut(a, b)
        new = self._bridge(self._part(a), self._part(b), random)
        return [(a, b)], [new]

    def lose(self, node: str, random: Random) -> tuple[list[Edge], list[Edge]]:
        """A dispatcher is gone: join what hung on it."""
        orphans = sorted(self.near[node])
        gone = [(node, other) for other in orphans]
        for other in orphans:
            self._cut(node, other)
        del self.near[node]
        return gone, [self._bridge(self._part(orphans[0]), self._part(o), random) for o in orphans[1:]]

    def gain(self, node: str, random: Random) -> list[Edge]:
        """A dispatcher comes."""
        others = set(self.near)
        self.near[node] = {}
        return [self._bridge({node}, others, random)] if others else []

    def _bridge(self, left: set[str], right: set[str], random: Random) -> Edge:
        def pick(part: set[str]) -> str:
            open_ones = sorted(n for n in part if len(self.near[n]) < self.degree_max)
            return random.choice(open_ones or sorted(part))

        a, b = pick(left), pick(right)
        self._join(a, b)
        return a, b

    def _part(self, node: str) -> set[str]:
        found, todo = {node}, [node]
        while todo:
            for other in self.near[todo.pop()]:
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return found

    def _join(self, a: str, b: str) -> None:
        self.near[a][b] = self.near[b][a] = None

    def _cut(self, a: str, b: str) -> None:
        del self.near[a][b], self.near[b][a]
