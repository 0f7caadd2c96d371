"""The store on Redis passes the contract against a real server, and names what happens to servers."""

import asyncio
import logging

import pytest
from ens_kit import connected, hung, until

from unisono.ens.registry import open_service
from unisono.ens.store import open_store
from unisono.model.errors import BackPressureError, ForgottenError, UnconfirmedError
from unisono.testing import StoreContract
from unisono.testing.servers import redis_server


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


@pytest.fixture(scope="module")
def server():
    """Restarted by tests; never shared with tests of another module."""
    with redis_server() as running:
        yield running


class RedisStoreContract(StoreContract):
    can_restart = True
    options = "?connect_timeout=0.5"

    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.server = server

    def make_service(self):
        return open_service(self.server.url + self.options)

    def restart_server(self):
        self.server.restart()

    def stop_server(self):
        self.server.stop()

    def start_server(self):
        self.server.start()


class TestStreams(RedisStoreContract):
    pass


class TestPubSub(RedisStoreContract):
    options = "?mode=pubsub&prefix={p}:"
    can_restart = False


@pytest.mark.parametrize("mode", ["streams", "pubsub"])
def test_changes_of_records_are_no_events(server, mode):
    async def main():
        async with connected(f"{server.url}?mode={mode}") as service:
            store, heard = await open_store(service), []
            await service.subscribe(frozenset({">"}), heard.append)
            await store.decide("key", b"x", 0)
            await store.append("lane", b"x")
            service.publish(("t",), b"event")
            await until(lambda: heard)
            assert heard == [b"event"]

    asyncio.run(main())


def test_a_redis_that_has_forgotten_says_so():
    with redis_server("--appendonly", "no") as server:

        async def main():
            async with connected(server.url) as service:
                store, told = await open_store(service), []
                for n in range(5):
                    await store.decide("other", b"x", n)
                await store.decide("key", b"old", 0)
                await store.watch("key", lambda *change: told.append(change))
                assert await store.append("lane", b"1", 0) == 1
                server.restart()
                with pytest.raises(ForgottenError, match=r"has forgotten all records and lanes.* appendonly"):
                    await _retry(lambda: store.append("lane", b"2", 1))
                assert await store.append("lane", b"2", 1) is None
                assert await store.append("lane", b"1", 0) == 1
                assert await store.decide("key", b"new", 0) == 1
                await until(lambda: told[-1] == (1, b"new"))
                assert any(isinstance(trouble, ForgottenError) for trouble in service.troubles)

        asyncio.run(main())


async def _retry(attempt):
    async with asyncio.timeout(15):
        while True:
            try:
                return await attempt()
            except (ConnectionError, UnconfirmedError):
                await asyncio.sleep(0.01)


def test_a_full_redis_says_so():
    with redis_server("--maxmemory", "3mb") as small:

        async def main():
            async with connected(small.url) as service:
                store = await open_store(service)
                with pytest.raises(ConnectionError, match="see its memory limit"):  # noqa: PT012
                    for _ in range(50):
                        await store.append("full", bytes(100_000))
                records, tail = await store.read("full")
                assert [sequence for sequence, _ in records] == list(range(1, tail + 1))

        asyncio.run(main())


def test_more_than_the_outbox_holds_is_refused(server):
    async def main():
        async with connected(server.url + "?outbox=100") as service:
            store = await open_store(service)
            with pytest.raises(BackPressureError, match="records wait for redis://"):  # noqa: PT012
                for _ in range(1000):
                    store.append("much", b"x")

    asyncio.run(main())


def test_a_server_that_hangs_is_given_up_on_in_time(server):
    async def main():
        async with connected(server.url + "?store_timeout=0.5&prefix=hang:") as service:
            store = await open_store(service)
            assert await store.append("lane", b"0") == 1
            with hung(server):
                loop = asyncio.get_running_loop()
                start = loop.time()
                stored = [store.append("lane", b"%d" % n, n) for n in range(1, 10)]
                for future in stored:
                    with pytest.raises(UnconfirmedError, match="did not answer within 0\\.5 s"):
                        await future
                with pytest.raises((UnconfirmedError, ConnectionError)):
                    await store.look("key")
                assert loop.time() - start < 4

    asyncio.run(main())


def test_a_local_store_beside_redis(server):
    async def main():
        async with connected(server.url + "?store=local") as service:
            store = await open_store(service)
            assert not store.shared
            assert await store.append("lane", b"x", 0) == 1

    asyncio.run(main())
