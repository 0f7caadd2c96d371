"""What one bus counts and traces, where somebody wants to know: `connect(metrics=registry, trace=0.01)`.

Without an observer nobody measures anything. What subscriptions count anyway is only read when somebody looks.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from unisono.model.errors import ConfigError
from unisono.model.event import Event
from unisono.model.frames import Publication
from unisono.observability.metrics import Metrics, Registry
from unisono.observability.tracing import Tracing, open_tracing
from unisono.runtime.receipts import Flight

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.exchange import Exchange
    from unisono.runtime.lane import Lane
    from unisono.runtime.subscription import Subscription

COUNTED = (
    *("received", "dropped", "lost", "rejected", "deferred", "tagged", "held", "voided"),
    *("repaired", "joins", "leaves"),
)
"""What every subscription counts by itself."""


class Observer:
    """The metrics of one bus, and its traces."""

    def __init__(self, name: str, registry: Registry | None = None, trace: Tracing | float = 0.0) -> None:
        if not isinstance(trace, Tracing) and not 0 <= trace <= 1:
            raise ConfigError(f"trace={trace!r}; it is a share of events, from 0 (none) to 1 (all)")
        self.name = name
        self.metrics = Metrics(role="bus", name=name)
        self.tracing: Tracing | None = None
        self._registry = registry
        self._trace = trace
        self._closed: Counter[str] = Counter()  # what subscriptions counted that are closed
        self._was_up = True

    # With the bus.

    @property
    def traces(self) -> bool:
        """Whether events may be followed."""
        return isinstance(self._trace, Tracing) or self._trace > 0

    def open(self, bus: Bus, exchange: Exchange) -> None:
        """Begin; raises ConfigError if traces are wanted and OpenTelemetry is not installed."""
        self.tracing = (
            self._trace if isinstance(self._trace, Tracing) else open_tracing(self._trace, service=self.name)
        )
        if self._registry is not None:
            self.metrics = self._registry.new(role="bus", name=self.name)
        on_link = getattr(exchange.service, "on_link", None)
        if on_link is not None:
            on_link.append(self._link)
        self.metrics.when_read(lambda: self._refresh(bus, exchange))
        self._show_gauges(bus, exchange)

    async def close(self) -> None:
        """Show nothing any more, and send what was traced."""
        if self._registry is not None:
            self._registry.forget(self.metrics)
        if self.tracing is not None and not isinstance(self._trace, Tracing):
            await asyncio.to_thread(self.tracing.close)

    def part(self, subscription: Subscription) -> None:
        """A subscription is closed: what it has counted stays."""
        self._closed.update(_counts(subscription))

    def _refresh(self, bus: Bus, exchange: Exchange) -> None:
        counts = Counter(self._closed)
        for subscription in bus._open:
            counts.update(_counts(subscription))
        counts["published"] = bus._n
        counts["rejected"] += exchange.rejected
        counts["link_retries"] = exchange.retries
        for name, count in counts.items():
            setattr(self.metrics, name, count)

    def _show_gauges(self, bus: Bus, exchange: Exchange) -> None:
        gauge, mine = self.metrics.gauge, bus._open
        gauge("queued", lambda: sum(s.waiting for s in mine))
        gauge("buffered", lambda: sum(s.buffered for s in mine))
        gauge("buffer_fill", lambda: max([bus._waiting / bus._outbox_max, *(s.fill for s in mine)]))
        gauge("outbox", lambda: bus._waiting + getattr(exchange.service, "unsent", 0))
        gauge("unconfirmed", lambda: exchange.unconfirmed)
        gauge("subscriptions", lambda: len(mine))
        gauge("topics", lambda: len(frozenset[str]().union(*(s.topics for s in mine))))
        gauge("epoch", lambda: 0 if exchange.plan is None else exchange.plan.epoch)

    def _link(self, is_up: bool) -> None:
        self.metrics.outages += self._was_up and not is_up
        self._was_up = is_up

    # Where events pass. Times are of `time.time_ns()`.

    def departed(self, flight: Flight) -> None:
        """A flight has left; here its events have their places at once, or will be confirmed one by one."""
        if flight.run is not None:
            events = len(flight.run)
            self.metrics.sequenced += events
            self.metrics.sequence.observe(time.time() - flight.publications[0].published_at, events)

    def confirmed(self, publication: Publication) -> None:
        """An event has its place."""
        self.metrics.sequenced += 1
        self.metrics.sequence.observe(time.time() - publication.published_at)

    def came(self, events: list[Event[Any]], lane: Lane) -> int:
        """Events have come to a subscription together; returns when."""
        now = time.time_ns()
        self.metrics.travel.observe(now / 1e9 - events[0].published_at, len(events))
        if self.tracing is not None:
            for event in events:
                self._receive(event._publication, now, lane)
        return now

    def arrived(self, publications: Iterable[Publication], lane: Lane) -> int:
        """Events have come to a subscription one by one; returns when."""
        now = time.time_ns()
        for publication in publications:
            self.metrics.travel.observe(now / 1e9 - publication.published_at)
            if self.tracing is not None:
                self._receive(publication, now, lane)
        return now

    def _receive(self, publication: Publication, now: int, lane: Lane) -> None:
        if publication.headers and self.tracing is not None:
            self.tracing.phase("receive", publication.headers, now, subscription=lane.name)

    def released(self, publication: Publication, since: int, lane: Lane) -> None:
        """An event that was held back need not wait any longer."""
        now = time.time_ns()
        self.metrics.hold.observe((now - since) / 1e9)
        if self.tracing is not None:
            self.tracing.phase("hold", publication.headers, since, now, subscription=lane.name)

    def taken(self, events: list[Event[Any]], since: int, lane: Lane) -> None:
        """The application takes events that were queued together."""
        now = time.time_ns()
        self.metrics.deliver.observe((now - since) / 1e9, len(events))
        if self.tracing is not None and not lane.is_handled:
            for event in events:
                if headers := event._publication.headers:
                    self.tracing.phase("deliver", headers, since, now, subscription=lane.name)

    def around(
        self, call: Callable[[Event[Any]], Awaitable[None] | None], lane: Lane
    ) -> Callable[[Event[Any]], Awaitable[None]]:
        """A handler inside the span of the event it is called with."""
        lane.is_handled = True

        async def traced(event: Event[Any]) -> None:
            assert self.tracing is not None
            with self.tracing.deliver(event.topic, event._publication.headers, subscription=lane.name):
                await call(event)  # type: ignore[misc]

        return traced


def _counts(subscription: Subscription) -> dict[str, int]:
    counts = {name: getattr(subscription, name) for name in COUNTED}
    return counts | {"delivered": subscription.taken}
