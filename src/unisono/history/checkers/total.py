"""Total notification order: no two subscriptions see the same two events in opposite orders.

A longer cycle through three or more subscriptions does not break this promise; `acyclic_order` judges that.
"""

from __future__ import annotations

from unisono.history import explain
from unisono.history.checkers.rows import Rows
from unisono.history.history import History
from unisono.history.verdicts import Verdict, held, unknown, violated


def total_notification_order(history: History) -> Verdict:
    """No two totally ordered subscriptions deliver the same two untagged events in opposite orders."""
    promise = "total_notification_order"
    subscriptions = history.promised("total", "total_causal")
    if not subscriptions:
        return unknown(promise, "no subscription was promised a total order")
    rows = Rows(subscriptions)
    pair = rows.tangled().opposite_pair()
    if pair is not None:
        return violated(promise, explain.opposite_orders(*pair), rows.deliveries)
    return held(promise, rows.deliveries)
