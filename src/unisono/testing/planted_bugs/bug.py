"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from unisono.sim.explore import TopicManagerScenario
from unisono.sim.explore.atoms import AtomScenario
from unisono.sim.explore.moving import MovingScenario
from unisono.sim.explore.packets import LinkScenario

World: TypeAlias = TopicManagerScenario | AtomScenario | LinkScenario | MovingScenario


@dataclass(frozen=True)
class PlantedBug:
    """One rule broken: what the weak world does instead, where the rule comes from, which promise must break."""

    name: str
    says: str
    source: str
    promise: str
    sound: World
    weak: World
    deep: bool = False  # walks through the weak world rarely meet it: search on
