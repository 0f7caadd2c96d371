"""Acyclic order: all delivery orders together fit into one."""

from __future__ import annotations

from unisono.history import explain
from unisono.history.checkers.rows import Rows
from unisono.history.history import History
from unisono.history.verdicts import Verdict, held, unknown, violated


def acyclic_order(history: History) -> Verdict:
    """The union of all untagged delivery orders has no cycle."""
    promise = "acyclic_order"
    subscriptions = history.promised("total_causal")
    if not subscriptions:
        return unknown(promise, "no subscription was promised an acyclic order (total_causal)")
    rows = Rows(subscriptions)
    steps = rows.tangled().smallest_cycle()
    if steps:
        return violated(promise, explain.cycle(steps), rows.deliveries)
    return held(promise, rows.deliveries)
