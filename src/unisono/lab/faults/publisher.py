"""A publisher process: it publishes continuously, retries under the same ids, and writes down what was acknowledged.

Started again after a kill, it first retries what had no acknowledgement, in its order, and then goes on.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections import deque
from pathlib import Path

import msgspec

import unisono
from unisono.lab.faults.diary import Diary, read_diary
from unisono.model.errors import BackPressureError, UnconfirmedError

PAUSE_S = 0.2


class PublisherWork(msgspec.Struct, frozen=True):
    """What one publisher is to do."""

    url: str
    name: str
    diary: str
    rates: dict[str, float]  # topic -> events per second
    window: int = 8  # events of a topic without an acknowledgement
    timeout_s: float = 3.0
    payload: str = ""


class Past(msgspec.Struct):
    """What former lives of a publisher have left."""

    last: int = 0
    open: dict[str, deque[str]] = {}  # topic -> ids that were published and never acknowledged


def past_of(path: str | Path) -> Past:
    """What the diary of a publisher tells of its former lives."""
    last, open_ids = 0, dict[str, dict[str, None]]()
    for entry in read_diary(path):
        if entry.what == "published":
            last = max(last, int(entry.id.rpartition("/")[2]))
            open_ids.setdefault(entry.topic, {})[entry.id] = None
        elif entry.what == "acknowledged":
            open_ids[entry.topic].pop(entry.id, None)
    return Past(last, {topic: deque(ids) for topic, ids in open_ids.items()})


class Pump:
    """One life of a publisher."""

    def __init__(self, work: PublisherWork) -> None:
        self._work = work
        self._past = past_of(work.diary)
        self._diary = Diary(work.diary)
        self._last = self._past.last
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Publish until told to stop, then until everything is acknowledged."""
        work = self._work
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
        while True:
            bus = unisono.connect(work.url, name=work.name, publish_timeout=work.timeout_s)
            try:
                await bus.__aenter__()
                break
            except ConnectionError as error:
                self._diary.write("unconfirmed", text=str(error))
                await asyncio.sleep(PAUSE_S)
        self._diary.write("began")
        async with asyncio.TaskGroup() as group:
            for topic, rate in work.rates.items():
                group.create_task(self._pump(bus, topic, rate))
        self._diary.write("ended")
        await bus.__aexit__(None, None, None)

    async def _pump(self, bus: unisono.Bus, topic: str, rate: float) -> None:
        room = asyncio.Semaphore(self._work.window)
        again = self._past.open.get(topic, deque[str]())
        async with asyncio.TaskGroup() as group:
            while again or not self._stop.is_set():
                await room.acquire()
                if again:
                    id = again.popleft()
                elif self._stop.is_set():
                    break
                else:
                    self._last += 1
                    id = f"{self._work.name}/1/{self._last}"
                    self._diary.write("published", id=id, topic=topic)
                # Tasks begin in the order in which they are made, so this is the order of publication.
                group.create_task(self._publish(bus, topic, id)).add_done_callback(lambda _: room.release())
                await asyncio.sleep(0 if again else random.expovariate(rate))

    async def _publish(self, bus: unisono.Bus, topic: str, id: str) -> None:
        while True:
            try:
                receipt = await bus.publish(topic, {"id": id, "more": self._work.payload}, id=id)
            except UnconfirmedError:
                self._diary.write("unconfirmed", id=id, topic=topic)
            except BackPressureError:
                await asyncio.sleep(PAUSE_S)
            else:
                self._diary.write("acknowledged", id=id, topic=topic, number=receipt.stamp.get(topic, 0))
                return


if __name__ == "__main__":
    asyncio.run(Pump(msgspec.json.decode(sys.argv[1], type=PublisherWork)).run())
