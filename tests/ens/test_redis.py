"""Redis streams and pub/sub pass the contract against a real server, and survive what happens to servers."""

import asyncio
import dataclasses
import logging

import pytest
from ens_kit import (
    close_while_the_server_is_away,
    connected,
    listen,
    load_across_a_restart,
    outage_with_a_full_outbox,
    refusal,
    somebody_else,
    until,
)

from unisono.ens.registry import open_service
from unisono.model.errors import ClosedError, GapError, UnconfirmedError
from unisono.testing import EnsContract
from unisono.testing.servers import free_port, redis_server


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


@pytest.fixture(scope="module")
def server():
    with redis_server() as running:
        yield running


class RedisContract(EnsContract):
    is_ordered = True
    options = ""

    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.url = server.url + self.options

    def make_service(self):
        service = open_service(self.url)
        # While nothing fails, nothing is lost either, whatever is promised: hold it to that.
        service._capabilities = dataclasses.replace(service.capabilities, reliable=True)
        return service


class TestStreams(RedisContract):
    pass


class TestPubSub(RedisContract):
    options = "?mode=pubsub"


@pytest.fixture(scope="module")
def fragile():
    """A server that tests may stop; never the one of the contract."""
    with redis_server() as running:
        yield running


def test_streams_lose_nothing_when_the_server_is_killed(fragile):
    published, heard, troubles = asyncio.run(load_across_a_restart(fragile.url, fragile))
    assert set(heard) == {
        *published,
        b"end",
    }  # what was sent twice, because an answer was lost, may be heard twice
    assert troubles == []


def test_pubsub_goes_on_after_a_restart_and_says_what_it_may_have_cost(fragile):
    published, heard, troubles = asyncio.run(load_across_a_restart(fragile.url + "?mode=pubsub", fragile))
    assert set(heard) - {b"end"} <= set(published)
    assert any(isinstance(t, GapError) and "Redis pub/sub keeps nothing" in str(t) for t in troubles)


@pytest.mark.parametrize("query", ["?", "?mode=pubsub&"])
def test_during_an_outage_frames_wait_up_to_a_bound(fragile, query):
    async def main():
        heard, taken = await outage_with_a_full_outbox(fragile.url + query, fragile)
        assert {int(frame) for frame in heard} <= set(range(taken))

    asyncio.run(main())


def test_closing_is_bounded_while_the_server_is_away(fragile):
    took_s, troubles = asyncio.run(close_while_the_server_is_away(fragile.url + "?", fragile))
    assert took_s < 2
    assert [type(t) for t in troubles] == [UnconfirmedError]


def test_an_end_to_reconnecting_closes_the_service(fragile):
    async def main():
        async with connected(f"{fragile.url}?max_reconnect=1&reconnect_wait=0.01") as service:
            fragile.stop()
            try:
                await until(lambda: service.troubles)
            finally:
                fragile.start()
            assert "attempts to connect failed" in str(service.troubles[0])
            with pytest.raises(ClosedError):
                service.publish(("t",), b"x")

    asyncio.run(main())


@pytest.mark.parametrize("query", ["", "?mode=pubsub"])
def test_patterns_that_are_one_glob_to_redis_are_told_apart(server, query):
    async def main():
        async with connected(server.url + query) as service:
            both = await listen(service, "glob.*", "glob.>")
            narrow = await listen(service, "glob.*")
            service.publish(("glob.a",), b"a")
            service.publish(("glob.a.b",), b"b")
            service.publish(("glob.[x]",), b"x")
            await until(lambda: both == [b"a", b"b", b"x"])
            assert narrow == [b"a", b"x"]

    asyncio.run(main())


def test_frames_trimmed_before_they_are_read_are_a_gap(fragile):
    async def main():
        async with connected(f"{fragile.url}?reconnect_wait=1") as reader:
            heard = await listen(reader, "trimmed")
            reader.publish(("trimmed",), b"first")
            await until(lambda: heard == [b"first"])
            fragile.restart()
            async with connected(f"{fragile.url}?maxlen=10") as writer:
                for n in range(1000):
                    writer.publish(("trimmed",), b"%d" % n)
                await writer.flush()
            await until(lambda: heard[-1:] == [b"999"])
            (gap,) = reader.troubles
            assert isinstance(gap, GapError)
            missing = 1001 - len(heard)
            assert missing > 0
            assert f"{missing} frames on 'trimmed' were trimmed" in str(gap)

    asyncio.run(main())


def test_a_server_that_forgets_is_a_gap():
    async def main(server):
        async with connected(server.url) as service:
            heard = await listen(service, "forgotten")
            for _ in range(3):
                service.publish(("forgotten",), b"before")
            await until(lambda: len(heard) == 3)
            server.restart()
            await until(lambda: service.troubles)
            assert "has forgotten the end of the stream of 'forgotten'" in str(service.troubles[0])
            service.publish(("forgotten",), b"after")
            await until(lambda: heard[-1] == b"after")

    with redis_server("--appendonly", "no") as server:
        asyncio.run(main(server))


def test_a_stream_that_is_deleted_under_our_feet_is_a_gap(server):
    async def main():
        async with connected(server.url) as service:
            heard = await listen(service, "deleted")
            service.publish(("deleted",), b"before")
            await until(lambda: heard == [b"before"])
            await service.writer.delete("u:deleted")
            await service.writer.script_flush()
            service.publish(("deleted",), b"after")
            await until(lambda: heard[-1] == b"after")
            assert "has forgotten the stream of 'deleted'" in str(service.troubles[0])

    asyncio.run(main())


def test_a_server_without_memory_makes_frames_wait_and_says_so(server):
    async def main():
        async with connected(server.url) as service:
            heard = await listen(service, "memory")
            await service.writer.config_set("maxmemory", "1")
            try:
                service.publish(("memory",), b"x")
                await until(lambda: service.troubles)
                assert "does not take frames, they wait" in str(service.troubles[0])
            finally:
                await service.writer.config_set("maxmemory", "0")
            await until(lambda: heard == [b"x"])

    asyncio.run(main())


def test_an_unreachable_server():
    port = free_port()
    says, took_s = refusal(f"redis://127.0.0.1:{port}")
    assert (
        says
        == f"no Redis server answers at 127.0.0.1:{port}; start one with `redis-server`, or use memory://"
    )
    assert took_s < 2


def test_a_port_that_belongs_to_something_else():
    with somebody_else() as port:
        says, took_s = refusal(f"redis://127.0.0.1:{port}")
    assert "is no Redis server" in says
    assert took_s < 4


def test_wrong_credentials():
    with redis_server("--requirepass", "secret") as server:
        where = server.url.removeprefix("redis://")
        assert "does not admit user 'default'" in refusal(f"redis://:wrong@{where}")[0]
        assert "does not admit user 'default'" in refusal(f"redis://{where}")[0]

        async def main():
            async with connected(f"redis://:secret@{where}") as service:
                await service.flush()

        asyncio.run(main())
