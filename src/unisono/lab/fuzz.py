"""Seeded worlds, still and moving, run through the simulator and judged: a campaign over many seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from random import Random
from time import perf_counter

import msgspec

from unisono.model.errors import ConfigError
from unisono.sim.deadline.trial import replay_deadline, try_deadline_seed
from unisono.sim.epidemic.trial import replay_epidemic, try_epidemic_seed
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.draw_atoms import draw_atoms
from unisono.sim.moving.oracle import WATCHED
from unisono.sim.moving.simulation import Simulation as MovingSimulation
from unisono.sim.moving.trial import try_moving, try_moving_seed
from unisono.sim.simulation import Simulation
from unisono.sim.trial import Trial, try_seed
from unisono.sim.world import draw_world

TOPICS, ATOMS, DEADLINE, EPIDEMIC = ENGINES = (
    "topic_managers",
    "sequencing_atoms",
    "deadline_causal",
    "epidemic",
)
MOVING = 0.7  # the share of worlds that move
REPEATED = 64  # every so many seeds one is run twice, to see that it goes the same way
PORTION = 16  # seeds a process is given at a time


class FuzzResult(msgspec.Struct, frozen=True):
    """What a campaign found; `worlds` counts what was special about the worlds it drew."""

    seeds: int
    violations: int
    stuck: int
    seconds: float
    worlds: dict[str, int]
    steps: int = 0
    repeated: int = 0  # seeds run twice
    engine: str = ENGINES[0]
    failed: tuple[int, ...] = ()  # seeds
    first: Trial | None = None  # the failure with the lowest seed

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


def fuzz(
    seeds: int,
    start: int = 0,
    engine: str = ENGINES[0],
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FuzzResult:
    """Try `seeds` seeds from `start` on; `progress` is told how many are done and how many failed."""
    check_engine(engine)
    began = perf_counter()
    worlds: Counter[str] = Counter()
    failures: list[Trial] = []
    violations = stuck = steps = 0
    for done, trial in enumerate(_trials(range(start, start + seeds), jobs, engine), start=1):
        worlds.update(trial.traits)
        steps += trial.steps
        violations += bool(trial.violations)
        stuck += bool(trial.stuck)
        if not trial.is_good:
            failures.append(trial)
        if progress is not None:
            progress(done, len(failures))
    failures.sort(key=lambda trial: trial.seed)
    return FuzzResult(
        seeds,
        violations,
        stuck,
        perf_counter() - began,
        dict(sorted(worlds.items())),
        steps,
        sum(seed % REPEATED == 0 for seed in range(start, start + seeds)),
        engine,
        tuple(trial.seed for trial in failures),
        failures[0] if failures else None,
    )


def is_moving(seed: int) -> bool:
    """Whether the world of a seed moves."""
    return Random(f"{seed} kind").random() < MOVING


def try_any(seed: int, engine: str = TOPICS, *, traces: bool = False) -> Trial:
    """Run and judge the world of a seed, whichever kind it is; where work is spread, all move, and are watched."""
    if engine == ATOMS:
        return try_moving(draw_atoms(seed), WATCHED, traces=traces)
    if engine == DEADLINE:
        return try_deadline_seed(seed, traces=traces)
    if engine == EPIDEMIC:
        return try_epidemic_seed(seed, traces=traces)
    return try_moving_seed(seed, traces=traces) if is_moving(seed) else try_seed(seed, traces=traces)


def replay(seed: int, engine: str = TOPICS) -> list[str]:
    """Every step of a seed's world, one readable line each."""
    check_engine(engine)
    if engine == ATOMS:
        return MovingSimulation(draw_atoms(seed), WATCHED, traces=True).run().lines
    if engine == DEADLINE:
        return replay_deadline(seed)
    if engine == EPIDEMIC:
        return replay_epidemic(seed)
    if is_moving(seed):
        return MovingSimulation(draw_moving(seed), traces=True).run().lines
    return Simulation(draw_world(seed), traces=True).run().lines


def digests(seeds: range, engine: str = TOPICS) -> list[str]:
    """What the traces of these seeds must be like, whatever the hash seed."""
    return [try_any(seed, engine, traces=True).digest for seed in seeds]


def _trials(seeds: range, jobs: int, engine: str) -> Iterator[Trial]:
    if jobs == 1:
        for seed in seeds:
            yield _try(seed, engine)
        return
    portions = [(seeds[i : i + PORTION], engine) for i in range(0, len(seeds), PORTION)]
    # New interpreters: nothing that this process has loaded, patched or started may show in a world.
    with get_context("spawn").Pool(jobs) as pool:
        for trials in pool.imap_unordered(_try_portion, portions):
            yield from trials


def _try_portion(portion: tuple[range, str]) -> list[Trial]:
    seeds, engine = portion
    return [_try(seed, engine) for seed in seeds]


def _try(seed: int, engine: str) -> Trial:
    if seed % REPEATED:
        return try_any(seed, engine)
    return _compare(try_any(seed, engine, traces=True), try_any(seed, engine, traces=True))


def check_engine(engine: str) -> None:
    """Raise ConfigError unless worlds can be made for this engine."""
    if engine not in ENGINES:
        raise ConfigError(f"'{engine}' cannot be fuzzed; what can is {', '.join(ENGINES)}")


def _compare(trial: Trial, again: Trial) -> Trial:
    if trial.digest == again.digest:
        return trial
    return msgspec.structs.replace(
        trial, violations=(*trial.violations, "a second run of this seed left another trace")
    )
