"""A subscriber process: it writes down what it is handed, before it takes the next."""

from __future__ import annotations

import asyncio
import signal
import sys

import msgspec

import unisono
from unisono.lab.faults.diary import Diary
from unisono.model.errors import UnconfirmedError, UnisonoError

PAUSE_S = 0.2


class SubscriberWork(msgspec.Struct, frozen=True):
    """What one subscriber is to do."""

    url: str
    name: str
    diary: str
    topics: tuple[str, ...]
    durable: bool = False  # it keeps its place, and goes on from there in its next life


class Listener:
    """One life of a subscriber."""

    def __init__(self, work: SubscriberWork) -> None:
        self._work = work
        self._diary = Diary(work.diary)

    async def run(self) -> None:
        """Listen until told to stop."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        while True:
            try:
                await self._listen()
                return
            except (ConnectionError, UnconfirmedError) as error:  # before it was subscribed
                self._diary.write("unconfirmed", text=str(error))
                await asyncio.sleep(PAUSE_S)
            except asyncio.CancelledError:
                self._diary.write("stopped")
                return
            except UnisonoError as error:
                self._diary.write("ended", text=f"{type(error).__name__}: {error}")
                raise

    async def _listen(self) -> None:
        work, write = self._work, self._diary.write
        more = {"name": work.name, "ack": "auto", "held": "take"} if work.durable else {}
        bus = unisono.connect(work.url, name=work.name)
        async with bus, bus.subscribe(*work.topics, **more) as events:
            write("opened", topics=work.topics)
            async for event in events:
                write(
                    "delivered",
                    id=event.id,
                    topic=event.topic,
                    number=(event.stamp or {}).get(event.topic, 0),
                    missed=event.missed,
                    redelivered=event.redelivered,
                )


if __name__ == "__main__":
    asyncio.run(Listener(msgspec.json.decode(sys.argv[1], type=SubscriberWork)).run())
