"""The way back to each source, as its newest event on the tree wrote it down."""

from __future__ import annotations


class Routes:
    """Source -> the dispatchers between it and here, the nearest first and the source last."""

    def __init__(self, routes_max: int) -> None:
        self.routes_max = routes_max
        self._routes: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def note(self, source: str, passed: tuple[str, ...]) -> None:
        """An event came this way, the source first."""
        if self._routes.pop(source, None) is None and len(self._routes) >= self.routes_max:
            del self._routes[next(iter(self._routes))]  # not used for longest
        self._routes[source] = passed

    def back_to(self, source: str) -> tuple[str, ...]:
        """The way back; nothing if none is known."""
        return self._routes.get(source, ())[::-1]

    def picture(self) -> tuple[object, ...]:
        """Equal for equal routes."""
        return tuple(self._routes.items())
