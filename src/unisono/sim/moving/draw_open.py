"""What makes a drawn world open: topics made on the way, patterns, nodes that come and go, short lanes, quotas.

Its dice are its own: a world is otherwise the same as it would be without.
"""

from __future__ import annotations

from random import Random

import msgspec

from unisono.sim.moving.world import (
    Arrive,
    Burst,
    Crash,
    Drain,
    Happening,
    Move,
    MovingWorld,
    Rerank,
    Want,
)

WORKLOAD_S = 2.0
FRESH = ("new.1", "new.2", "new.x.1")
PATTERNS = ("new.*", "new.>", "*", ">", "new.*.1")
replace = msgspec.structs.replace


def open_up(world: MovingWorld) -> MovingWorld:
    """The same world, and what may happen to it when nothing is fixed from the start."""
    random = Random(f"{world.seed} open")
    script: list[Happening] = []
    makes_topics = random.random() < 0.5
    if makes_topics:
        script += _name_topics(world, random)
    if random.random() < 0.45:
        script += _hold_patterns(world, random)
    if random.random() < 0.4:
        world, arrivals = _late_nodes(world, random)
        script += arrivals
    if random.random() < 0.45:
        script += [Drain(_at(random), node) for node in random.sample(world.nodes, random.choice((1, 1, 2)))]
    if random.random() < 0.25 and world.topics:
        home = random.choice(world.nodes)
        script += [Move(_at(random), random.choice(world.topics), home) for _ in range(random.randint(1, 3))]
    if random.random() < 0.35:
        named = replace(world, script=(*world.script, *script)).named
        script.append(Rerank(_at(random), tuple(random.sample(named, len(named)))))
    node = world.node
    if random.random() < 0.6:
        records_max = random.choice((3, 6, 12))
        node = replace(
            node,
            lane_records_max=records_max,
            lane_events_max=2 * records_max,
            lane_records_kept=random.choice((0, 2, 8)),
        )
        node = replace(node, archive_epochs=random.choice((1, 4, 64)))
    node = replace(node, component_topics_max=random.choice((1, 2, 1000)), node_names="N")
    if random.random() < 0.2:
        world = replace(world, topics=(), owners=())
        makes_topics = True
    if makes_topics and random.random() < 0.2:
        node = replace(node, topics_max=len(world.topics) + random.randint(0, 3))
    if random.random() < 0.08:
        node = replace(node, subscriber_topics_max=2, client_topics_per_minute=2)
    happenings = sorted((*world.script, *script), key=lambda happening: happening.at)
    return replace(world, node=node, script=tuple(happenings))


def _at(random: Random) -> float:
    return round(WORKLOAD_S * random.random(), 4)


def _name_topics(world: MovingWorld, random: Random) -> list[Happening]:
    """Publishers publish on topics nobody has made, members want some."""
    fresh = FRESH[: random.randint(1, 3)]
    script: list[Happening] = []
    for _ in range(random.randint(2, 8)):
        topics = random.choices((*fresh, *world.topics[:1]), k=random.randint(1, 3))
        script.append(Burst(_at(random), random.choice(world.publishers), tuple(topics)))
    wanting = [member.name for member in world.members if random.random() < 0.4]
    return script + [Want(_at(random), name, add=(random.choice(fresh),)) for name in wanting]


def _hold_patterns(world: MovingWorld, random: Random) -> list[Happening]:
    """Members hold patterns, some of them only for a while, some of them again."""
    script: list[Happening] = []
    for member in random.sample(world.members, random.randint(1, min(3, len(world.members)))):
        for pattern in random.sample(PATTERNS, random.choice((1, 1, 2))):
            at = _at(random) * random.choice((0.2, 1.0))
            script.append(Want(at, member.name, add=(pattern,)))
            while random.random() < 0.35:
                at = round(at + 0.8 * random.random(), 4)
                script.append(Want(at, member.name, remove=(pattern,)))
                if random.random() < 0.6:
                    at = round(at + 0.3 * random.random(), 4)
                    script.append(Want(at, member.name, add=(pattern,)))
    return script


def _late_nodes(world: MovingWorld, random: Random) -> tuple[MovingWorld, list[Happening]]:
    late = ("N8", "N9")[: random.choice((1, 1, 2))]
    script: list[Happening] = []
    for node in late:
        at = _at(random)
        script.append(Arrive(at, node))
        if random.random() < 0.25:
            script.append(Crash(round(at + 0.5 * random.random(), 4), node, random.random() < 0.5, at + 1.0))
    return replace(world, nodes=(*world.nodes, *late), late=late), script
