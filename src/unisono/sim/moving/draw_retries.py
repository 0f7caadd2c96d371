"""What makes a drawn world uncertain of what it has published: events with keys, published again by somebody else.

Its dice are its own: a world is otherwise the same as it would be without.
"""

from __future__ import annotations

from random import Random

import msgspec

from unisono.sim.moving.world import Burst, Crash, Happening, MovingWorld

HASTE_S = (0.0, 0.004, 0.02, 0.3, 0.9)  # how long somebody waits before publishing again, at most


def retry(world: MovingWorld) -> MovingWorld:
    """The same world, and some events that are published with a key, more than once."""
    random = Random(f"{world.seed} retries")
    bursts = [i for i, happening in enumerate(world.script) if isinstance(happening, Burst)]
    if not bursts or random.random() < 0.5:
        return world
    script = list(world.script)
    more: list[Happening] = []
    for i in random.sample(bursts, min(len(bursts), random.randint(1, 4))):
        burst = script[i]
        assert isinstance(burst, Burst)
        first = script[i] = msgspec.structs.replace(burst, key=f"k{i}")
        if random.random() < 0.4:  # it dies before it has heard whether its event has a place
            at = first.at + 0.02 * random.random()
            back_at = None if random.random() < 0.5 else at + 0.5 * random.random()
            more.append(Crash(at, first.publisher, random.random() < 0.7, back_at))
        for _ in range(random.choice((1, 1, 2))):
            at = first.at + random.choice(HASTE_S) * random.random()
            more.append(Burst(at, random.choice(world.publishers), first.topics, first.key))
    return msgspec.structs.replace(world, script=tuple(sorted((*script, *more), key=lambda one: one.at)))
