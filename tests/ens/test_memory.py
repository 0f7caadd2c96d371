"""The memory service passes the contract, well-behaved or not; and refuses URLs it does not understand."""

import asyncio
import gc
import logging
import weakref

import pytest

import unisono
from unisono.ens.memory import MemoryService, Misbehaviour, open_memory
from unisono.ens.registry import open_service
from unisono.model.errors import ClosedError, ConfigError
from unisono.testing import EnsContract


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


class MemoryContract(EnsContract):
    quiet_s = 0.02
    misbehaviour = Misbehaviour()

    def make_service(self):
        if not hasattr(self, "_service"):
            self._service = MemoryService(self.misbehaviour)
        return _Connection(self._service)


class _Connection:
    """Several users of one memory service, each with its own close, as several buses are."""

    def __init__(self, service):
        self._service = service

    @property
    def capabilities(self):
        return self._service.capabilities

    async def connect(self):
        await self._service.connect()

    async def subscribe(self, topics, notify, *, with_topic=False):
        return await self._service.subscribe(topics, notify, with_topic=with_topic)

    async def change(self, interest, topics):
        await self._service.change(interest, topics)

    async def unsubscribe(self, interest):
        await self._service.unsubscribe(interest)

    def publish(self, topics, frame):
        self._service.publish(topics, frame)

    async def flush(self):
        await self._service.flush()

    async def close(self):
        await self._service.close()


class TestWellBehaved(MemoryContract):
    is_ordered = True


class TestJittered(MemoryContract):
    misbehaviour = Misbehaviour(jitter_ms=5, seed=1)


class TestDuplicating(MemoryContract):
    misbehaviour = Misbehaviour(jitter_ms=5, duplicate=0.3, seed=2)
    may_duplicate = True


class TestLossy(MemoryContract):
    misbehaviour = Misbehaviour(jitter_ms=5, loss=0.3, duplicate=0.3, seed=3)
    may_duplicate = True


def test_the_suite_catches_a_service_that_tells_everybody():
    class Gossip(MemoryService):
        def publish(self, topics, frame):
            super().publish(tuple(self._by_topic), frame)

    class Suite(MemoryContract):
        def make_service(self):
            return Gossip()

    with pytest.raises(AssertionError, match="never meant for it"):
        Suite().test_publish_reaches_every_subscriber_of_the_topic_and_nobody_else()


def test_the_suite_catches_a_reliable_service_that_loses():
    class Leaky(MemoryService):
        @property
        def capabilities(self):
            return MemoryService().capabilities

    class Suite(MemoryContract):
        patience_s = 0.05

        def make_service(self):
            return Leaky(Misbehaviour(loss=1))

    with pytest.raises(AssertionError, match="never heard"):
        Suite().test_many_frames_in_a_row()


def test_the_suite_catches_a_service_that_doubles():
    class Suite(MemoryContract):
        misbehaviour = Misbehaviour(duplicate=1)

    with pytest.raises(AssertionError, match="more often than published"):
        Suite().test_frames_are_opaque()


def test_the_suite_asks_for_a_service():
    with pytest.raises(NotImplementedError, match="override make_service"):
        EnsContract().make_service()


def test_the_seed_decides_what_is_lost():
    async def heard(seed):
        service, frames = MemoryService(Misbehaviour(loss=0.5, seed=seed)), []
        await service.connect()
        await service.subscribe(frozenset({"t"}), frames.append)
        for n in range(100):
            service.publish(("t",), n)
        await service.flush()
        await service.close()
        return sorted(frames)

    first, again, other = asyncio.run(heard(1)), asyncio.run(heard(1)), asyncio.run(heard(2))
    assert first == again != other


def test_flush_waits_for_what_is_under_way():
    async def main():
        service, frames = MemoryService(Misbehaviour(jitter_ms=20)), []
        await service.connect()
        await service.subscribe(frozenset({"t"}), frames.append)
        for n in range(50):
            service.publish(("t",), n)
        await service.flush()
        assert sorted(frames) == list(range(50))
        await service.close()

    asyncio.run(main())


def test_many_frames_under_way_cost_no_more_each_than_few():
    async def main():
        service = MemoryService(Misbehaviour(jitter_ms=60_000))
        await service.connect()
        await service.subscribe(frozenset({"t"}), lambda frame: None)
        loop = asyncio.get_running_loop()
        start = loop.time()
        for n in range(20_000):
            service.publish(("t",), n)
        assert loop.time() - start < 5  # it was quadratic once: minutes
        await service.close()

    asyncio.run(main())


def test_closing_takes_along_what_is_under_way():
    async def main():
        service, frames = MemoryService(Misbehaviour(jitter_ms=10)), []
        await service.connect()
        await service.subscribe(frozenset({"t"}), frames.append)
        service.publish(("t",), 1)
        await service.close()
        await asyncio.sleep(0.02)
        assert frames == []
        with pytest.raises(ClosedError):
            await service.subscribe(frozenset({"t"}), frames.append)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no scheme; try 'memory://'"),
        ("memory", "no scheme"),
        ("carrier-pigeon://coop", "no transport for 'carrier-pigeon://'; this version serves memory://"),
        ("memory://?speed=9", "no option 'speed'; it has jitter_ms, loss, duplicate and seed"),
        ("memory://?loss=much", "loss='much' is not a number"),
        ("memory://?loss=", "loss='' is not a number"),
        ("memory://?loss=2", "share between 0 and 1"),
        ("memory://?loss=nan", "share between 0 and 1"),
        ("memory://?duplicate=-0.1", "share between 0 and 1"),
        ("memory://?jitter_ms=-1", "between 0 and 60000"),
        ("memory://?jitter_ms=inf", "between 0 and 60000"),
        ("memory://?seed=nan", "seed='nan' is not a whole number"),
        ("memory://?seed=1.5", "seed='1.5' is not a whole number"),
        ("memory://?loss=0.1&loss=0.2", "gives an option twice"),
        ("memory://?loss", "not a URL"),
        ("memory://x#y", "has a fragment, '#y'"),
        ("memory://[", "not a URL"),
        (None, "a URL is a string, not NoneType"),
        (7, "a URL is a string, not int"),
    ],
)
def test_bad_urls_are_refused_by_name(url, says):
    with pytest.raises(ConfigError) as refused:
        unisono.connect(url)
    assert says in str(refused.value)


def test_a_name_is_shared_and_a_nameless_service_is_not():
    assert open_service("memory://here") is open_service("memory://here/")
    assert open_service("memory://") is not open_service("memory://")


def test_a_shared_name_has_one_set_of_options():
    first = open_memory("one-set", {"seed": "1"})
    with pytest.raises(ConfigError, match="already open with other options"):
        open_memory("one-set", {"seed": "2"})

    async def come_and_go():
        await first.connect()
        await first.close()

    asyncio.run(come_and_go())
    assert open_memory("one-set", {"seed": "2"}) is not first  # everybody had left


def test_a_service_that_nobody_uses_is_forgotten():
    async def main():
        bus = unisono.connect("memory://forgotten")
        async with bus, bus.subscribe("t") as events:
            await bus.publish("t", b"x")
            await events.get_one(timeout=1)
        return weakref.ref(bus._service)

    service = asyncio.run(main())
    gc.collect()
    assert service() is None


# Patterns, and interests that change.


def publish(service, *topics):
    """A frame on each topic, which names it."""
    for topic in topics:
        service.publish((topic,), topic)


def test_a_pattern_hears_what_it_stands_for_and_each_frame_once():
    async def main():
        service, got = MemoryService(), []
        await service.connect()
        interest = await service.subscribe(frozenset({"a.*", "a.>", "a.b", "c"}), got.append)
        publish(service, "a", "a.b", "a.b.c", "c", "d.b")
        assert got == ["a.b", "a.b.c", "c"]
        service.publish(("a.b", "c", "a.x"), "many")
        assert got[3:] == ["many"]
        await service.unsubscribe(interest)
        publish(service, "a.b", "c")
        assert len(got) == 4
        assert not service._by_topic
        assert not service._by_pattern

    asyncio.run(main())


def test_a_changed_interest_misses_and_doubles_nothing():
    async def main():
        service, got = MemoryService(), []
        await service.connect()
        interest = await service.subscribe(frozenset({"stays", "goes"}), got.append)
        await service.change(interest, frozenset({"stays", "new", "p.*"}))
        assert interest.topics == {"stays", "new", "p.*"}
        publish(service, "stays", "goes", "new", "p.x")
        assert got == ["stays", "new", "p.x"]
        await service.change(interest, frozenset({"stays"}))
        publish(service, "stays", "p.x")
        assert got == ["stays", "new", "p.x", "stays"]
        await service.unsubscribe(interest)
        await service.change(interest, frozenset({"stays"}))  # too late
        publish(service, "stays")
        assert len(got) == 4

    asyncio.run(main())


def test_what_is_under_way_survives_a_change():
    async def main():
        service, got = MemoryService(Misbehaviour(jitter_ms=5)), []
        await service.connect()
        interest = await service.subscribe(frozenset({"a", "b"}), got.append)
        publish(service, *["a", "b"] * 10)
        await service.change(interest, frozenset({"a", "c"}))
        await service.flush()
        assert got.count("a") == 10

    asyncio.run(main())


def test_which_patterns_a_topic_matches_is_remembered_for_so_many(monkeypatch):
    monkeypatch.setattr("unisono.ens.memory.MATCHED_TOPICS_MAX", 10)

    async def main():
        service, got = MemoryService(), []
        await service.connect()
        interest = await service.subscribe(frozenset({"a.*"}), got.append)
        publish(service, *(f"a.{n}" for n in range(100)))
        assert len(got) == 100
        assert len(service._matched) <= 10
        await service.unsubscribe(interest)
        assert not service._matched

    asyncio.run(main())
