"""What makes a drawn world look: views that are made and removed while events flow.

Its dice are its own: a world without views is the same as it would be without.
"""

from __future__ import annotations

from random import Random

import msgspec

from unisono.sim.moving.world import DropView, Happening, MakeView, MovingWorld

WORKLOAD_S = 2.0
PATTERNS = ("*", ">", "new.*")
replace = msgspec.structs.replace


def look(world: MovingWorld) -> MovingWorld:
    """The same world, and perhaps somebody makes views of it."""
    random = Random(f"{world.seed} views")
    if random.random() < 0.65:
        return world
    script: list[Happening] = []
    for i in range(random.choice((1, 1, 2, 3))):
        at = round(WORKLOAD_S * random.choice((0.0, 0.3, 1.0)) * random.random(), 4)
        script.append(MakeView(at, f"v{i + 1}", _names(world, random)))
        while random.random() < 0.4:
            at = round(at + random.random(), 4)
            script.append(DropView(at, f"v{i + 1}"))
            if random.random() < 0.5:
                at = round(at + random.random(), 4)
                script.append(MakeView(at, f"v{i + 1}", _names(world, random)))
    node = world.node
    if random.random() < 0.1:
        node = replace(node, views_max=1)
    happenings = sorted((*world.script, *script), key=lambda happening: happening.at)
    return replace(world, node=node, script=tuple(happenings))


def _names(world: MovingWorld, random: Random) -> tuple[str, ...]:
    named = world.named
    if not named or random.random() < 0.25:
        return (random.choice(PATTERNS),)
    return tuple(sorted(random.sample(named, random.randint(1, len(named)))))
