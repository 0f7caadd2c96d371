"""A game of regions: players walk from one to the next, and everybody agrees on what happened.

    .venv/bin/python examples/game_regions.py

Each region is a topic. A player hears the region it is in: walking on is `add` and `remove`, while events flow.
Two observers hear all regions through a pattern. Players and observers are told one order, although every
notification is delayed by a random time of its own.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random

import unisono

REGIONS = ("regions.forest", "regions.harbour", "regions.tower")


async def write_down(events: unisono.Subscription, story: list[str], expected: int = 0) -> None:
    """Note what is heard, in the order in which it is heard, until it is all or the subscription is closed."""
    async for event in events:
        story.append(event.id)
        if len(story) == expected:
            return


async def walk(player: unisono.Subscription, rng: Random, steps: int) -> None:
    """Go from region to region; be in the next one before leaving the last."""
    (here,) = player.topics
    for _ in range(steps):
        await asyncio.sleep(0.005)
        there = rng.choice([region for region in REGIONS if region != here])
        await player.add(there)
        await player.remove(here)
        here = there


async def main(seed: int = 1, count: int = 400) -> tuple[list[str], list[str], list[str]]:
    """Let things happen everywhere; return the stories of two observers and of a player."""
    rng = Random(seed)
    stories: tuple[list[str], list[str], list[str]] = ([], [], [])
    async with (
        unisono.connect(f"memory://?jitter_ms=10&seed={seed}", name="world") as bus,
        bus.subscribe("regions.*", name="ada") as ada,
        bus.subscribe("regions.*", name="ben") as ben,
        bus.subscribe(REGIONS[0], name="player") as player,
    ):
        observers = [
            asyncio.create_task(write_down(ada, stories[0], count)),
            asyncio.create_task(write_down(ben, stories[1], count)),
        ]
        wanderer = asyncio.create_task(write_down(player, stories[2]))
        walker = asyncio.create_task(walk(player, rng, steps=20))
        for n in range(count):
            bus.publish_nowait(rng.choice(REGIONS), {"happening": n})
            if n % 4 == 0:
                await asyncio.sleep(0.001)
        await asyncio.gather(walker, *observers)
        await player.close()
        await wanderer
    return stories


def agrees(player: list[str], observer: list[str]) -> bool:
    """Whether the player heard nothing in another order than the observer."""
    place = {event: n for n, event in enumerate(observer)}
    return all(place[first] < place[second] for first, second in pairwise(player))


if __name__ == "__main__":
    first, second, walked = asyncio.run(main())
    print(f"two observers heard {len(first)} and {len(second)} happenings, the player {len(walked)}")
    print("they agree" if first == second and agrees(walked, first) else "they DISAGREE")
