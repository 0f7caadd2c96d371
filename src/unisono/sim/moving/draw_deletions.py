"""What makes a drawn world lose topics: an operator deletes some while events flow.

Its dice are its own: a world without deletions is the same as it would be without.
"""

from __future__ import annotations

from random import Random

import msgspec

from unisono.sim.moving.world import Delete, MovingWorld

WORKLOAD_S = 2.0


def delete(world: MovingWorld) -> MovingWorld:
    """The same world, and perhaps some of its topics are deleted."""
    random = Random(f"{world.seed} deletions")
    if random.random() < 0.8 or not world.named:
        return world
    topics = random.sample(world.named, random.choice((1, 1, 2)) if len(world.named) > 1 else 1)
    script = [Delete(round(0.2 + WORKLOAD_S * random.random(), 4), topic) for topic in topics]
    happenings = sorted((*world.script, *script), key=lambda happening: happening.at)
    return msgspec.structs.replace(world, script=tuple(happenings))
