"""A lane's writer on a real store, with many appends under way, that goes on after somebody has sealed its lane."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from unisono.engines.effects import Append, Read
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.recovery import valid_records
from unisono.engines.takeover.writer import LaneWriter
from unisono.ens.registry import open_service
from unisono.ens.store import open_store
from unisono.model.codec import decode_record, encode_record
from unisono.model.frames import Registration
from unisono.model.lanes import JoinRecord, SealRecord

EPOCH = 1
WINDOW = 500  # records without an answer
APPEND_S = 0.5


@asynccontextmanager
async def store_at(url):
    service = open_service(url)
    await service.connect()
    try:
        yield await open_store(service)
    finally:
        await service.close()


class Writer:
    """The engine that nodes have, and a store."""

    def __init__(self, store, lane):
        self.engine = LaneWriter(lane, EPOCH, 0)
        self.confirmed = []
        self._store = store
        self._tasks = set()

    @property
    def is_stopped(self):
        return self.engine.state == "stopped"

    async def run(self, stop=None):
        """Append until we find out that the lane is sealed, or are told to stop."""
        loop = asyncio.get_running_loop()
        while not self.is_stopped and not (stop and stop.is_set() and not self.engine.unconfirmed):
            while len(self.engine.unconfirmed) < WINDOW and not (stop and stop.is_set()):
                self._carry_out(self.engine.append(record(self.engine.made + 1), loop.time()))
            await asyncio.sleep(0.005)
            waits = self.engine.waits_since
            if waits is not None and waits + APPEND_S * self.engine.patience <= loop.time():
                self._carry_out(self.engine.give_up_waiting(loop.time()))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _carry_out(self, effects):
        for effect in effects:
            match effect:
                case Append(lane, written, expected):
                    stored = self._store.append(lane, encode_record(written), expected, written.epoch)
                    stored.add_done_callback(lambda done, written=written: self._answered(written, done))
                case Read(lane):
                    task = asyncio.create_task(self._read(lane))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    def _answered(self, written, done):
        if done.cancelled() or done.exception() is not None:
            return  # stored or not: the writer looks for itself
        self._take(self.engine.answered(written, done.result(), asyncio.get_running_loop().time()))

    async def _read(self, lane):
        try:
            kept, tail = await self._store.read(lane)
        except (OSError, TimeoutError):
            return
        answer = ReadBack(lane, tuple(decode_record(data) for _, data in kept), tail)
        self._take(self.engine.read_back(answer, asyncio.get_running_loop().time()))

    def _take(self, answer):
        confirmed, effects = answer
        self.confirmed += [written.index for written in confirmed]
        self._carry_out(effects)


def record(index):
    """One more record of the writer."""
    return JoinRecord(EPOCH, index, Registration("s", index, ("orders",)), {"orders": 0})


async def seal(store, lane, attempts=60):
    """Seal a lane, whatever else is under way, as whoever takes over does: again until it is confirmed."""
    for _ in range(attempts):
        try:
            return await store.append(lane, encode_record(SealRecord(EPOCH + 1)), None, EPOCH + 1)
        except (OSError, TimeoutError):
            await asyncio.sleep(0.2)
    raise AssertionError("the lane could not be sealed")


async def view(store, lane, attempts=60):
    """What a reader counts of a lane, and how many records are behind its first seal."""
    for _ in range(attempts):
        try:
            kept, _ = await store.read(lane)
            break
        except (OSError, TimeoutError):
            await asyncio.sleep(0.2)
    records = [decode_record(data) for _, data in kept]
    first = next(n for n, one in enumerate(records) if isinstance(one, SealRecord))
    behind = sum(isinstance(one, JoinRecord) for one in records[first:])
    return [one.index for one in valid_records(records, EPOCH + 1)], behind


async def sealed_under_load(url, lane, before=None, seconds=0.5):
    """A writer at full speed, something that happens, a seal by somebody else; the zombie ends by itself.

    Returns what was confirmed, what a reader counts, and how many records the zombie stored behind the seal.
    """
    async with store_at(url) as mine, store_at(url) as other, asyncio.timeout(60):
        writer = Writer(mine, lane)
        work = asyncio.create_task(writer.run())
        while len(writer.confirmed) < WINDOW:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        if before is not None:
            await before()
        await asyncio.sleep(seconds)
        await seal(other, lane)
        await work
        assert writer.is_stopped
        counted, behind = await view(other, lane)
        return writer.confirmed, counted, behind
