"""Worlds of dispatchers for planted bugs: seeds tried one after the other until a promise breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.sim.epidemic.draw import draw_epidemic
from unisono.sim.epidemic.simulation import ROUNDS_AFTER_HEAL, Ending, MakeDispatcher, Simulation
from unisono.sim.epidemic.world import EpidemicWorld
from unisono.sim.explore.explorer import Explored
from unisono.sim.explore.story import Finding

RECOVERED = "everything_recovered"


@dataclass(frozen=True)
class EpidemicScenario:
    """The worlds of some seeds, with dispatchers made like this; of interest is one promise, or all."""

    seeds: Sequence[int]
    make: MakeDispatcher = Dispatcher
    promise: str | None = None
    patience_rounds: int = ROUNDS_AFTER_HEAL
    draw: Callable[[int], EpidemicWorld] = draw_epidemic


def explore_epidemic(scenario: EpidemicScenario) -> Explored:
    """Run one world after the other until one breaks what is of interest."""
    steps = 0
    for seed in scenario.seeds:
        world = scenario.draw(seed)
        ending = Simulation(world, scenario.make, patience_rounds=scenario.patience_rounds).run()
        steps += ending.steps
        found = [f for f in _findings(seed, ending) if scenario.promise in (None, f.promise)]
        if found:
            return Explored(steps, 1, tuple(found))
    return Explored(steps, len(scenario.seeds), ())


def _findings(seed: int, ending: Ending) -> list[Finding]:
    found: dict[str, Finding] = {}
    for text in ending.violations:
        promise = text.partition(":")[0].replace(" ", "_")
        found.setdefault(promise, Finding(promise, f"seed {seed}: {text}"))
    for text in ending.stuck:
        found.setdefault(RECOVERED, Finding(RECOVERED, f"seed {seed}: {text}"))
    return list(found.values())
