"""Puts bundles together again that came in pieces, one for each topic.

A node sends the pieces of its bundles in order, and what it sends on one topic comes in order, if it comes at all. So a
piece is late or lost as soon as anything later comes on its topic: then nobody waits for it any longer, and the pieces
that are here are taken as single events, which are held and asked for as usual. Bundles of one node leave in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from unisono.model.bundles import StampedBundle

OPEN_MAX = 64  # bundles of one node


class Assembled(NamedTuple):
    """The pieces of a bundle that are here, and whether that is all of it that concerns us."""

    pieces: tuple[StampedBundle, ...]
    is_whole: bool


class _Open:
    """A bundle of which something is missing, or that has to wait for one before it."""

    __slots__ = ("missing", "pieces")

    def __init__(self, missing: set[str]) -> None:
        self.missing = missing
        self.pieces: dict[str, StampedBundle] = {}  # by topic

    def has(self, piece: StampedBundle) -> bool:
        """Whether it can be one of its pieces: all say the same of their bundle."""
        known = next(iter(self.pieces.values()), piece)
        return _head(known) == _head(piece)

    def result(self) -> Assembled:
        return Assembled(tuple({id(p): p for p in self.pieces.values()}.values()), not self.missing)


def _head(piece: StampedBundle) -> tuple[object, ...]:
    """What a piece says of its bundle: of most that come from one frame the same objects, which are soon compared."""
    events = (piece.publisher, piece.incarnation, piece.first, piece.steps, piece.order)
    return (*events, piece.topics, piece.groups, piece.clock)


class Assembly:
    """The bundles that have not left, of each node in their order."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: dict[str, dict[tuple[int, int], _Open]] = {}

    def __bool__(self) -> bool:
        return bool(self.open)

    def add(self, piece: StampedBundle, is_ours: Callable[[str], bool]) -> list[Assembled]:
        """Take in a piece; returns what may leave."""
        node, name = piece.node, (piece.epoch, piece.index)
        bundles = self.open.setdefault(node, {})
        if name in bundles:
            if not bundles[name].has(piece):
                return []  # somebody lies; what is missing is asked for
        else:
            bundles[name] = _Open({topic for topic in piece.topics if is_ours(topic)})
            if len(bundles) > 1 and name < max(list(bundles)[:-1]):  # late: into its place
                self.open[node] = bundles = dict(sorted(bundles.items()))
        for part in piece.parts:
            bundles[name].pieces[part.topic] = piece
            bundles[name].missing.discard(part.topic)
        topics = {part.topic for part in piece.parts}
        lost = {n for n, b in bundles.items() if n < name and not b.missing.isdisjoint(topics)}
        if len(bundles) > OPEN_MAX:
            lost.add(next(iter(bundles)))
        return self._leave(node, lost)

    def passed(self, topic: str) -> list[Assembled]:
        """Something else came on a topic: pieces of it that are missing are late or lost."""
        left: list[Assembled] = []
        for node in list(self.open):
            left += self._leave(node, {n for n, b in self.open[node].items() if topic in b.missing})
        return left

    def give_up(self) -> list[Assembled]:
        """Everything that is here."""
        left = [bundle.result() for bundles in self.open.values() for bundle in bundles.values()]
        self.open.clear()
        return left

    def _leave(self, node: str, lost: Iterable[tuple[int, int]]) -> list[Assembled]:
        """What is whole leaves, up to the first that is not; so does everything up to the last that never will be."""
        bundles = self.open[node]
        last = max(lost, default=None)
        left: list[Assembled] = []
        while bundles:
            name = next(iter(bundles))
            if bundles[name].missing and (last is None or name > last):
                break
            left.append(bundles.pop(name).result())
        if not bundles:
            del self.open[node]
        return left

    def copy(self) -> Assembly:
        """An independent twin."""
        twin = Assembly()
        for node, bundles in self.open.items():
            twin.open[node] = {}
            for name, bundle in bundles.items():
                twin.open[node][name] = _Open(set(bundle.missing))
                twin.open[node][name].pieces = dict(bundle.pieces)
        return twin

    def state(self) -> Hashable:
        """Equal for twins that have and miss the same."""
        return tuple(self._states())

    def _states(self) -> Iterator[Hashable]:
        for node, bundles in sorted(self.open.items()):
            for name, bundle in bundles.items():
                yield node, name, tuple(sorted(bundle.pieces)), tuple(sorted(bundle.missing))
