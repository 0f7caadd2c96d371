"""A dashboard before a thousand topics that all move ten times a second. `python thousand.py` serves it until stopped."""

import asyncio
import signal
import time

from unisono.engines.plan import Registration, conflict_graph, elimination_forest
from unisono.engines.takeover.control import first_control
from unisono.engines.topic_managers.describing import TopicDescription
from unisono.runtime.remote.telling import NodeTelling
from unisono.web.serving import Dashboard, DashboardSettings

TOPICS = [f"sensor.{i:04}" for i in range(1000)]
NOBODY = "nats://127.0.0.1:1"


async def busy(dashboard):
    """Feed the picture of a dashboard as a node would."""
    picture, pages = dashboard._pages._picture, dashboard._pages
    dashboard._tasks[1].cancel()  # nobody else watches
    held = [Registration(frozenset(TOPICS[i : i + 20]), 2) for i in range(0, 1000, 20)]
    plan = elimination_forest(conflict_graph(held, TOPICS, 2))
    control = first_control(plan, dict.fromkeys(TOPICS, "n1"), ("n1",))
    loop, n = asyncio.get_running_loop(), 0
    numbers = [0] * len(TOPICS)
    while True:
        numbers = [number + 1 + i % 7 for i, number in enumerate(numbers)]
        picture.see(control, time.time())
        picture.trouble = ""
        named = zip(TOPICS, numbers, strict=True)
        topics = tuple(TopicDescription(t, number, (), (), 2, 0) for t, number in named) if n == 0 else ()
        picture.hear(NodeTelling("n1", 0, True, 0, topics, layout=1, numbers=tuple(numbers)), loop.time())
        picture.look(loop.time(), time.time())
        pages.look()
        n += 1
        await asyncio.sleep(0.1)


async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Dashboard(DashboardSettings(url=NOBODY, port=0)) as dashboard:
        task = asyncio.create_task(busy(dashboard))
        print(f'{{"dashboard": "{dashboard.url}"}}', flush=True)
        await stop.wait()
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
