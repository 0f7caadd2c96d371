"""A process that gets two events the wrong way round, once, in the middle of a real run: for whoever watches."""

from __future__ import annotations

from typing import Any

from unisono.model.event import Event
from unisono.runtime.bus import Bus


class SwappedDeliveries:
    """Planted in a bus that keeps a journal; `arm()` has the next two deliveries of two topics recorded swapped."""

    def __init__(self, bus: Bus) -> None:
        recorder = bus._recorder
        assert recorder is not None, "a bus without a journal records nothing that could be swapped"
        self.is_armed = False
        self.swapped: tuple[str, str] | None = None  # the topics, once it is done
        self._held: Event[Any] | None = None
        self._delivered = recorder.delivered
        setattr(recorder, "delivered", self._record)  # noqa: B010 (a method, as type checkers see it)
        setattr(recorder, "delivered_many", self._record_many)  # noqa: B010

    def arm(self) -> None:
        """The next two that can be swapped will be."""
        self.is_armed = True

    def _record(self, subscription: str, event: Event[Any]) -> None:
        held, self._held = self._held, None
        if not self.is_armed and held is None:
            self._delivered(subscription, event)
        elif held is None:
            self._held = event
        elif held.topic == event.topic:
            self._delivered(subscription, held)
            self._held = event
        else:
            self._delivered(subscription, event)
            self._delivered(subscription, held)
            self.is_armed, self.swapped = False, (held.topic, event.topic)

    def _record_many(self, subscription: str, events: list[Event[Any]]) -> None:
        for event in events:
            self._record(subscription, event)
