"""What one publisher sends on one topic is seen in the order in which it was sent."""

from __future__ import annotations

from unisono.history import explain
from unisono.history.history import History, publisher_of
from unisono.history.record import Record
from unisono.history.verdicts import Verdict, held, unknown, violated


def publisher_fifo(history: History) -> Verdict:
    """Untagged deliveries of one publisher incarnation on one topic come in the order of their n."""
    promise = "publisher_fifo"
    subscriptions = history.promised("fifo", "causal", "total", "total_causal")
    if not subscriptions:
        return unknown(promise, "no subscription was promised an order")
    checked = 0
    for subscription in subscriptions:
        last: dict[tuple[str, str], tuple[int, Record]] = {}
        for record in subscription.untagged:
            checked += 1
            incarnation, n = publisher_of(record)
            n_before, before = last.get((incarnation, record.topic), (-1, record))
            if n < n_before:
                return violated(promise, explain.overtaken(before, record), checked)
            last[incarnation, record.topic] = (n, record)
    return held(promise, checked)
