"""What is counted. Where events pass, counting is `metrics.delivered += n` on a plain integer and nothing more.

registry = Registry()
metrics = registry.new(role="node", name="n1")
metrics.sequenced += 128
metrics.sequence.observe(0.0004, 128)
metrics.gauge("lanes_unconfirmed", lambda: writer.unconfirmed)

Prometheus is met only when somebody reads (see exposition.py), and need not be installed to count.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from unisono.model.errors import ConfigError

BOUNDS_S = (
    *(0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the classes that durations are counted in."""

COUNTERS = {
    "published": ("events_published", "Events that publishers handed over."),
    "requests": ("requests_received", "Messages from clients and other nodes that came to a node."),
    "sequenced": ("events_sequenced", "Events that were given their number."),
    "stored": ("events_stored", "Events confirmed by a durable lane."),
    "announced": ("events_announced", "Events that a node handed to the broker for their subscribers."),
    "received": ("events_received", "Events that came to subscriptions, those dropped among them."),
    "delivered": ("events_delivered", "Events handed to applications."),
    "held": ("events_held", "Events held back because an earlier one was missing."),
    "tagged": ("events_tagged", "Events delivered with in_order=False."),
    "dropped": (
        "events_dropped",
        "Events dropped because they came too late, or the application was too slow.",
    ),
    "voided": ("events_voided", "Numbers that were declared to have no event."),
    "lost": ("events_lost", "Events that nobody could repair."),
    "rejected": ("frames_rejected", "Frames refused: malformed, forged, or over a quota."),
    "deferred": (
        "frames_deferred",
        "Frames not taken because the application lagged; what was in them is asked for again.",
    ),
    "repaired": ("events_repaired", "Events asked for again and sent again."),
    "joins": ("joins", "Topics joined by subscriptions."),
    "leaves": ("leaves", "Topics left by subscriptions."),
    "epoch_changes": ("epoch_changes", "Epochs begun, planned or forced."),
    "takeovers": ("takeovers", "Epochs forced to take over from a node that was gone."),
    "link_retries": ("link_retries", "Packets sent again because the other side did not answer."),
    "store_troubles": ("store_troubles", "Requests to the store that failed, or had no answer in time."),
    "outages": ("outages", "Times the connection to the broker was lost."),
    "restarts": ("process_restarts", "Child processes started again after they ended."),
}
"""Attribute of Metrics -> name after `unisono_`, and what it means."""

GAUGES = {
    "epoch": ("epoch", "The epoch that is valid here."),
    "buffered": ("buffered_events", "Events held back now."),
    "buffer_fill": (
        "buffer_fill_ratio",
        "The fullest buffer, from 0 to 1: where events are held, queued or sent from.",
    ),
    "queued": ("queued_events", "Events that wait for the application."),
    "outbox": ("outbox_frames", "Frames that wait to be sent."),
    "unconfirmed": ("unconfirmed_events", "Events published that have no place yet."),
    "lanes_unconfirmed": ("lanes_unconfirmed_events", "Records written to lanes and not yet confirmed."),
    "topics": ("topics", "Topics known here."),
    "subscriptions": ("subscriptions", "Subscriptions known here."),
    "nodes": ("nodes", "Nodes that run."),
    "peers": ("link_peers", "Clients and nodes that a node has links to."),
}
"""Name of a gauge -> name after `unisono_`, and what it means."""

PHASES = {
    "sequence": "from publish to its number",
    "store": "from its number to the lane's confirmation",
    "travel": "from publish to a subscription, by the clocks of both",
    "hold": "held back for earlier events, if it was",
    "deliver": "waiting for the application",
}
"""Attribute of Metrics -> the part of an event's life that is measured."""


class Durations:
    """How many durations fell into each class, and their sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float, events: int = 1) -> None:
        """Count a duration, once for each of `events`; a clock that went back counts as nothing."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(BOUNDS_S, seconds)] += events
        self.sum_s += seconds * events

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Upper bound and how many were below it, as Prometheus has them."""
        total = 0
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], self.counts, strict=True):
            total += count
            yield bound, total


class Metrics(msgspec.Struct, kw_only=True, eq=False):
    """The counts of one node, one bus or one command."""

    role: str = ""
    name: str = ""

    published: int = 0
    requests: int = 0
    sequenced: int = 0
    stored: int = 0
    announced: int = 0
    received: int = 0
    delivered: int = 0
    held: int = 0
    tagged: int = 0
    dropped: int = 0
    voided: int = 0
    lost: int = 0
    rejected: int = 0
    deferred: int = 0
    repaired: int = 0
    joins: int = 0
    leaves: int = 0
    epoch_changes: int = 0
    takeovers: int = 0
    link_retries: int = 0
    store_troubles: int = 0
    outages: int = 0
    restarts: int = 0

    sequence: Durations = msgspec.field(default_factory=Durations)
    store: Durations = msgspec.field(default_factory=Durations)
    travel: Durations = msgspec.field(default_factory=Durations)
    hold: Durations = msgspec.field(default_factory=Durations)
    deliver: Durations = msgspec.field(default_factory=Durations)

    _refresh: Callable[[], None] | None = None
    _gauges: dict[str, Callable[[], float]] = msgspec.field(default_factory=dict)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Have a gauge read by this function, when somebody looks and not before."""
        if name not in GAUGES:
            raise ConfigError(f"there is no gauge '{name}'; there are {', '.join(GAUGES)}")
        self._gauges[name] = read

    def when_read(self, refresh: Callable[[], None]) -> None:
        """Before somebody looks, call this: it brings up to date what others count anyway."""
        self._refresh = refresh

    def refresh(self) -> None:
        """Bring everything up to date."""
        if self._refresh is not None:
            self._refresh()

    def counters(self) -> dict[str, int]:
        """All counters now."""
        return {attribute: getattr(self, attribute) for attribute in COUNTERS}

    def gauges(self) -> dict[str, float]:
        """All gauges that have somebody to ask."""
        return {name: float(read()) for name, read in self._gauges.items()}

    def durations(self) -> dict[str, Durations]:
        """What was measured of each phase."""
        return {phase: getattr(self, phase) for phase in PHASES}


class Sample(NamedTuple):
    """The counts of one Metrics at one moment."""

    role: str
    name: str
    counters: dict[str, int]
    gauges: dict[str, float]
    durations: dict[str, tuple[list[tuple[str, int]], float]]


class Registry:
    """Everybody who counts in this process."""

    def __init__(self) -> None:
        self._members: list[Metrics] = []

    def new(self, *, role: str, name: str) -> Metrics:
        """Somebody new who counts. No two are told under one name: the second is `name-2`."""
        taken = {(member.role, member.name) for member in self._members}
        names = (name if n == 1 else f"{name}-{n}" for n in itertools.count(1))
        metrics = Metrics(role=role, name=next(free for free in names if (role, free) not in taken))
        self._members.append(metrics)
        return metrics

    def forget(self, metrics: Metrics) -> None:
        """Somebody is gone: nothing of theirs is shown or kept any more."""
        self._members = [member for member in self._members if member is not metrics]

    def sample(self) -> list[Sample]:
        """What everybody has counted until now; call it where the counting is done, so that gauges may look around."""
        for member in self._members:
            member.refresh()
        return [
            Sample(
                m.role,
                m.name,
                m.counters(),
                m.gauges(),
                {phase: (list(d.cumulative()), d.sum_s) for phase, d in m.durations().items()},
            )
            for m in self._members
        ]
