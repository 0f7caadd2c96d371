"""Judge a history: one verdict for each promise asked about."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.history.checkers import PROMISES
from unisono.history.history import History
from unisono.history.record import Record
from unisono.history.verdicts import Verdict
from unisono.model.errors import HistoryError


def judge(records: Iterable[Record] | History, promises: Iterable[str] | None = None) -> list[Verdict]:
    """The verdicts on `promises` (all of them when None), in the order asked."""
    names = list(PROMISES) if promises is None else list(promises)
    for name in names:
        if name not in PROMISES:
            raise HistoryError(f"'{name}' is not a promise; the promises are {', '.join(PROMISES)}")
    history = records if isinstance(records, History) else History(records)
    return [PROMISES[name](history) for name in names]
