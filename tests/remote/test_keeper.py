"""A node's way to the store."""

import asyncio

from outage_kit import until
from remote_kit import run

from unisono.engines.effects import Read
from unisono.engines.inputs import ReadBack
from unisono.runtime.remote.keeper import Keeper


class SlowStore:
    """A store whose lanes take their time to be read."""

    def __init__(self):
        self.reads = []
        self.go_on = asyncio.Semaphore(0)

    async def read(self, lane, after=0, limit=None):
        self.reads.append(lane)
        await self.go_on.acquire()
        return [], len(self.reads)

    async def close(self):
        pass


def test_a_lane_is_read_once_at_a_time_however_often_it_is_asked_for():
    async def scenario():
        store, answers = SlowStore(), []
        keeper = Keeper(store, answers.append, 1 << 20, asyncio.get_running_loop().call_soon)
        for lane in ("n1", "n1", "n2", "n1", "n1"):
            assert keeper.carry_out(Read(lane))
        await until(lambda: store.reads == ["n1", "n2"])
        for _ in range(5):
            keeper.carry_out(Read("n1"))
        for _ in range(10):
            store.go_on.release()
        await until(lambda: len(answers) == 3)
        assert sorted(store.reads) == ["n1", "n1", "n2"]  # once more: the first may have begun too early
        assert all(isinstance(answer, ReadBack) for answer in answers)
        keeper.carry_out(Read("n1"))
        await until(lambda: len(answers) == 4)
        await keeper.close()

    run(scenario())
