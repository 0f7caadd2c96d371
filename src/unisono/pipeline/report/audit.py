"""audit.json as the report shows it: one verdict for each promise, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from unisono.model.errors import HistoryError

VERDICTS = ("held", "violated", "unknown")


class Judged(msgspec.Struct, frozen=True):
    """One promise and what the audit says about it."""

    promise: str
    verdict: str
    explanation: str
    matters: bool = True  # False: nobody was promised it


class AuditSummary(msgspec.Struct, frozen=True):
    """What an audit found."""

    verdict: str
    deliveries: int
    seconds: float
    promises: tuple[Judged, ...]


def load_audit(source: Path | dict[str, Any]) -> AuditSummary:
    """The audit in a file, or given as plain data; raises HistoryError when it is none."""
    try:
        data = source if isinstance(source, dict) else msgspec.json.decode(source.read_bytes())
    except OSError as error:
        raise HistoryError(f"{source} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise HistoryError(f"{source} is not an audit: {error}") from None
    name = "this" if isinstance(source, dict) else str(source)
    if not isinstance(data, dict) or data.get("verdict") not in VERDICTS:
        raise HistoryError(f"{name} is not an audit: 'verdict' is one of {', '.join(VERDICTS)}")
    violations = data.get("violations", [])
    if not isinstance(violations, list) or not all(
        isinstance(v, dict) and "promise" in v for v in violations
    ):
        raise HistoryError(f"{name} is not an audit: 'violations' is a list of findings with their 'promise'")
    return AuditSummary(
        verdict=data["verdict"],
        deliveries=int(data.get("deliveries", 0)),
        seconds=float(data.get("seconds", 0.0)),
        promises=tuple(_judged(data, violations)),
    )


def _judged(data: dict[str, Any], violations: list[dict[str, Any]]) -> list[Judged]:
    """Violations first; then the promises that were kept or could not be told, as far as the audit lists them."""
    found = [Judged(str(v["promise"]), "violated", str(v.get("explanation", ""))) for v in violations]
    broken = {judged.promise for judged in found}
    listed = data.get("promises", [])
    for row in listed if isinstance(listed, list) else []:
        if isinstance(row, dict) and row.get("promise") not in broken:
            promise, verdict, why = (str(row.get(name, "")) for name in ("promise", "verdict", "explanation"))
            found.append(Judged(promise, verdict, why, bool(row.get("matters", True))))
    return found
