"""Signs of life between nodes: who beats, and who has missed too many."""

from __future__ import annotations


class Beats:
    """What one node knows of the others. Times are its own clock's."""

    def __init__(self, name: str, beat_s: float, suspect_s: float) -> None:
        self.name = name
        self.beat_s = beat_s
        self.suspect_s = suspect_s
        self._heard: dict[str, float] = {}
        self._last: float | None = None  # when we looked last

    def heard(self, node: str, now: float) -> None:
        """A node gave a sign of life."""
        self._heard[node] = now

    def suspects(self, nodes: tuple[str, ...], now: float) -> list[str]:
        """Whom of these to take for dead.

        Who has been asleep itself, or cut off, has heard of nobody and gives everybody time to be heard.
        """
        if self._last is not None and now - self._last > self.suspect_s / 2:
            self.forget()
        self._last = now
        return [
            node
            for node in nodes
            if node != self.name and now - self._heard.setdefault(node, now) > self.suspect_s
        ]

    def forget(self) -> None:
        """Give everybody time to be heard again, from when we look next."""
        self._heard.clear()
