"""Planted bugs: every one must be caught in its world, and its world must be sound without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter

import msgspec

from unisono.model.errors import ConfigError
from unisono.sim.explore import Explored, Explorer
from unisono.sim.explore.packets import LinkScenario, explore_links
from unisono.sim.explore.search import Step
from unisono.testing.planted_bugs import BUGS, PlantedBug
from unisono.testing.planted_bugs.table import World


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
    for done, bug in enumerate(chosen):
        if progress is not None:
            progress(bug.name, done, len(chosen))
        results.append(run_bug(bug))
    caught = sum(result.caught and result.sound for result in results)
    return BugReport(len(chosen), caught, perf_counter() - started, tuple(results))


def run_bug(bug: PlantedBug) -> BugResult:
    """Explore the world of one bug, with it and without it."""
    weak, sound = explore_world(bug.weak), explore_world(bug.sound)
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


def explore_world(world: World) -> Explored:
    """Every end of a world of any kind."""
    return explore_links(world) if isinstance(world, LinkScenario) else Explorer().explore(world)


def _chosen(names: Iterable[str] | None) -> list[PlantedBug]:
    if names is None:
        return list(BUGS)
    known = {bug.name: bug for bug in BUGS}
    chosen = list(names)
    for name in chosen:
        if name not in known:
            raise ConfigError(f"'{name}' is not a planted bug; they are {', '.join(known)}")
    return [known[name] for name in chosen]
