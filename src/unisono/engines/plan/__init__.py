"""Who shares subscribers, and along which roads their events are therefore sequenced.

The law of the room: two topics that conflict meet on one path (C1), the paths together form no loop (C2), and
every edge is travelled in one direction only (C3). Over FIFO links these three make every order that stamps
can force acyclic, so no subscriber ever waits for ever. A plan says nothing about where its topics are hosted,
and it never changes: a new plan is a new epoch. The proof is in docs/protocols/plan.md.
"""

from unisono.engines.plan.builders import elimination_forest, rank_line
from unisono.engines.plan.conflicts import Conflicts, Overlaps, Registration, components, conflict_graph
from unisono.engines.plan.laws import check_conflicts, check_paths, check_plan
from unisono.engines.plan.parts import Part, contract, edge_traffic, top
from unisono.engines.plan.plan import Plan

__all__ = [
    "Conflicts",
    "Overlaps",
    "Part",
    "Plan",
    "Registration",
    "check_conflicts",
    "check_paths",
    "check_plan",
    "components",
    "conflict_graph",
    "contract",
    "edge_traffic",
    "elimination_forest",
    "rank_line",
    "top",
]
