"""A history with the indexes judges need.

Building one refuses what no run can have written (a process that goes back in its own order, a delivery to a
subscription that never subscribed). What a faulty system can have written is kept: judging that is the
checkers' work.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from unisono.history.record import Kind, Record
from unisono.model.errors import HistoryError

ORDERS = ("none", "fifo", "causal", "total", "total_causal")

_NEEDS_EVENT = frozenset({Kind.PUBLISHED, Kind.SEQUENCED, Kind.DELIVERED})
_OF_SUBSCRIPTIONS = frozenset(
    {Kind.DELIVERED, Kind.DROPPED, Kind.LOST, Kind.HELD, Kind.SUBSCRIBED, Kind.UNSUBSCRIBED}
)


class Subscription:
    """What one subscription was promised and what happened to it, in its own order."""

    def __init__(self, process: str, subscription: str) -> None:
        self.process = process
        self.subscription = subscription
        self.order = ""
        self.records: list[Record] = []
        self.deliveries: list[Record] = []

    @cached_property
    def untagged(self) -> list[Record]:
        """The first untagged delivery of each event; repeats are no_duplication's concern."""
        first: dict[str, Record] = {}
        for record in self.deliveries:
            if record.in_order:
                first.setdefault(record.event, record)
        return list(first.values())

    def _add(self, record: Record) -> None:
        if record.kind is Kind.SUBSCRIBED:
            self._promise(record)
        elif not self.order and record.kind in (Kind.DELIVERED, Kind.UNSUBSCRIBED):
            raise HistoryError(
                f"{_place(record)}: '{record.kind}' on topic '{record.topic}' "
                f"by a subscription that never subscribed"
            )
        self.records.append(record)
        if record.kind is Kind.DELIVERED:
            self.deliveries.append(record)

    def _promise(self, record: Record) -> None:
        if record.order not in ORDERS:
            raise HistoryError(f"{_place(record)}: order '{record.order}' is not one of {', '.join(ORDERS)}")
        if self.order not in ("", record.order):
            raise HistoryError(
                f"{_place(record)}: order '{record.order}' follows order '{self.order}'; "
                f"a subscription has one order"
            )
        self.order = record.order


class History:
    """Records indexed by process, by subscription and by event."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.processes: dict[str, list[Record]] = {}
        self.subscriptions: dict[tuple[str, str], Subscription] = {}
        self.published: dict[str, Record] = {}  # a retry keeps its id: the first record counts
        self.sequenced: dict[str, dict[str, Record]] = {}  # topic -> event -> first record
        self.held: list[Record] = []
        self.healed = False
        for record in records:
            self._add(record)

    def promised(self, *orders: str) -> list[Subscription]:
        """The subscriptions that were promised one of `orders`."""
        return [s for s in self.subscriptions.values() if s.order in orders]

    def _add(self, record: Record) -> None:
        kind = record.kind
        if not isinstance(kind, Kind):
            raise HistoryError(f"{_place(record)}: '{kind}' is not a kind of record")
        mine = self.processes.setdefault(record.process, [])
        if mine and mine[-1].seq >= record.seq:
            raise HistoryError(
                f"{_place(record)}: follows {mine[-1].seq}; seq must increase within a process"
            )
        mine.append(record)
        if kind in _NEEDS_EVENT:
            publisher_of(record)
        if kind in _OF_SUBSCRIPTIONS:
            self._add_to_subscription(record)
        elif kind is Kind.PUBLISHED:
            self.published.setdefault(record.event, record)
        elif kind is Kind.SEQUENCED:
            self.sequenced.setdefault(record.topic, {}).setdefault(record.event, record)
        elif kind is Kind.HEALED:
            self.healed = True

    def _add_to_subscription(self, record: Record) -> None:
        key = (record.process, record.subscription)
        subscription = self.subscriptions.get(key)
        if subscription is None:
            subscription = self.subscriptions[key] = Subscription(*key)
        subscription._add(record)
        if record.kind is Kind.HELD:
            self.held.append(record)


def publisher_of(record: Record) -> tuple[str, int]:
    """The (publisher incarnation, n) of a record's event; raises HistoryError when its id is not one."""
    incarnation, slash, n = record.event.rpartition("/")
    if not slash or "/" not in incarnation or not n.isdecimal():
        raise HistoryError(f"{_place(record)}: event '{record.event}' is not publisher/incarnation/n")
    return incarnation, int(n)


def _place(record: Record) -> str:
    return f"process '{record.process}', seq {record.seq}"
