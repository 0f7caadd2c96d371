"""From a world that fails to a small one that fails in the same way: delta debugging on the world's data.

Whatever can be taken out of a world is taken out if what is left still breaks one of the promises that broke:
first the script, then members, topics, publishers and nodes, then everything that surrounds them. What remains
is what it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from unisono.lab.fuzz import ATOMS, TOPICS, is_moving
from unisono.lab.moving_bugs import MOVING_BUGS
from unisono.model.errors import ConfigError
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.draw_atoms import draw_atoms
from unisono.sim.moving.oracle import WATCHED
from unisono.sim.moving.processes import HONEST, Makers
from unisono.sim.moving.trial import try_moving
from unisono.sim.moving.world import Burst, Delete, Move, MovingWorld, Rerank, Want
from unisono.sim.trial import Trial, try_world
from unisono.sim.world import World, draw_world

TRIALS_MAX = 3000
COURSES, COURSE = 12, 1_000_003

W = TypeVar("W", World, MovingWorld)
T = TypeVar("T")
replace = msgspec.structs.replace


class Shrunk(msgspec.Struct, frozen=True):
    """The smallest world found, in words, and how it fails."""

    seed: int
    steps: tuple[str, ...]  # what happens in it
    settings: tuple[str, ...]  # who takes part, and what is not as it should be
    problems: tuple[str, ...]
    steps_before: int
    trials: int


def shrink(
    seed: int,
    bug: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: str = TOPICS,
) -> Shrunk | None:
    """Shrink the world of a seed, with a bug planted if one is named; None if nothing is wrong with it."""
    if engine not in (TOPICS, ATOMS):
        raise ConfigError(f"worlds of '{engine}' cannot be shrunk; those of {TOPICS} and {ATOMS} can")
    makers = WATCHED if engine == ATOMS and bug is None else _makers(bug)
    if bug is not None or engine == ATOMS or is_moving(seed):
        moving = draw_atoms(seed) if engine == ATOMS else draw_moving(seed)
        shrinker = Shrinker(moving, lambda world: try_moving(world, makers), _moving_cuts, progress)
        return shrinker.run(lambda w: w.script, _moving_settings)
    still = draw_world(seed)
    return Shrinker(still, try_world, _still_cuts, progress).run(lambda w: w.bursts, _still_settings)


class Shrinker(Generic[W]):
    """Tries smaller and smaller worlds."""

    def __init__(
        self,
        world: W,
        attempt: Callable[[W], Trial],
        cuts: Callable[[W], Iterator[list[W]]],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.world: W = world
        self.attempt: Callable[[W], Trial] = attempt
        self.cuts: Callable[[W], Iterator[list[W]]] = cuts
        self.progress = progress
        self.seed = world.seed
        self.trials = 0
        self.trial = attempt(world)
        self.wanted = _kinds(self.trial)

    def run(
        self, script: Callable[[W], Sequence[Any]], settings: Callable[[W], Iterator[str]]
    ) -> Shrunk | None:
        """Cut until nothing more can be cut."""
        before = len(script(self.world))
        if self.trial.is_good:
            return None
        while self._round() and self.trials < TRIALS_MAX:
            pass
        steps = tuple(f"{step.at:.3f} {step}" for step in script(self.world))
        problems = (*self.trial.violations, *self.trial.stuck)
        return Shrunk(self.seed, steps, tuple(settings(self.world)), problems, before, self.trials)

    def _round(self) -> bool:
        """Try every cut once; True if one of them could be made."""
        for candidates in self.cuts(self.world):
            for candidate in candidates:
                if self.trials >= TRIALS_MAX:
                    return False
                if candidate != self.world and self._fails(candidate):
                    return True
        return False

    def _fails(self, world: W) -> bool:
        self.trials += 1
        if self.progress is not None:
            self.progress(self.trials, TRIALS_MAX)
        trial = self.attempt(world)
        if not _kinds(trial) & self.wanted:
            return False
        self.world, self.trial = world, trial
        return True


def _kinds(trial: Trial) -> set[str]:
    """Which promises broke, without the names of those to whom it happened."""
    problems = (*trial.violations, *trial.stuck)
    return {re.sub(r"\S*\d\S*", "", problem.partition(":")[0]).strip() for problem in problems}


def _without(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """The sequence without halves of it, without quarters, …, without single items."""
    size = len(items)
    while size:
        size = (size + 1) // 2 if size > 1 else 0
        width = max(size, 1)
        for start in range(0, len(items), width):
            yield (*items[:start], *items[start + width :])
        if width == 1:
            return


def _moving_cuts(world: MovingWorld) -> Iterator[list[MovingWorld]]:
    yield [replace(world, script=script) for script in _without(world.script)]
    yield [_without_member(world, member.name) for member in world.members if len(world.members) > 1]
    yield [_without_topic(world, topic) for topic in world.named if len(world.named) > 1]
    plain = MovingWorld(world.seed, (), (), (), (), (), ())
    for name in ("packets", "notifications", "storage", "watch", "clocks", "links"):
        yield [replace(world, **{name: getattr(plain, name)})]
    yield [replace(world, ranking=False), replace(world, causal=False), replace(world, peers=False)]
    yield [_without_node(world, node) for node in world.nodes if {*world.nodes} - {*world.late, node}]
    limits = (
        "topics_max",
        "component_topics_max",
        "subscriber_topics_max",
        "lane_records_max",
        "lane_events_max",
        "archive_epochs",
    )
    for name in limits:
        yield [replace(world, node=replace(world.node, **{name: getattr(plain.node, name)}))]
    yield [
        replace(world, script=(*world.script[:i], smaller, *world.script[i + 1 :]))
        for i, step in enumerate(world.script)
        for smaller in _smaller(step)
    ]
    # With a step gone, chance strikes elsewhere: another course of it may do what the first one did.
    yield [
        replace(world, script=script, seed=world.seed + COURSE * course)
        for script in _without(world.script)
        for course in range(1, COURSES + 1)
    ]


def _smaller(step: Any) -> Iterator[Any]:
    """The same happening with less in it."""
    if isinstance(step, Burst) and len(step.topics) > 1:
        yield from (replace(step, topics=topics) for topics in _without(step.topics) if topics)
    if isinstance(step, Want) and len(step.add) + len(step.remove) > 1:
        for add in _without(step.add):
            if add or step.remove:
                yield replace(step, add=add)


def _without_member(world: MovingWorld, name: str) -> MovingWorld:
    kept = tuple(step for step in world.script if name not in (getattr(step, "member", ""), _process(step)))
    return replace(world, members=tuple(m for m in world.members if m.name != name), script=kept)


def _without_node(world: MovingWorld, name: str) -> MovingWorld:
    nodes = tuple(node for node in world.nodes if node != name)
    first = next(node for node in nodes if node not in world.late)
    owners = tuple(first if owner == name else owner for owner in world.owners)
    named = ("process", "by", "node")
    script = tuple(step for step in world.script if name not in [getattr(step, n, "") for n in named])
    late = tuple(node for node in world.late if node != name)
    return replace(world, nodes=nodes, owners=owners, script=script, late=late)


def _without_topic(world: MovingWorld, topic: str) -> MovingWorld:
    kept = [i for i, name in enumerate(world.topics) if name != topic]
    script = tuple(smaller for step in world.script if (smaller := _scrubbed(step, topic)) is not None)
    return replace(
        world,
        topics=tuple(world.topics[i] for i in kept),
        owners=tuple(world.owners[i] for i in kept),
        script=script,
    )


def _scrubbed(step: Any, topic: str) -> Any | None:
    """A happening without any mention of a topic; None if nothing is left of it."""

    def rest(topics: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in topics if name != topic)

    match step:
        case Burst():
            return replace(step, topics=rest(step.topics)) if rest(step.topics) else None
        case Want():
            smaller = replace(step, add=rest(step.add), remove=rest(step.remove))
            return smaller if smaller.add or smaller.remove else None
        case Rerank():
            return replace(step, rank=rest(step.rank))
        case Move() | Delete():
            return None if step.topic == topic else step
    return step


def _process(step: Any) -> str:
    return str(getattr(step, "process", ""))


def _moving_settings(world: MovingWorld) -> Iterator[str]:
    owners = ", ".join(f"{t} on {n}" for t, n in zip(world.topics, world.owners, strict=True))
    yield f"nodes {', '.join(world.nodes)}; topics {owners}; {world.node.plan}, threshold {world.threshold}"
    yield from (f"member {m.name}: {_differences(m.settings)}" for m in world.members)
    yield from ["members ask each other"] if world.peers else []
    for name in ("packets", "notifications", "storage", "watch", "clocks"):
        if text := _differences(getattr(world, name)):
            yield f"{name}: {text}"


def _still_cuts(world: World) -> Iterator[list[World]]:
    yield [replace(world, bursts=bursts) for bursts in _without(world.bursts)]
    yield [replace(world, subscribers=kept) for kept in _without(world.subscribers) if kept]
    plain = World(world.seed, (), (), ())
    names = ("packets", "notifications", "links", "peers")
    yield [replace(world, **{name: getattr(plain, name)}) for name in names]
    yield [
        replace(world, bursts=(*world.bursts[:i], replace(burst, topics=topics), *world.bursts[i + 1 :]))
        for i, burst in enumerate(world.bursts)
        for topics in _without(burst.topics)
        if topics
    ]


def _still_settings(world: World) -> Iterator[str]:
    yield f"{world.shape}; topics {', '.join(world.topics)}; {world.plan}, threshold {world.threshold}"
    for s in world.subscribers:
        yield f"subscriber {s.name} holds {', '.join(s.topics)}: {_differences(s.settings)}"
    yield from ["subscribers ask each other"] if world.peers else []
    for name in ("packets", "notifications", "managers"):
        if text := _differences(getattr(world, name)):
            yield f"{name}: {text}"


def _differences(settings: msgspec.Struct) -> str:
    """What is not as it is by default."""
    plain = type(settings)()
    names = settings.__struct_fields__
    changed = [n for n in names if getattr(settings, n) != getattr(plain, n)]
    return ", ".join(f"{n} {getattr(settings, n)}" for n in changed)


def _makers(bug: str | None) -> Makers:
    if bug is None:
        return HONEST
    if bug not in MOVING_BUGS:
        raise ConfigError(f"'{bug}' is not a bug of moving worlds; they are {', '.join(MOVING_BUGS)}")
    return MOVING_BUGS[bug]
