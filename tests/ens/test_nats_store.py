"""The store on JetStream passes the contract against a real server, and names what happens to servers."""

import asyncio
import logging

import pytest
from ens_kit import connected, hung, until

from unisono.ens.nats_api import ask
from unisono.ens.nats_store import stream_name
from unisono.ens.registry import open_service
from unisono.ens.store import open_store
from unisono.model.errors import BackPressureError, ConfigError, ForgottenError, UnconfirmedError
from unisono.server.auth import NODE, User, client_permissions, node_permissions, users_configuration
from unisono.testing import StoreContract
from unisono.testing.servers import nats_server


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "unisono")


@pytest.fixture(scope="module")
def server():
    """Restarted by tests; never shared with tests of another module."""
    with nats_server(jetstream=True) as running:
        yield running


class NatsStoreContract(StoreContract):
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


class TestFile(NatsStoreContract):
    pass


class TestMemoryLanes(NatsStoreContract):
    options = "?durability=memory&prefix=mem.&bucket=mem&connect_timeout=0.5"
    survives_a_restart = False


class TestBesideAStreamOfEvents(NatsStoreContract):
    options = "?jetstream=EVENTS&prefix=beside."
    can_restart = False


def test_stream_names_are_told_apart():
    names = ["a.b", "a_b", "a-b", "a_2Eb", "A.b", "ü", "é" * 120, "é" * 120 + "x", "lane.a", "a"]
    streams = {stream_name(prefix, name) for name in names for prefix in ("u.", "u.lane.", "u_lane.")}
    assert len(streams) == 3 * len(names)
    assert stream_name("u.", "orders.eu") == "u_lane_orders_2Eeu"
    assert max(len(stream) for stream in streams) <= 200


def test_a_lane_in_memory_that_is_gone_is_named_and_made_anew(server):
    async def main():
        async with connected(server.url + "?durability=memory&prefix=gone.&bucket=gone") as service:
            store = await open_store(service)
            for lane in ("a", "b"):
                assert await store.append(lane, b"1", 0) == 1
            assert (await store.read("b"))[1] == 1
            links = []
            service.on_link.append(links.append)
            server.restart()
            await until(lambda: links[-1:] == [True])
            with pytest.raises(
                ForgottenError, match=r"the lane 'a' of nats://.* is gone: it was dropped, or"
            ):
                await store.append("a", b"2", 1)
            assert await store.append("a", b"2", 1) is None
            assert await store.append("a", b"1 again", 0) == 1
            with pytest.raises(ForgottenError, match="the lane 'b'"):
                await store.read("b")
            assert await store.read("b") == ([], 0)

    asyncio.run(main())


def test_a_lane_dropped_by_another_is_named(server):
    async def main():
        async with connected(server.url) as one, connected(server.url) as two:
            store, other = await open_store(one), await open_store(two)
            assert await store.append("dropped", b"1") == 1
            await other.drop("dropped")
            with pytest.raises(ConnectionError, match=r"no stream at nats://.* takes 'u-lane\.dropped' now"):
                await store.append("dropped", b"2", 1)
            with pytest.raises(ForgottenError, match="the lane 'dropped'"):
                await store.append("dropped", b"2", 1)
            assert await store.append("dropped", b"2", 1) is None
            assert await store.append("dropped", b"1", 0) == 1

    asyncio.run(main())


def test_a_bucket_that_is_gone_is_named_and_made_anew(server):
    async def main():
        async with connected(server.url + "?bucket=gone&heartbeat=0.2") as service:
            store, told = await open_store(service), []
            for n in range(5):
                await store.decide("other", b"x", n)
            assert await store.decide("key", b"old", 0) == 6
            watch = await store.watch("key", lambda *change: told.append(change))
            await until(lambda: told)
            await service.client.jetstream().delete_stream("KV_gone")
            with pytest.raises(ForgottenError, match="the bucket 'gone' was gone"):
                await store.decide("key", b"new", 0)
            assert await store.look("key") is None
            assert await store.decide("key", b"new", 0) == 1
            await until(lambda: told[-1] == (1, b"new"), within_s=20)
            assert any(isinstance(t, ForgottenError) for t in service.troubles)
            await watch.close()

    asyncio.run(main())


def test_a_record_deleted_by_other_tools_can_be_made_again(server):
    async def main():
        async with connected(server.url) as service:
            store = await open_store(service)
            revision = await store.decide("tool", b"x", 0)
            bucket = await service.client.jetstream().key_value("unisono")
            assert (await bucket.get("u.tool")).value == b"x"
            await bucket.delete("u.tool")
            assert await store.look("tool") is None
            assert await store.decide("tool", b"y", revision) is None
            assert await store.decide("tool", b"y", 0) > revision

    asyncio.run(main())


def test_a_stream_that_holds_something_else_is_not_touched(server):
    async def main():
        async with connected(server.url) as service:
            store = await open_store(service)
            name = stream_name("u.", "taken")
            await service.client.jetstream().add_stream(name=name, subjects=["something.else"])
            with pytest.raises(
                ConfigError, match=r"holds something\.else, not 'u-lane\.taken'; say another prefix="
            ):
                await store.append("taken", b"x")

    asyncio.run(main())


def test_nodes_may_use_it_with_the_rights_of_nodes():
    rights = [
        User(NODE, "secret", node_permissions("u.")),
        User("desk", "x", client_permissions("u.", "desk")),
    ]
    with nats_server(jetstream=True, config=users_configuration(rights)) as strict:
        where = strict.url.removeprefix("nats://")

        async def main():
            async with connected(f"nats://node:secret@{where}?inbox=_INBOX.node") as service:
                store, told = await open_store(service), []
                await store.watch("control", lambda *change: told.append(change))
                assert await store.decide("control", b"x", 0) == 1
                assert await store.look("control") == (1, b"x")
                assert await asyncio.gather(*(store.append("lane", b"x", n) for n in range(5))) == [
                    1,
                    2,
                    3,
                    4,
                    5,
                ]
                await store.truncate("lane", 4)
                assert await store.read("lane") == ([(5, b"x")], 5)
                assert await store.lanes() == ["lane"]
                await until(lambda: told == [(1, b"x")])
                await store.drop("lane")
                assert service.troubles == []
            async with connected(f"nats://desk:x@{where}?inbox=_INBOX.desk&store_timeout=0.2") as service:
                with pytest.raises((ConnectionError, UnconfirmedError)):
                    await open_store(service)

        asyncio.run(main())


def test_a_server_without_jetstream_says_what_to_do():
    async def main():
        with nats_server() as plain:
            async with connected(plain.url) as service:
                with pytest.raises(ConnectionError, match=r"`nats-server -js`.* store=local in the URL"):
                    await open_store(service)
            async with connected(plain.url + "?store=local") as service:
                store = await open_store(service)
                assert not store.shared
                assert await store.append("lane", b"x", 0) == 1

    asyncio.run(main())


def test_replicas_without_a_cluster_are_refused_by_name(server):
    async def main():
        async with connected(server.url + "?durability=replicated&bucket=three") as service:
            with pytest.raises(ConnectionError, match="durability=replicated and replicas= need a cluster"):
                await open_store(service)

    asyncio.run(main())


def test_a_full_server_says_so(tmp_path):
    limits = f'jetstream {{ store_dir: "{tmp_path}", max_mem: 10MB, max_file: 1MB }}'
    with nats_server(config=limits) as small:

        async def main():
            async with connected(small.url + "?durability=disk") as service:
                store = await open_store(service)
                with pytest.raises(ConnectionError, match=r"did not store a record: .*truncate lanes"):  # noqa: PT012
                    for _ in range(30):
                        await store.append("full", bytes(100_000))
                await store.truncate("full", 5)

        asyncio.run(main())


def test_more_than_the_outbox_holds_is_refused(server):
    async def main():
        async with connected(server.url + "?outbox=100") as service:
            store = await open_store(service)
            with pytest.raises(BackPressureError, match="records wait for nats://"):  # noqa: PT012
                for _ in range(1000):
                    store.append("much", b"x")

    asyncio.run(main())


def test_a_server_that_hangs_is_given_up_on_in_time(server):
    async def main():
        async with connected(server.url + "?store_timeout=0.5&prefix=hang.") as service:
            store = await open_store(service)
            assert await store.append("lane", b"0") == 1
            with hung(server):
                loop = asyncio.get_running_loop()
                start = loop.time()
                stored = [store.append("lane", b"%d" % n, n) for n in range(1, 10)]
                for future in stored:
                    with pytest.raises(UnconfirmedError, match="may be stored or not"):
                        await future
                with pytest.raises(UnconfirmedError, match=r"did not answer within 0\.5 s"):
                    await store.look("key")
                assert loop.time() - start < 3

    asyncio.run(main())


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("bucket=a.b", "option bucket='a.b'; it is letters"),
        ("durability=tape", "option durability='tape' will not do"),
        ("store=shop", "option store='shop' will not do"),
        ("store_timeout=0", "option store_timeout='0' will not do"),
    ],
)
def test_bad_options_are_refused_by_name(query, says):
    with pytest.raises(ConfigError, match=says):
        open_service(f"nats://h?{query}")


@pytest.mark.parametrize(("storage", "level"), [("memory", "memory"), ("file", "disk")])
def test_the_level_of_a_store_that_the_release_before_has_made(server, storage, level):
    """It did not write it down, but its lanes show it."""

    async def scenario():
        old = f"old{storage}"
        async with connected(f"{server.url}?bucket={old}&prefix={old}.") as service:
            await ask(service, f"STREAM.CREATE.KV_{old}", name=f"KV_{old}", subjects=[f"$KV.{old}.>"])
            lane = {"name": f"{old}_lane_n1", "subjects": [f"{old}-lane.n1"], "storage": storage}
            await ask(service, f"STREAM.CREATE.{old}_lane_n1", **lane)
            assert (await open_store(service)).durability == level

    asyncio.run(scenario())
