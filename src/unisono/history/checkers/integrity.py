"""Only what was published is delivered, on its topic, to those who asked, and at most once."""

from __future__ import annotations

from unisono.history import explain
from unisono.history.explain import Finding
from unisono.history.history import ORDERS, History, Subscription
from unisono.history.record import Kind, Record
from unisono.history.verdicts import Verdict, held, unknown, violated
from unisono.model.ids import matches


def no_creation(history: History) -> Verdict:
    """Every delivered event was published before, on that topic, and the subscription held the topic."""
    promise = "no_creation"
    subscriptions = history.promised(*ORDERS)
    if not subscriptions:
        return unknown(promise, "the history has no subscription")
    checked = sum(len(s.deliveries) for s in subscriptions)
    if checked and not history.published:
        return unknown(promise, "the history has no publications to compare deliveries with")
    for subscription in subscriptions:
        finding = _created(history, subscription)
        if finding is not None:
            return violated(promise, finding, checked)
    return held(promise, checked)


def no_duplication(history: History) -> Verdict:
    """No subscription is handed the same event twice, tagged or not."""
    promise = "no_duplication"
    subscriptions = history.promised(*ORDERS)
    if not subscriptions:
        return unknown(promise, "the history has no subscription")
    checked = 0
    for subscription in subscriptions:
        first: dict[str, Record] = {}
        for record in subscription.deliveries:
            checked += 1
            if first.setdefault(record.event, record) is not record:
                return violated(promise, explain.twice(first[record.event], record), checked)
    return held(promise, checked)


def _created(history: History, subscription: Subscription) -> Finding | None:
    topics: set[str] = set()
    for record in subscription.records:
        if record.kind is Kind.SUBSCRIBED:
            topics.add(record.topic)
        elif record.kind is Kind.DELIVERED:
            published = history.published.get(record.event)
            if published is None:
                return explain.never_published(record)
            if published.topic != record.topic:
                return explain.changed_topic(record, published)
            # Only within one process can a history say that one thing came before another.
            if published.process == record.process and record.seq < published.seq:
                return explain.delivered_too_soon(record, published)
            # A topic once held is enough: what was on its way when it was left may still be handed over.
            if record.topic not in topics and not any(matches(t, record.topic) for t in topics):
                return explain.never_subscribed(record)
    return None
