"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from unisono.sim.epidemic.scenario import EpidemicScenario
from unisono.sim.explore import TopicManagerScenario
from unisono.sim.explore.atoms import AtomScenario
from unisono.sim.explore.deadline import BrokersScenario, NewsScenario
from unisono.sim.explore.moving import MovingScenario
from unisono.sim.explore.packets import LinkScenario

World: TypeAlias = (
    TopicManagerScenario
    | AtomScenario
    | LinkScenario
    | MovingScenario
    | BrokersScenario
    | NewsScenario
    | EpidemicScenario
)


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


def moving_bug(
    name: str,
    says: str,
    source: str,
    promise: str,
    sound: MovingScenario,
    *,
    deep: bool = False,
    **weaker: object,
) -> PlantedBug:
    """A bug of a world that moves: only its promise is judged, and engines do not check themselves, so that it must
    show outside."""
    weak = sound.but(**weaker, promises=(promise,), invariants=False)
    return PlantedBug(name, says, source, promise, sound, weak, deep)
