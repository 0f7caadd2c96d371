"""A ticker desk: two analysts watch trades and news, and must agree on what came first.

    .venv/bin/python examples/ticker_desk.py

"News, then a big trade of the same share" is an alarm. On a bus without a common order the two analysts would
raise different alarms; with order="total" they raise the same ones, although every notification is delayed by
a random time of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

import unisono

SHARES = ("ACME", "GLOBEX", "INITECH")


@dataclass
class Item:
    """A trade or a piece of news."""

    share: str
    size: int = 0


async def analyst(events: unisono.Subscription, alarms: list[str], expected: int) -> None:
    """Raise an alarm for each big trade that follows news of the same share."""
    last_news: dict[str, str] = {}
    async for event in events:
        item: Item = event.data
        if event.topic == "news":
            last_news[item.share] = event.id
        elif item.size > 900 and item.share in last_news:
            alarms.append(f"{last_news.pop(item.share)} then {event.id}")
        expected -= 1
        if not expected:
            return


async def main(seed: int = 1, count: int = 600) -> tuple[list[str], list[str]]:
    """Publish trades and news; return the alarms of both analysts."""
    rng = Random(seed)
    first: list[str] = []
    second: list[str] = []
    async with (
        unisono.connect(f"memory://?jitter_ms=10&seed={seed}", name="exchange") as bus,
        bus.subscribe("trades", "news", name="ada", type=Item) as ada,
        bus.subscribe("trades", "news", name="ben", type=Item) as ben,
    ):
        desks = [
            asyncio.create_task(analyst(ada, first, count)),
            asyncio.create_task(analyst(ben, second, count)),
        ]
        for i in range(count):
            topic = "news" if rng.random() < 0.3 else "trades"
            bus.publish_nowait(topic, Item(rng.choice(SHARES), rng.randint(1, 1000)))
            if i % 20 == 0:
                await asyncio.sleep(0.001)
        await asyncio.gather(*desks)
    return first, second


if __name__ == "__main__":
    ada_alarms, ben_alarms = asyncio.run(main())
    print(f"ada raised {len(ada_alarms)} alarms, ben {len(ben_alarms)}")
    print("they agree" if ada_alarms == ben_alarms else "they DISAGREE")
