"""Puts bundles together again that came in pieces, one for each topic.

A node sends the pieces of a bundle one right behind the other. So whatever is not here when the same node's next bundle
comes, or anything else that a subscriber may act upon, is late or lost, and nobody waits for it: the pieces that are
here are taken as single events, which are held and asked for as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from unisono.model.bundles import StampedBundle


class Assembly:
    """The bundles of which something is missing, at most one of each node."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[str, dict[str, StampedBundle]] = {}  # node -> topic -> piece

    def __bool__(self) -> bool:
        return bool(self._open)

    def earlier(self, piece: StampedBundle) -> list[tuple[StampedBundle, ...]]:
        """Pieces of another bundle of the same node: the rest of it will not come any more."""
        others = self._open.get(piece.node)
        if others is None or _name(next(iter(others.values()))) == _name(piece):
            return []
        del self._open[piece.node]
        return [_once(others.values())]

    def add(self, piece: StampedBundle, is_ours: Callable[[str], bool]) -> tuple[StampedBundle, ...] | None:
        """Take in a piece; all the pieces of its bundle that are ours if none is missing."""
        pieces = self._open.setdefault(piece.node, {})
        for part in piece.parts:
            pieces[part.topic] = piece
        if any(topic not in pieces and is_ours(topic) for topic in piece.topics):
            return None
        del self._open[piece.node]
        return _once(pieces[topic] for topic in piece.topics if topic in pieces)

    def give_up(self) -> list[tuple[StampedBundle, ...]]:
        """All pieces of bundles that are not whole."""
        pieces = [_once(found.values()) for found in self._open.values()]
        self._open.clear()
        return pieces

    def copy(self) -> Assembly:
        """An independent twin."""
        twin = Assembly()
        twin._open = {node: dict(pieces) for node, pieces in self._open.items()}
        return twin

    def state(self) -> Hashable:
        """Equal for twins that miss the same."""
        return tuple((*_name(next(iter(p.values()))), *sorted(p)) for _, p in sorted(self._open.items()))


def _name(piece: StampedBundle) -> tuple[int, str, int]:
    return piece.epoch, piece.node, piece.index


def _once(pieces: Iterable[StampedBundle]) -> tuple[StampedBundle, ...]:
    """Each piece once, though it may hold several topics."""
    return tuple({id(piece): piece for piece in pieces}.values())
