"""A node's way to the store."""

import asyncio

import msgspec
import pytest
from outage_kit import until
from remote_kit import run

from unisono.engines.effects import Append, Read
from unisono.engines.inputs import Appended, ReadBack
from unisono.ens.local_store import LocalStore
from unisono.model.codec import encode_record
from unisono.model.errors import PayloadError, VersionError
from unisono.model.frames import Publication, Stamped
from unisono.model.lanes import EventRecord, SealRecord
from unisono.runtime.remote.keeper import NOTHING, Keeper


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


class Kept(SlowStore):
    """A store whose lane holds these bytes."""

    def __init__(self, *records):
        super().__init__()
        self.records = records

    async def read(self, lane, after=0, limit=None):
        return list(enumerate(self.records, 1)), len(self.records)


def test_a_record_of_another_build_is_never_taken_for_nothing():
    """It may hold events that were acknowledged: whoever leaves it out gives their numbers away again."""
    seal = encode_record(SealRecord(1))
    shorter = seal[:1] + msgspec.msgpack.encode(["bundle", 1, 1, ["bundled", 1, "n", 1]])
    later = b"\x07" + seal[1:]

    async def scenario(record):
        answers, ends = [], []
        keeper = Keeper(Kept(seal, record), answers.append, 1 << 20, asyncio.get_running_loop().call_soon)
        keeper.on_end = ends.append
        keeper.carry_out(Read("n1"))
        await until(lambda: answers or ends)
        await keeper.close()
        return answers, ends

    for nothing in (b"", b"\x01 anything else", b"\x01\x91\xa5other", seal[:-1]):
        [answer], ends = run(scenario(nothing))
        assert answer.records == (SealRecord(1), NOTHING)
        assert not ends
    for another, why in ((shorter, "that another build of unisono wrote"), (later, "of version 7")):
        answers, [end] = run(scenario(another))
        assert not answers
        assert isinstance(end, VersionError)
        assert str(end).startswith(f"lane 'n1' at 2: a record {why}")


def event(n, body=b"", nth=1):
    return EventRecord(1, n, Stamped(Publication("p", 1, n, "T", body, nth=nth), 1, {"T": n}))


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("bad", [event(2, nth=2**70), event(2, bytes(2000))])
def test_a_record_that_can_never_be_stored_ends_the_node_and_what_comes_with_it_is_stored(at_once, bad):
    """Asked for again and again it would keep all others waiting, while everybody takes the node for alive."""

    async def scenario():
        store, answers, ends = LocalStore(1000), [], []
        keeper = Keeper(store, answers.append, 1000, asyncio.get_running_loop().call_soon)
        if not at_once:
            keeper._append_now = None
        keeper.on_end = ends.append
        for record in (event(1), bad, event(3)):
            keeper.carry_out(Append("n1", record, None))
        await until(lambda: ends and len(answers) == 2)
        await keeper.close()
        return answers, ends

    answers, [end] = run(scenario())
    assert answers == [Appended("n1", event(1), 1), Appended("n1", event(3), 2)]
    assert isinstance(end, PayloadError)


def test_a_control_record_of_another_release_ends_the_node_however_it_is_seen():
    async def scenario():
        ends = []
        keeper = Keeper(LocalStore(1000), lambda _: None, 1000, asyncio.get_running_loop().call_soon)
        keeper.on_end = ends.append
        keeper._changed(2, b"\x07 whatever it says")
        await keeper.close()
        return ends

    [end] = run(scenario())
    assert isinstance(end, VersionError)
