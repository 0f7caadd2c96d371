"""Which events were here before: a window of bits for each source, so that nothing is taken twice.

What lies below the window, or is of a source that was forgotten and older than that, is taken for known: rather lost
than twice.
"""

from __future__ import annotations

from unisono.model.ids import EventId


class Known:
    """The identities of events that were received, within bounds."""

    def __init__(self, sources_max: int, window_events: int) -> None:
        self.sources_max = sources_max
        self.window_events = window_events
        self._windows: dict[tuple[str, int], tuple[int, int]] = {}  # -> (highest n, bits: 0 is the highest)
        self._forgotten_at = float("-inf")

    def __len__(self) -> int:
        return len(self._windows)

    def __contains__(self, id: EventId) -> bool:
        window = self._windows.get((id.publisher, id.incarnation))
        if window is None:
            return False
        below = window[0] - id.n
        return below >= self.window_events or (below >= 0 and bool(window[1] >> below & 1))

    def add(self, id: EventId, published_at: float, now: float) -> bool:
        """Note an event; False if it was known, or too old to tell."""
        source = (id.publisher, id.incarnation)
        window = self._windows.pop(source, None)
        if window is None:
            if published_at <= self._forgotten_at:
                return False
            if len(self._windows) >= self.sources_max:
                del self._windows[next(iter(self._windows))]  # the one that was silent for longest
                self._forgotten_at = now
            self._windows[source] = (id.n, 1)
            return True
        highest, bits = window
        below = highest - id.n
        if below < 0:
            mask = (1 << self.window_events) - 1
            self._windows[source] = (
                id.n,
                ((bits << -below) | 1) & mask if -below < self.window_events else 1,
            )
            return True
        is_new = below < self.window_events and not bits >> below & 1
        self._windows[source] = (highest, bits | 1 << below) if is_new else window
        return is_new

    def picture(self) -> tuple[object, ...]:
        """Equal for windows that answer alike."""
        return (self._forgotten_at, *self._windows.items())
