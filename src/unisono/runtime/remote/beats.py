"""Signs of life between nodes: who beats, and who has missed too many.

Whoever was taken for dead and beats on in the same life was only slow, and is given more time from then on: where
everybody is slow, nodes would otherwise never stop to take over from each other. A node that was restarted was dead.
"""

from __future__ import annotations

PATIENCE = 1.5  # times as much, each time that it was wrong
PATIENCE_MAX = 12.0
CALM_S = 60.0  # after so long without a mistake there is less of it again


class Beats:
    """What one node knows of the others. Times are its own clock's."""

    def __init__(self, name: str, beat_s: float, suspect_s: float) -> None:
        self.name = name
        self.beat_s = beat_s
        self.suspect_s = suspect_s
        self._heard: dict[str, float] = {}
        self._lives: dict[str, int] = {}
        self._suspected: set[str] = set()  # and not heard of since
        self._patience: dict[str, tuple[float, float]] = {}  # times `suspect_s`, and since when
        self._last: float | None = None  # when we looked last

    def heard(self, node: str, now: float, life: int = 0) -> None:
        """A node gave a sign of life."""
        self._heard[node] = now
        if self._lives.get(node, life) != life:
            self._patience.pop(node, None)
        elif node in self._suspected:
            self._patience[node] = (min(PATIENCE * self.patience(node, now), PATIENCE_MAX), now)
        self._lives[node] = life
        self._suspected.discard(node)

    def patience(self, node: str, now: float) -> float:
        """How many times `suspect_s` a node may be silent."""
        times, since = self._patience.get(node, (1.0, now))
        return max(1.0, times / PATIENCE ** int((now - since) / CALM_S))

    def suspects(self, nodes: tuple[str, ...], now: float) -> list[str]:
        """Whom of these to take for dead.

        Who has been asleep itself, or cut off, has heard of nobody and gives everybody time to be heard.
        """
        if self._last is not None and now - self._last > self.suspect_s / 2:
            self.forget()
        self._last = now
        found = [node for node in nodes if node != self.name and self._is_silent(node, now)]
        self._suspected.update(found)
        return found

    def _is_silent(self, node: str, now: float) -> bool:
        silent_s = now - self._heard.setdefault(node, now)
        return silent_s > self.suspect_s * self.patience(node, now)

    def forget(self) -> None:
        """Give everybody time to be heard again, from when we look next."""
        self._heard.clear()
