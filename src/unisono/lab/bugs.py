"""Planted bugs: every one must be caught in its world, and its world must be sound without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter

import msgspec

from unisono.model.errors import ConfigError
from unisono.sim.epidemic.scenario import EpidemicScenario, explore_epidemic
from unisono.sim.explore import Explored, Explorer
from unisono.sim.explore.deadline import BrokersScenario, NewsScenario, explore_deadline
from unisono.sim.explore.moving import MovingScenario
from unisono.sim.explore.moving_ends import explore_moving
from unisono.sim.explore.packets import LinkScenario, explore_links
from unisono.sim.explore.search import Step
from unisono.sim.explore.story import Finding
from unisono.sim.explore.walks import walk
from unisono.testing.planted_bugs import BUGS, PlantedBug
from unisono.testing.planted_bugs.bug import World

# Moving worlds: how far they are searched before they are walked through, and after. A world without its bug
# (that is where engines check themselves) is searched whole by `lab explore` as far as that is possible.
STATES_FEW, STATES_MANY = 4_000, 60_000
WALKS, WALKS_SOUND, WALK_STEPS = 400, 60, 200


class BugResult(msgspec.Struct, frozen=True):
    """One bug: whether it was caught, by which promise, and the smallest contradiction in words."""

    name: str
    says: str
    source: str
    promise: str
    caught: bool  # the promise broke in the weak world
    sound: bool  # and every promise held in the same world without the bug
    explanation: str
    trace: tuple[Step, ...]
    states: int


class BugReport(msgspec.Struct, frozen=True):
    """All bugs; one counts as caught only if its world is sound without it."""

    planted: int
    caught: int
    seconds: float
    bugs: tuple[BugResult, ...]

    @property
    def held(self) -> bool:
        """Whether every bug was caught."""
        return self.caught == self.planted


def run_bugs(
    names: Iterable[str] | None = None, progress: Callable[[str, int, int], None] | None = None
) -> BugReport:
    """Run the planted bugs with these names, or all of them."""
    chosen = _chosen(names)
    started = perf_counter()
    results: list[BugResult] = []
    sound_worlds: dict[int, Explored] = {}  # several bugs share a world
    for done, bug in enumerate(chosen):
        if progress is not None:
            progress(bug.name, done, len(chosen))
        results.append(run_bug(bug, sound_worlds))
    caught = sum(result.caught and result.sound for result in results)
    return BugReport(len(chosen), caught, perf_counter() - started, tuple(results))


def run_bug(bug: PlantedBug, sound_worlds: dict[int, Explored] | None = None) -> BugResult:
    """Explore the world of one bug, with it and without it; `sound_worlds` are known, by the id of the world."""
    known = {} if sound_worlds is None else sound_worlds
    if id(bug.sound) not in known:
        known[id(bug.sound)] = explore_world(bug.sound)
    weak, sound = explore_world(bug.weak, deep=bug.deep), known[id(bug.sound)]
    finding = next((f for f in weak.findings if f.promise == bug.promise), None)
    return BugResult(
        name=bug.name,
        says=bug.says,
        source=bug.source,
        promise=bug.promise,
        caught=finding is not None,
        sound=not sound.findings,
        explanation=finding.explanation if finding else "",
        trace=finding.trace if finding else (),
        states=weak.states + sound.states,
    )


def explore_world(world: World, *, deep: bool = False) -> Explored:
    """Every end of a world of any kind; `deep`: of a large moving one too, instead of walking through it."""
    if isinstance(world, EpidemicScenario):
        return explore_epidemic(world)
    if isinstance(world, MovingScenario):
        return explore_moving(world, STATES_MANY, cut=True) if deep else _explore_moving(world)
    if isinstance(world, BrokersScenario | NewsScenario):
        return explore_deadline(world)
    return explore_links(world) if isinstance(world, LinkScenario) else Explorer().explore(world)


def _explore_moving(world: MovingScenario) -> Explored:
    """A few thousand states; walks, should the world be larger; and if those find nothing either, many states."""
    explored = explore_moving(world, STATES_FEW, cut=True)
    if explored.whole or _relevant(world, explored.findings):
        return explored
    for seed in range(WALKS_SOUND if world.invariants else WALKS):
        findings = walk(world, seed, WALK_STEPS).findings
        if _relevant(world, findings):
            return msgspec.structs.replace(explored, findings=findings)
    return explored if world.invariants else explore_moving(world, STATES_MANY, cut=True)


def _relevant(world: MovingScenario, findings: Iterable[Finding]) -> bool:
    """A weak world is out to break one promise; in a sound one nothing may break."""
    return any(world.invariants or finding.promise in world.promises for finding in findings)


def _chosen(names: Iterable[str] | None) -> list[PlantedBug]:
    if names is None:
        return list(BUGS)
    known = {bug.name: bug for bug in BUGS}
    chosen = list(names)
    for name in chosen:
        if name not in known:
            raise ConfigError(f"'{name}' is not a planted bug; they are {', '.join(known)}")
    return [known[name] for name in chosen]
