"""Seeded worlds of loss, duplication and re-ordering, run through the simulator and judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter

import msgspec

from unisono.sim.simulation import Simulation
from unisono.sim.trial import Trial, try_world
from unisono.sim.world import draw_world

REPEATED = 64  # every so many seeds one is run twice, to see that it goes the same way


class FuzzResult(msgspec.Struct, frozen=True):
    """What a campaign found; `worlds` counts what was special about the worlds it drew."""

    seeds: int
    violations: int
    stuck: int
    seconds: float
    worlds: dict[str, int]
    steps: int = 0
    repeated: int = 0  # seeds run twice
    first: Trial | None = None  # the first failure

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept in every world."""
        return not self.violations and not self.stuck

    @property
    def explanation(self) -> str:
        """The first failure in words, or nothing."""
        if self.first is None:
            return ""
        problems = "; ".join((*self.first.violations, *self.first.stuck))
        return f"seed {self.first.seed}: {problems}"


def fuzz(seeds: int, start: int = 0, progress: Callable[[int, int], None] | None = None) -> FuzzResult:
    """Try `seeds` seeds from `start` on; `progress` is told how many are done and how many failed."""
    began = perf_counter()
    worlds: Counter[str] = Counter()
    violations = stuck = steps = repeated = 0
    first: Trial | None = None
    for done, seed in enumerate(range(start, start + seeds), start=1):
        world = draw_world(seed)
        worlds.update(world.traits())
        repeats = seed % REPEATED == 0
        trial = try_world(world, traces=repeats)
        if repeats:
            repeated += 1
            trial = _compare(trial, try_world(draw_world(seed), traces=True))
        steps += trial.steps
        violations += bool(trial.violations)
        stuck += bool(trial.stuck)
        if first is None and not trial.is_good:
            first = trial
        if progress is not None:
            progress(done, violations + stuck)
    seconds = perf_counter() - began
    return FuzzResult(seeds, violations, stuck, seconds, dict(worlds), steps, repeated, first)


def replay(seed: int) -> list[str]:
    """Every step of a seed's world, one readable line each."""
    return Simulation(draw_world(seed), traces=True).run().lines


def _compare(trial: Trial, again: Trial) -> Trial:
    if trial.digest == again.digest:
        return trial
    return msgspec.structs.replace(
        trial, violations=(*trial.violations, "a second run of this seed left another trace")
    )
