"""What happened, and whether the promises were kept: records, histories and their judges."""

from unisono.history.checkers import PROMISES, Checker
from unisono.history.files import read_history, write_history
from unisono.history.history import ORDERS, History, Subscription
from unisono.history.judge import judge
from unisono.history.record import Kind, Record, from_json, to_json
from unisono.history.verdicts import Outcome, Verdict

__all__ = [
    "ORDERS",
    "PROMISES",
    "Checker",
    "History",
    "Kind",
    "Outcome",
    "Record",
    "Subscription",
    "Verdict",
    "from_json",
    "judge",
    "read_history",
    "to_json",
    "write_history",
]
