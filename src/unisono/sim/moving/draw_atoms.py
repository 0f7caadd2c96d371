"""Moving worlds whose work is spread over nodes, drawn from a seed."""

from __future__ import annotations

from random import Random

import msgspec

from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.sim.moving.draw import draw_moving
from unisono.sim.moving.world import MemberSpec, MovingWorld

EXACT = 0.6  # of those who would not wait, so many wait here: only they can be compared with the paper's receivers
replace = msgspec.structs.replace


def draw_atoms(seed: int) -> MovingWorld:
    """The moving world of this seed with `sequencer="atoms"`, on a forest; its dice are its own."""
    world = draw_moving(seed)
    random = Random(f"{seed} atoms")
    members = tuple(_wait(member, random) for member in world.members)
    return replace(world, node=replace(world.node, sequencer="atoms", plan="forest"), members=members)


def _wait(member: MemberSpec, random: Random) -> MemberSpec:
    settings = member.settings
    if settings.on_gap in ("wait", "fail") or random.random() > EXACT:
        return member
    exact = SubscriberSettings(
        nack_retry_s_max=settings.nack_retry_s_max, nack_numbers_max=settings.nack_numbers_max, repair=True
    )
    return replace(member, settings=exact)
