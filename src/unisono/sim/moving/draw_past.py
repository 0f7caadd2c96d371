"""What makes a drawn world remember: its history is kept, and members come late and are told the past.

Its dice are its own: a world that does not remember is the same as it would be without.
"""

from __future__ import annotations

from random import Random

import msgspec

from unisono.engines.topic_managers.recalling import Start
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.sim.moving.world import Crash, Happening, MemberSpec, MovingWorld, Want

WORKLOAD_S = 2.0
PATTERNS = ("*", ">", "new.*")
replace = msgspec.structs.replace


def remember(world: MovingWorld) -> MovingWorld:
    """The same world, and perhaps its history is kept."""
    random = Random(f"{world.seed} past")
    if random.random() < 0.6:
        return world
    late = [_member(f"late{i + 1}", random) for i in range(random.choice((1, 1, 2, 3)))]
    script: list[Happening] = []
    for member in late:
        at = round(WORKLOAD_S * random.choice((0.0, 0.5, 1.0, 1.2)) * random.random(), 4)
        script.append(Want(at, member.name, _names(world, random)))
        if member.durable:
            for _ in range(random.choice((1, 1, 2))):
                at = round(at + 1.2 * random.random(), 4)
                back_at = round(at + 0.9 * random.random(), 4)
                script.append(Crash(at, member.name, random.random() < 0.5, back_at))
                at = back_at
    kept = Random(f"{world.seed} retention").choice(
        ((8, 0.0), (30, 0.0), (1000, 0.5), (1000, 30.0), (1000, 0.0))
    )
    happenings = sorted((*world.script, *script), key=lambda happening: happening.at)
    return replace(
        world,
        retained=True,
        node=replace(world.node, retain_records=kept[0], retain_s=kept[1]),
        threshold=1,
        members=(*world.members, *late),
        script=tuple(happenings),
        heals_at=max(world.heals_at, happenings[-1].at + 0.1),
    )


def _member(name: str, random: Random) -> MemberSpec:
    """Somebody who begins in the past, or comes back to where it was, or both."""
    start = random.choice((Start(), Start(), Start(since=0.001 + WORKLOAD_S * random.random()), None))
    gone = random.choice(("fail", "skip"))
    durable = start is None or random.random() < 0.4
    settings = SubscriberSettings(repair=True, nack_retry_s_max=0.4, nack_numbers_max=random.choice((2, 256)))
    return MemberSpec(name, settings, 0.0, None if start is None else replace(start, gone=gone), durable)


def _names(world: MovingWorld, random: Random) -> tuple[str, ...]:
    if not world.topics or random.random() < 0.25:
        return (random.choice(PATTERNS),)
    names = random.sample(world.topics, random.randint(1, len(world.topics)))
    return (*names, random.choice(PATTERNS)) if random.random() < 0.1 else tuple(names)
