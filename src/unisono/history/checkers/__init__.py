"""The promises, each with the pure function that judges it; weakest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from unisono.history.checkers.acyclic import acyclic_order
from unisono.history.checkers.causal import causal_order
from unisono.history.checkers.deadlines import deadline, no_unjust_drop
from unisono.history.checkers.fifo import publisher_fifo
from unisono.history.checkers.integrity import no_creation, no_duplication
from unisono.history.checkers.liveness import no_endless_wait, nothing_lost
from unisono.history.checkers.tags import tags
from unisono.history.checkers.total import total_notification_order
from unisono.history.history import History
from unisono.history.verdicts import Verdict

Checker: TypeAlias = Callable[[History], Verdict]

PROMISES: dict[str, Checker] = {
    "no_creation": no_creation,
    "no_duplication": no_duplication,
    "publisher_fifo": publisher_fifo,
    "total_notification_order": total_notification_order,
    "acyclic_order": acyclic_order,
    "tags": tags,
    "causal_order": causal_order,
    "deadline": deadline,
    "no_unjust_drop": no_unjust_drop,
    "nothing_lost": nothing_lost,
    "no_endless_wait": no_endless_wait,
}
