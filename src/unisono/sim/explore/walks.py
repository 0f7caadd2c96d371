"""Seeded random walks through moving worlds that are too large to be explored.

The seed decides everything: the world, and every step of the way. Unlike in a search timers fire at any moment,
everybody hears of control records whenever it likes, and several kinds of harm come together.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal, NamedTuple

import msgspec

from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.sim.explore.moving import EXACT, Change, Harm, MovingScenario
from unisono.sim.explore.moving_ends import Judge
from unisono.sim.explore.moving_world import MovingWorld
from unisono.sim.explore.scenario import Planned
from unisono.sim.explore.search import Step
from unisono.sim.explore.story import Finding

HARM_SHARE = 0.04  # of the steps, while there is harm to be done
TICK_SHARE = 0.03
STEPS_MAX = 600  # then no more harm is done, and the world is brought to rest

TAG = SubscriberSettings(on_gap="tag", repair=True)
BOUNDED = SubscriberSettings(on_gap="tag", buffer=2, max_hold=0.3, repair=True)


class Walked(NamedTuple):
    """One walk: how many steps it took, and what it broke."""

    steps: int
    findings: tuple[Finding, ...]


def random_moving(seed: int) -> MovingScenario:
    """The world of a seed."""
    rng = random.Random(seed)
    topics = tuple(f"T{i + 1}" for i in range(rng.randint(2, 4)))
    nodes = [f"N{i + 1}" for i in range(rng.randint(1, 3))]
    members = {f"s{i + 1}": _some(rng, topics) for i in range(rng.randint(2, 4))}
    scripts = {name: _script(rng, topics) for name in members}
    ranks = tuple(tuple(rng.sample(topics, len(topics))) for _ in range(rng.randint(0, 2)))
    publishers = [f"p{i + 1}" for i in range(rng.randint(1, 3))]
    closed = MovingScenario(
        topics,
        {topic: rng.choice(nodes) for topic in topics},
        tuple(
            Planned(f"e{i + 1}", rng.choice(topics), rng.choice(publishers)) for i in range(rng.randint(3, 7))
        ),
        members=members,
        scripts=scripts,
        spare=tuple(nodes),
        kind=rng.choice(("line", "forest")),
        threshold=rng.choice((1, 2)),
        settings={name: rng.choice((EXACT, EXACT, TAG, BOUNDED)) for name in members},
        harm=Harm(
            crashes=rng.randint(0, 1),
            zombies=rng.randint(0, 1),
            lost_appends=rng.randint(0, 1),
            lost_answers=rng.randint(0, 1),
            stale_reads=rng.randint(0, 2),
            ranks=ranks,
        ),
    )
    return _worse(_open(closed, rng, publishers) if rng.random() < 0.6 else closed, rng)


def _worse(world: MovingScenario, rng: random.Random) -> MovingScenario:
    """The same world with a storage that stores late or twice, second finishers, and publishers that try again."""
    events = [
        replace(event, name=f"{event.name}k", publisher=rng.choice(world.events).publisher, key=f"k{i}")
        for i, event in enumerate(world.events)
        if rng.random() < 0.15
    ]
    keys = {event.name[:-1]: event.key for event in events}
    harm = msgspec.structs.replace(
        world.harm,
        late_appends=rng.choice((0, 0, 1)),
        double_appends=rng.choice((0, 0, 1)),
        finishers=rng.choice((0, 0, 1)),
        late_cuts=rng.random() < 0.5,
        reports=rng.choice((0, 1)),
        expiries=rng.choice((0, 1)),
    )
    first = tuple(replace(event, key=keys.get(event.name)) for event in world.events)
    return world.but(events=(*first, *events), harm=harm, at_once=rng.random() < 0.5)


def _open(world: MovingScenario, rng: random.Random, publishers: list[str]) -> MovingScenario:
    """The same world with topics that are made on the way, patterns, short lanes, and a node that leaves."""
    fresh = ("new.1", "new.2")
    events = [
        Planned(f"n{i + 1}", rng.choice(fresh), rng.choice(publishers)) for i in range(rng.randint(1, 3))
    ]
    scripts = dict(world.scripts)
    for name in world.members:
        if rng.random() < 0.6:
            changes: list[Change] = list(scripts.get(name, ()))
            for _ in range(rng.randint(1, 3)):
                wanted = rng.choice((*fresh, "new.*", "new.*", "*", ">"))
                kind: Literal["add", "remove"] = "remove" if rng.random() < 0.25 else "add"
                changes.insert(rng.randint(0, len(changes)), (kind, (wanted,)))
            scripts[name] = tuple(changes)
    short = NodeSettings(lane_records_kept=0, lane_records_max=rng.choice((3, 50_000)))
    return world.but(
        events=tuple(rng.sample([*world.events, *events], len(world.events) + len(events))),
        scripts=scripts,
        harm=msgspec.structs.replace(
            world.harm, drains=(rng.choice(world.nodes),) if rng.random() < 0.4 else ()
        ),
        nodes_are=short if rng.random() < 0.5 else world.nodes_are,
    )


def _some(rng: random.Random, topics: tuple[str, ...]) -> frozenset[str]:
    return frozenset(rng.sample(topics, rng.randint(0, len(topics))))


def _script(rng: random.Random, topics: tuple[str, ...]) -> tuple[Change, ...]:
    changes: list[Change] = []
    for _ in range(rng.randint(0, 3)):
        some = tuple(rng.sample(topics, rng.choice((1, 1, 1, 2))))
        changes.append((rng.choice(("add", "add", "remove")), some))
    return tuple(changes)


def walk(scenario: MovingScenario, seed: int, steps_max: int = STEPS_MAX) -> Walked:
    """One way through a world, to its end."""
    rng = random.Random(seed)
    world = MovingWorld(scenario, branching=False, watching=True)
    trace: list[Step] = [("seed", str(seed))]
    while len(trace) <= steps_max and not world.broken:
        step = _next_step(world, rng)
        if step is None:
            break
        trace.append(step)
        if step[0] == "time":
            world.pass_time()
        else:
            world.after(step)
    findings = tuple(Judge(scenario).findings(world))
    if findings:
        findings = tuple(msgspec.structs.replace(finding, trace=tuple(trace)) for finding in findings)
    return Walked(len(trace) - 1 + world.settle_steps, findings)


def _next_step(world: MovingWorld, rng: random.Random) -> Step | None:
    lot = rng.random()
    harms = world.harms() if lot < HARM_SHARE else []
    if harms:
        return rng.choice(harms)
    duties = world.duties()
    if duties and lot > HARM_SHARE + TICK_SHARE:
        return rng.choice(duties)
    return ("time",) if duties or world.next_timer() is not None else None
