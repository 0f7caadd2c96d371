"""Records that a node knows need not be read again, and what is made of them is what a store would have told."""

import asyncio
from random import Random

import pytest
from outage_kit import until
from remote_kit import run

from unisono.engines.effects import Append, Read
from unisono.engines.inputs import Appended
from unisono.ens.local_store import LocalStore, Shelf
from unisono.model.codec import encode_record
from unisono.model.frames import EpochNotice, Publication, Stamped
from unisono.model.lanes import EpochRecord, EventRecord, SealRecord
from unisono.runtime.remote.keeper import Keeper
from unisono.runtime.remote.recent import Recent


def record(n, epoch=0):
    return EventRecord(epoch, n, Stamped(Publication("p", 1, n, "T", b"x"), epoch, {"T": n}))


def begin(epoch):
    return EpochRecord(epoch, EpochNotice(epoch, {"T": 0}), (), ())


def filled(count, bytes_max=1000, begins=()):
    recent = Recent(bytes_max)
    for n in range(1, count + 1):
        recent.add("n1", n, begin(n) if n in begins else record(n), 10)
    return recent


def test_what_follows_a_sequence_is_known_from_there_on_or_not_at_all():
    recent = filled(5)
    assert recent.behind("n1", 2) == [record(3), record(4), record(5)]
    assert recent.behind("n1", 0) == [record(n) for n in range(1, 6)]
    assert recent.behind("n1", 5) == recent.behind("n2", 0) == []
    recent.keep(["n1"], lambda lane: 2)
    assert recent.behind("n1", 1) == []
    assert recent.behind("n1", 2) == [record(3), record(4), record(5)]
    recent.keep([], lambda lane: 0)
    assert recent.behind("n1", 2) == []


def test_after_a_gap_nothing_before_it_is_known():
    recent = filled(5)
    recent.add("n1", 3, record(3), 10)
    assert len(recent.behind("n1", 0)) == 5
    recent.add("n1", 8, record(8), 10)
    assert recent.behind("n1", 0) == recent.behind("n1", 4) == recent.behind("n1", 7) == []
    recent.add("n1", 9, begin(9), 10)  # lanes are read from the beginning of an epoch on
    recent.add("n1", 10, record(10), 10)
    assert recent.behind("n1", 7) == []
    assert recent.behind("n1", 8) == [begin(9), record(10)]


def test_of_too_much_the_newest_epoch_is_kept_and_of_that_all_or_nothing():
    recent = filled(10, bytes_max=100, begins=(2, 8))
    assert len(recent.behind("n1", 0)) == 10
    recent.add("n1", 11, record(11), 10)
    assert recent.behind("n1", 6) == []
    assert recent.behind("n1", 7) == [begin(8), record(9), record(10), record(11)]
    recent.add("n1", 12, record(12), 70)
    assert recent.behind("n1", 7) == []


class Watched(LocalStore):
    """Says what is read of it."""

    def __init__(self, shelf=None):
        super().__init__(1 << 20, shelf)
        self.fetched = []

    async def read(self, lane, after=0, limit=None):
        kept, end = await super().read(lane, after, limit)
        self.fetched.append(len(kept))
        return kept, end


async def answer_to(keeper, answers, effect):
    answers.clear()
    keeper.carry_out(effect)
    await until(lambda: answers)
    return answers[-1]


def test_a_lane_that_was_written_here_is_not_read_again():
    async def scenario():
        store, answers = Watched(), []
        keeper = Keeper(store, answers.append, 1 << 20, asyncio.get_running_loop().call_soon)
        for n in range(1, 101):
            await answer_to(keeper, answers, Append("n1", record(n), n - 1))
        store.append("n1", encode_record(SealRecord(1)))  # somebody else's
        answer = await answer_to(keeper, answers, Read("n1", 10))
        assert answer.records == (*(record(n) for n in range(11, 101)), SealRecord(1))
        assert (answer.tail, answer.after, answer.rest, answer.first) == (101, 10, 0, 11)
        assert store.fetched == [2]  # the last that was known, and the seal
        await keeper.close()

    run(scenario())


@pytest.mark.parametrize("lost", ["its end", "everything", "what it puts in its place"])
def test_a_store_that_has_lost_what_it_confirmed_is_believed(lost):
    async def scenario():
        shelf, answers = Shelf(), []
        keeper = Keeper(Watched(shelf), answers.append, 1 << 20, asyncio.get_running_loop().call_soon)
        for n in range(1, 11):
            await answer_to(keeper, answers, Append("n1", record(n), n - 1))
        other = LocalStore(1 << 20, shelf)
        await other.drop("n1")
        left = [record(n) for n in range(1, 6)] if lost != "everything" else []
        more = [SealRecord(1)] * 7 if lost.startswith("what") else []
        for one in (*left, *more):
            other.append("n1", encode_record(one))
        answer = await answer_to(keeper, answers, Read("n1", 0))
        assert list(answer.records) == [*left, *more]
        assert answer.tail == len(left) + len(more)
        await keeper.close()

    run(scenario())


def test_a_store_that_has_lost_the_last_before_seals_is_believed_though_all_seals_are_alike():
    async def scenario():
        shelf, answers = Shelf(), []
        keeper = Keeper(Watched(shelf), answers.append, 1 << 20, asyncio.get_running_loop().call_soon)
        for n in range(1, 6):
            await answer_to(keeper, answers, Append("n1", record(n), n - 1))
        for n in (6, 7):
            await answer_to(keeper, answers, Append("n1", SealRecord(1), n - 1))
        other = LocalStore(1 << 20, shelf)
        await other.drop("n1")
        left = [*(record(n) for n in range(1, 5)), *[SealRecord(1)] * 3]
        for one in left:
            other.append("n1", encode_record(one))
        assert list((await answer_to(keeper, answers, Read("n1", 0))).records) == left
        await keeper.close()

    run(scenario())


def test_a_large_beginning_counts_as_what_it_is_not_as_the_note_in_its_place():
    async def scenario():
        store, answers = LocalStore(1 << 16), []
        keeper = Keeper(store, answers.append, 1 << 16, asyncio.get_running_loop().call_soon)
        large = EpochRecord(1, EpochNotice(1, {f"topic.{n}": n for n in range(9000)}), (), ())
        await answer_to(keeper, answers, Append("n1", large, 0))
        assert keeper._recent._bytes == len(encode_record(large)) > 1 << 16
        await keeper.close()

    run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_whoever_knows_is_told_what_whoever_does_not_know_is_told(seed):
    async def scenario():
        random, shelf, answers, others = Random(seed), Shelf(), [], []
        soon = asyncio.get_running_loop().call_soon
        knows = Keeper(Watched(shelf), answers.append, 1 << 20, soon)
        asks = LocalStore(1 << 20, shelf)
        end = cut = 0
        for step in range(60):
            action = random.random()
            if action < 0.5:
                one = random.choice((record(step + 1), begin(step + 1)))
                told = await answer_to(knows, answers, Append("n1", one, None))
                assert isinstance(told, Appended)
                end = told.sequence
            elif action < 0.65:
                asks.append("n1", encode_record(SealRecord(step)))
                end += 1
            elif action < 0.75 and end > cut:
                cut = random.randint(cut, end - 1)
                await asks.truncate("n1", cut)
                knows._recent.keep(["n1"], lambda lane, cut=cut: cut)
            else:
                after = random.randint(cut, end)
                told = await answer_to(knows, answers, Read("n1", after))
                fresh = Keeper(asks, others.append, 1 << 20, soon)
                assert told == await answer_to(fresh, others, Read("n1", after))
        await knows.close()

    run(scenario())
