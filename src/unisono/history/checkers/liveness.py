"""What is owed comes, or someone says why not; judged once the world has stopped doing harm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from unisono.history import explain
from unisono.history.explain import Finding
from unisono.history.history import ORDERS, History, Subscription
from unisono.history.record import Kind, Record
from unisono.history.verdicts import Verdict, held, unknown, violated


class _Span(NamedTuple):
    """The numbers of one topic that a subscription was owed: above its floor, up to and with `last`."""

    subscribed: Record
    last: int | None  # None: it never left


def nothing_lost(history: History) -> Verdict:
    """Every event sequenced after the join is delivered, or dropped or declared lost for a reason."""
    promise = "nothing_lost"
    subscriptions = history.promised("fifo", "causal", "total", "total_causal")
    if not subscriptions:
        return unknown(promise, "no subscription was promised an order")
    if not history.healed:
        return unknown(promise, "the history has no 'healed' record: what is missing might still have come")
    checked = 0
    for subscription in subscriptions:
        accounts = _Accounts(subscription)
        for span in _spans(subscription):
            for sequenced in _owed(history, span):
                checked += 1
                finding = accounts.missing(span, sequenced)
                if finding is not None:
                    return violated(promise, finding, checked)
    return held(promise, checked, "owed events")


def no_endless_wait(history: History) -> Verdict:
    """Nothing is still held back when the run ends."""
    promise = "no_endless_wait"
    subscriptions = history.promised(*ORDERS)
    if not subscriptions:
        return unknown(promise, "the history has no subscription")
    if history.held:
        return violated(promise, explain.still_held(history.held[0]), len(subscriptions))
    return held(promise, len(subscriptions), "subscriptions")


class _Accounts:
    """What one subscription can show for the events it was owed."""

    def __init__(self, subscription: Subscription) -> None:
        self.delivered = {r.event for r in subscription.deliveries}
        gone = [r for r in subscription.records if r.kind in (Kind.DROPPED, Kind.LOST)]
        self.by_event = {r.event: r for r in gone if r.event}
        # What never arrived has no name here: it is declared lost by its number.
        self.by_number = {(r.topic, r.number): r for r in gone if not r.event}

    def missing(self, span: _Span, sequenced: Record) -> Finding | None:
        if sequenced.event in self.delivered:
            return None
        gone = self.by_event.get(sequenced.event) or self.by_number.get((sequenced.topic, sequenced.number))
        if gone is not None and gone.reason:
            return None
        return explain.lost(span.subscribed, sequenced, gone)


def _owed(history: History, span: _Span) -> Iterator[Record]:
    for sequenced in history.sequenced.get(span.subscribed.topic, {}).values():
        number = sequenced.number
        if number > span.subscribed.number and (span.last is None or number <= span.last):
            yield sequenced


def _spans(subscription: Subscription) -> list[_Span]:
    spans: list[_Span] = []
    joined: dict[str, Record] = {}
    seen: dict[str, int] = {}
    for record in subscription.records:
        topic = record.topic
        if record.kind is Kind.SUBSCRIBED:
            joined.setdefault(topic, record)
        elif record.kind is Kind.DELIVERED:
            seen[topic] = max(seen.get(topic, 0), record.number)
        elif record.kind is Kind.UNSUBSCRIBED and topic in joined:
            left = joined.pop(topic)
            spans.append(_Span(left, _last_before_leaving(left, seen.get(topic, 0))))
    return spans + [_Span(record, None) for record in joined.values()]


def _last_before_leaving(joined: Record, seen: int) -> int:
    # How far a topic had come when it was left is not recorded. Only a subscription that waits for its gaps
    # has shown, by delivering a number, that it was owed everything below.
    waits = joined.order in ("total", "total_causal") and joined.on_gap == "wait"
    return seen if waits else joined.number
