"""Exhaustive exploration: all interleavings of tiny worlds, over the engines themselves.

A world of three topics and three events has a few hundred states; if an ordering rule is wrong, it is usually
wrong there already. Nothing is sampled: every order of messages, of arrivals, of timers and of bounded faults.
"""

from unisono.sim.explore.explorer import Assignment, Explored, Explorer
from unisono.sim.explore.scenario import (
    LIVENESS,
    NO_FAULTS,
    SAFETY,
    Faults,
    Planned,
    Scenario,
    TopicManagerScenario,
    forest,
    line,
)
from unisono.sim.explore.search import Search, TooManyStatesError
from unisono.sim.explore.story import Finding
from unisono.sim.explore.world import World

__all__ = [
    "LIVENESS",
    "NO_FAULTS",
    "SAFETY",
    "Assignment",
    "Explored",
    "Explorer",
    "Faults",
    "Finding",
    "Planned",
    "Scenario",
    "Search",
    "TooManyStatesError",
    "TopicManagerScenario",
    "World",
    "forest",
    "line",
]
