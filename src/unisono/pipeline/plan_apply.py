"""A plan document for a bus in one process: checked against what is subscribed, and kept for whoever asks.

In one process all managers live together and a chain is a function call: ranks decide neither what stamps say nor
how far an event travels. Applying a plan here therefore changes no delivery. It is validated as nodes will
validate it, and kept (`bus.plan`), so that ranks and groups can be looked at and the next plan compared with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.pipeline.plan_document import load_plan

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus


class Applied(msgspec.Struct, frozen=True):
    """What came of applying a plan."""

    epoch: int
    topics: int
    moved: dict[str, tuple[int | None, int]]  # topic -> rank before (None: it had none) and now; 1 is the top
    idle: tuple[str, ...]  # topics of the plan that nobody has held in order here


def apply_plan(bus: Bus, source: Path | str | dict[str, Any]) -> Applied:
    """Load a plan from a file or document into a running bus; PlanError, and nothing changed, if it does not fit."""
    plan, before = load_plan(source).plan(), bus.plan
    idle = bus.apply_plan(plan)
    old = {} if before is None else {topic: i for i, topic in enumerate(before.rank, start=1)}
    new = {topic: i for i, topic in enumerate(plan.rank, start=1)}
    moved = {topic: (old.get(topic), rank) for topic, rank in new.items() if old.get(topic) != rank}
    return Applied(plan.epoch, len(new), moved, idle)
