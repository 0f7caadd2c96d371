"""What a judge says about one promise: it held, it was violated, or the history cannot tell."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from unisono.history.explain import Finding
from unisono.history.record import Record


class Outcome(StrEnum):
    """The three things a judge can say."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class Verdict(msgspec.Struct, frozen=True):
    """One promise judged: `checked` counts what was examined, `evidence` is the smallest proof of a violation."""

    promise: str
    outcome: Outcome
    explanation: str
    evidence: tuple[Record, ...] = ()
    checked: int = 0


def held(promise: str, checked: int, what: str = "deliveries") -> Verdict:
    """Everything examined kept the promise."""
    return Verdict(promise, Outcome.HELD, f"{checked} {what} examined, no contradiction", (), checked)


def violated(promise: str, finding: Finding, checked: int) -> Verdict:
    """`finding` breaks the promise."""
    return Verdict(promise, Outcome.VIOLATED, finding.words, finding.evidence, checked)


def unknown(promise: str, why: str, checked: int = 0) -> Verdict:
    """The history does not hold what it takes to judge."""
    return Verdict(promise, Outcome.UNKNOWN, why, (), checked)
