"""A bus that lets some of its events be followed: a class of its own, so that the others ask nothing."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.runtime.bus import Bus
from unisono.runtime.receipts import Receipt


class TracedBus(Bus):
    """Gives those events a `traceparent` header that are followed."""

    def publish_nowait(
        self,
        topic: str,
        data: object,
        *,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> Receipt:
        """Publish one event without waiting, and begin to follow it, or decide not to."""
        tracing = None if self._observer is None else self._observer.tracing
        may = isinstance(topic, str) and (headers is None or isinstance(headers, Mapping))  # or be refused
        if tracing is not None and self._state == "open" and may:
            headers = tracing.publish(topic, headers, publisher=self.name)
        return super().publish_nowait(topic, data, id=id, headers=headers, deadline=deadline)
