"""One seed, from its world of dispatchers to what is wrong with it."""

from __future__ import annotations

from unisono.engines.epidemic.dispatcher import Dispatcher
from unisono.sim.epidemic.draw import draw_epidemic
from unisono.sim.epidemic.simulation import MakeDispatcher, Simulation
from unisono.sim.epidemic.world import EpidemicWorld
from unisono.sim.trial import Trial


def try_epidemic_seed(seed: int, *, traces: bool = False) -> Trial:
    """Draw the world of a seed, run it and judge it."""
    return try_epidemic(draw_epidemic(seed), traces=traces)


def try_epidemic(world: EpidemicWorld, make: MakeDispatcher = Dispatcher, *, traces: bool = False) -> Trial:
    """Run a world and judge it."""
    ending = Simulation(world, make, traces=traces).run()
    return Trial(
        world.seed,
        ending.violations,
        ending.stuck,
        ending.steps,
        ending.digest if traces else "",
        (*world.traits(), *(name for name in ("given up", "links let go") if ending.facts[name])),
    )


def replay_epidemic(seed: int) -> list[str]:
    """Every step of a seed's world, one line each."""
    return Simulation(draw_epidemic(seed), traces=True).run().lines
