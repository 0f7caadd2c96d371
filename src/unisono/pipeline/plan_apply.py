"""A plan for a bus in one process: checked against what is subscribed, and kept for whoever asks.

In one process all managers live together and a chain is a function call: ranks decide neither what stamps say nor
how far an event travels. Applying a plan here therefore changes no delivery. It is validated as nodes will
validate it, and kept, so that ranks and groups can be looked at and the next plan compared with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from unisono.engines.plan import Plan
from unisono.model.errors import PlanError
from unisono.pipeline.plan_document import load_plan

if TYPE_CHECKING:
    from unisono.runtime.bus import Bus
    from unisono.runtime.hub import Hub


class Applied(msgspec.Struct, frozen=True):
    """What came of applying a plan."""

    epoch: int
    topics: int
    moved: dict[str, tuple[int | None, int]]  # topic -> rank before (None: it had none) and now; 1 is the top
    idle: tuple[str, ...]  # topics of the plan that nobody has held in order here


_plans: WeakKeyDictionary[Hub, Plan] = WeakKeyDictionary()


def apply_plan(bus: Bus, source: Path | str | dict[str, Any]) -> Applied:
    """Make it the plan of everybody on this bus's service; PlanError, and nothing changed, if it does not fit.

    It fits if it keeps the laws and orders every two topics against each other that are ordered here now.
    """
    hub = bus._opened()
    plan = load_plan(source).plan()
    groups = hub.managers.groups.of
    for topic in sorted(groups):
        if topic not in plan.group:
            raise PlanError(f"topic '{topic}' is in use but not in the plan; plan again from a newer journal")
        for other in sorted(set(groups[topic]) - plan.group[topic]):
            raise PlanError(
                f"'{topic}' and '{other}' are ordered together, but not by the plan; plan again from a newer journal"
            )
    before = _plans.get(hub)
    old = {} if before is None else {topic: i for i, topic in enumerate(before.rank, start=1)}
    new = {topic: i for i, topic in enumerate(plan.rank, start=1)}
    moved = {topic: (old.get(topic), rank) for topic, rank in new.items() if old.get(topic) != rank}
    _plans[hub] = plan
    return Applied(plan.epoch, len(new), moved, tuple(topic for topic in plan.rank if topic not in groups))


def plan_of(bus: Bus) -> Plan | None:
    """The plan applied last to this bus's service, or None."""
    return _plans.get(bus._opened())
