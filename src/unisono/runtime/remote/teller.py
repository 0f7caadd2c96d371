"""How a bus tells a node of itself, while somebody watches; see telling.py."""

from __future__ import annotations

import asyncio
import time
from random import random
from typing import TYPE_CHECKING

from unisono.runtime.observer import COUNTED, Observer
from unisono.runtime.remote.subscription import RemoteSubscription
from unisono.runtime.remote.telling import (
    PART,
    SUBSCRIPTIONS_MAX,
    TELL_S,
    TELLING_BYTES_MAX,
    TOPICS_MAX,
    WATCHED_S,
    BusTelling,
    SubscriptionTelling,
    some_counts,
)
from unisono.runtime.remote.wire import encode, to_node

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.remote.client import Client

MEASURED = ("sequence", "travel", "hold", "deliver")


class Teller:
    """Tells of one bus as long as nodes say that somebody watches, and measures times meanwhile."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._node = ""
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._observer: Observer | None = None  # if the application has none of its own

    def asked_by(self, node: str) -> None:
        """A node says that somebody watches."""
        loop = asyncio.get_running_loop()
        self._node, self._until = node, loop.time() + WATCHED_S
        if self._timer is None:
            self._timer = loop.call_later(TELL_S * random(), self._tell)  # not all buses at once

    def close(self) -> None:
        """Tell nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        loop, bus = asyncio.get_running_loop(), next(iter(self._client.publishers), None)
        if bus is None or loop.time() > self._until:
            self._timer = None
            self._measure(None)
            return
        self._timer = loop.call_later(TELL_S, self._tell)
        self._measure(self._observer or Observer(self._client.name))
        for topics in (TOPICS_MAX, TOPICS_MAX // 4, 1, 0):
            frame = encode(self._telling(bus, topics))
            if len(frame) <= TELLING_BYTES_MAX:
                self._client.post.publish(to_node(f"{self._client.client}.{PART}", self._node), frame)
                break

    def _measure(self, observer: Observer | None) -> None:
        """Have times measured from now on, or no longer; where the application measures, that stays as it is."""
        if self._client.observer is not None:
            return
        self._observer = self._client.departures.observer = observer
        for subscription in self._client.subscriptions.values():
            if subscription.observer is not observer:
                subscription.observe(observer)

    def _telling(self, bus: Bus, topics: int) -> BusTelling:
        client, subscriptions = self._client, list(self._client.subscriptions.values())
        counts = {name: sum(getattr(s, name) for s in subscriptions) for name in COUNTED}
        counts |= {"delivered": sum(s.taken for s in subscriptions), "published": bus._n}
        observer = client.observer or self._observer
        measured = {} if observer is None else observer.metrics.durations()
        return BusTelling(
            bus=client.name,
            told_at=time.time(),
            epoch=0 if client.control is None else client.control.epoch,
            unconfirmed=client.unconfirmed,
            open=len(subscriptions),
            counts=some_counts(counts),
            phases={phase: tuple(measured[phase].counts) for phase in MEASURED if phase in measured},
            subscriptions=tuple(_told(s, topics) for s in subscriptions[:SUBSCRIPTIONS_MAX]),
        )


def _told(subscription: RemoteSubscription, topics: int) -> SubscriptionTelling:
    reached = subscription.reached
    return SubscriptionTelling(
        name=subscription.name,
        order=subscription.options.order,
        on_gap=subscription.options.on_gap,
        topics=len(subscription.topics),
        clock={topic: reached[topic] for topic in sorted(reached)[:topics]},
        waiting=subscription.waiting,
        held=subscription.buffered,
        delivered=subscription.taken,
        tagged=subscription.tagged,
        dropped=subscription.dropped,
        lost=subscription.lost,
        durable=subscription.options.is_durable,
    )
