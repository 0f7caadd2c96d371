"""Figures of a history: how much was delivered, tagged and dropped, and how long it took, for all and by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from math import ceil

import msgspec

from unisono.history import Kind, Record
from unisono.lab.scenarios.scenario import Group


class Latency(msgspec.Struct, frozen=True):
    """From publication to delivery, in simulated milliseconds; none if nothing was delivered."""

    p50: float | None
    p99: float | None
    max: float | None


class GroupFigures(msgspec.Struct, frozen=True):
    """What subscribers that are alike were told."""

    name: str
    subscribers: int
    delivered: int
    tagged: int
    dropped: int
    lost: int  # declared lost
    held: int  # still held back at the end
    latency_ms: Latency


class Figures:
    """A history, counted once for each subscriber."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.published = {r.event: r.at for r in records if r.kind is Kind.PUBLISHED}
        self._counts: dict[str, Counter[str]] = {}
        self._took: dict[str, list[float]] = {}
        for record in records:
            if record.kind in (Kind.DELIVERED, Kind.DROPPED, Kind.LOST, Kind.HELD):
                self._count(record)

    def _count(self, record: Record) -> None:
        subscriber = record.process.partition(".")[0]  # in any of its lives
        counts = self._counts.setdefault(subscriber, Counter())
        counts[record.kind] += 1
        if record.kind is Kind.DELIVERED:
            counts["tagged"] += not record.in_order
            self._took.setdefault(subscriber, []).append(1000 * (record.at - self.published[record.event]))

    def of_all(self) -> GroupFigures:
        """Everybody's together."""
        return self._of("all", list(self._counts))

    def of_group(self, group: Group) -> GroupFigures:
        """Those of some subscribers."""
        return self._of(group.title, group.names)

    def _of(self, name: str, subscribers: Sequence[str]) -> GroupFigures:
        counts = sum((self._counts.get(one, Counter()) for one in subscribers), Counter[str]())
        return GroupFigures(
            name,
            len(subscribers),
            counts[Kind.DELIVERED],
            counts["tagged"],
            counts[Kind.DROPPED],
            counts[Kind.LOST],
            counts[Kind.HELD],
            _latency(took for one in subscribers for took in self._took.get(one, ())),
        )


def _latency(times: Iterable[float]) -> Latency:
    ordered = sorted(times)
    if not ordered:
        return Latency(None, None, None)
    return Latency(*(round(_quantile(ordered, share), 6) for share in (0.5, 0.99, 1.0)))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that is not exceeded by this share of them."""
    return ordered[ceil(share * len(ordered)) - 1]


def digest_of(records: Iterable[Record]) -> str:
    """What two runs of the same have in common, in whatever order their stamps were put together."""
    found, encoder = sha256(), msgspec.msgpack.Encoder(order="deterministic")
    for record in records:
        found.update(encoder.encode(record))
    return found.hexdigest()
