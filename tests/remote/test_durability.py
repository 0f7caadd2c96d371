"""What stored means: the level is chosen once, told to clients, and kept when a server is killed."""

import asyncio
import subprocess
from contextlib import AsyncExitStack, suppress

import pytest
from load_kit import under_load
from remote_kit import QUICK, connect, nodes, run, take
from zombie_kit import sealed_under_load

from unisono import ConfigError, UnconfirmedError
from unisono.ens.registry import open_service
from unisono.model.codec import decode_record
from unisono.model.errors import ForgottenError
from unisono.model.lanes import events_of
from unisono.runtime.remote.node import Node
from unisono.server import BundledServer, ServerSettings
from unisono.testing.servers import nats_server, redis_server


def refused(url, match, **options):
    async def scenario():
        with pytest.raises(ConfigError, match=match):
            async with connect(url, **options):
                pass

    return scenario()


@pytest.mark.parametrize("level", ["memory", "disk"])
def test_clients_are_told_and_refuse_less_than_they_want(nats_broker, level):
    url = f"{nats_broker.url}?prefix=level-{level}.&bucket=level-{level}"

    async def scenario():
        async with nodes(f"{url}&durability={level}", "n1"):
            async with connect(url) as bus:
                assert bus.durability == level
            async with connect(f"{url}&durability=memory", durability=level) as bus:
                await bus.publish("orders", 1)
            await refused(url, f"more than this system offers.*'{level}'", durability="replicated")
            await refused(f"{url}&durability=replicated", f"more than this system offers.*'{level}'")

    run(scenario())


def test_the_first_node_decides_and_others_go_along_or_are_refused(nats_broker):
    url = f"{nats_broker.url}?prefix=first.&bucket=first"

    async def scenario():
        async with nodes(f"{url}&durability=memory", "n1"), nodes(url, "n2") as [other]:
            assert other.durability == "memory"
            with pytest.raises(ConfigError, match="durability=memory, not disk: say that, or nothing"):
                async with Node(open_service(f"{url}&durability=disk"), "n3", QUICK):
                    pass

    run(scenario())


def test_on_redis_it_is_what_redis_does(redis_broker):
    async def scenario():
        url = f"{redis_broker.url}?prefix=aof:"
        async with nodes(f"{url}&durability=disk", "n1"), connect(url, durability="disk") as bus:
            assert bus.durability == "disk"
        with pytest.raises(ConfigError, match="does not wait for replicas"):
            async with Node(open_service(f"{redis_broker.url}?durability=replicated"), "n1", QUICK):
                pass
        with redis_server("--appendonly", "no") as forgetful:
            with pytest.raises(ConfigError, match="set 'appendonly yes' at Redis"):
                async with Node(open_service(f"{forgetful.url}?durability=disk"), "n1", QUICK):
                    pass
            async with nodes(forgetful.url, "n1"):
                await refused(forgetful.url, "durability='memory'", durability="disk")

    run(scenario())


def test_on_mqtt_and_in_one_process_nothing_is_kept(mqtt_broker):
    async def scenario():
        url = f"{mqtt_broker.url}?prefix=none/"
        async with nodes(url, "n1"):
            await refused(url, "durability='none'", durability="memory")
            async with connect(url) as bus:
                assert bus.durability == "none"
        await refused("memory://", "keeps nothing beyond this process", durability="memory")

    run(scenario())


async def published_and_killed(server, url, count=200):
    """Publish, kill the server right after the last confirmation, and return what a node finds afterwards."""
    async with nodes(url, "n1") as [node], connect(url, "p") as bus:
        receipts = await bus.publish_many([("orders", n) for n in range(count)])
        await asyncio.to_thread(server.restart, kill=True)
        assert (await bus.publish("orders", count)).stamp["orders"] == receipts[-1].stamp["orders"] + 1
        assert node.control.live == ("n1",)
    store = None
    service = open_service(url)
    await service.connect()
    try:
        store = service.store()
        await store.open()
        return [record async for record in _records(store)]
    finally:
        await service.close()


async def _records(store):
    for lane in await store.lanes():
        for _, record in (await store.read(lane))[0]:
            yield record


def test_a_server_on_disk_that_is_killed_has_everything_it_confirmed():
    with nats_server(jetstream=True) as server:
        kept = run(published_and_killed(server, server.url))
    assert sum(len(events_of(decode_record(record))) for record in kept) >= 201


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_redis_that_is_killed_has_everything_it_confirmed(fsync):
    """Every second: true unless the disk was still busy with the second before."""
    with redis_server("--appendfsync", fsync) as server:
        kept = run(published_and_killed(server, server.url))
    assert sum(len(events_of(decode_record(record))) for record in kept) >= 201


def test_redis_itself_refuses_what_a_sealed_writer_appends(redis_broker):
    async def scenario():
        for n in range(3):
            url = f"{redis_broker.url}?prefix=zombie{n}:"
            confirmed, counted, behind = await sealed_under_load(url, "n1", seconds=0.1)
            assert confirmed == list(range(1, len(confirmed) + 1))
            assert counted == list(range(1, len(counted) + 1))
            assert len(counted) >= len(confirmed)
            assert behind == 0

    run(scenario())


def test_lanes_in_memory_are_gone_with_the_server_and_everybody_says_so():
    async def scenario():
        with nats_server(jetstream=True) as server:
            url = f"{server.url}?durability=memory"
            async with nodes(url, "n1") as [node], AsyncExitStack() as stack:
                bus = await stack.enter_async_context(connect(url, "p", publish_timeout=2))
                events = await stack.enter_async_context(bus.subscribe("orders"))
                await bus.publish("orders", 1)
                await take(events, 1)
                await asyncio.to_thread(server.restart, kill=True)
                with pytest.raises(ForgottenError, match="what was acknowledged is lost"):
                    await asyncio.wait_for(node.run(), 15)
                with pytest.raises(UnconfirmedError):
                    await bus.publish("orders", 2)  # whoever has failed confirms nothing more
                await node.close()
                async with nodes(url, "n1") as [again]:
                    assert again.durability == "memory"
                    with pytest.raises(ForgottenError, match="subscribe again"):
                        await take(events, 1, timeout=10)

    run(scenario())


def test_lanes_in_memory_survive_all_nodes_at_once(nats_url):
    async def scenario():
        async with (
            nodes(nats_url, "n1", "n2") as started,
            connect(nats_url, "p") as bus,
            bus.subscribe("orders") as events,
        ):
            await bus.publish_many([("orders", n) for n in range(100)])
            for node in started:
                await node.close()
            async with nodes(nats_url, "n3"):
                receipt = await bus.publish("orders", 100)
                assert receipt.stamp["orders"] == 101
                assert [event.data for event in await take(events, 101)] == list(range(101))

    run(scenario())


def test_lanes_in_memory_survive_nodes(nats_url):
    async def scenario():
        async with under_load(nats_url, "n1", "n2") as [first, _]:
            await first.close()

    run(scenario())


def test_a_full_disk_is_named_costs_nothing_and_is_over_when_there_is_room(tmp_path):
    async def scenario():
        settings = ServerSettings(data=tmp_path, max_store=4 * 1024 * 1024)
        async with (
            BundledServer(settings) as server,
            nodes(server.url, "n1") as [node],
            connect(server.url, "p", publish_timeout=1.5) as bus,
            bus.subscribe("orders") as events,
        ):
            js = node.service.client.jetstream()
            await js.add_stream(name="ballast", subjects=["ballast"])
            for _ in range(30):
                await js.publish("ballast", bytes(100_000))
            sent, why = 0, ""
            while not why:
                try:
                    await bus.publish("orders", f"{sent}".ljust(20_000), id=f"e{sent}")
                    sent += 1
                except UnconfirmedError as error:
                    why = str(error)
            assert 10 < sent < 200
            assert "node 'n1' says: " in why
            assert "out of memory or disk; raise its limits" in why
            await js.delete_stream("ballast")
            async with asyncio.timeout(20):
                receipt = None
                while receipt is None:
                    with suppress(UnconfirmedError):
                        receipt = await bus.publish("orders", f"{sent}".ljust(20_000), id=f"e{sent}")
            heard = await take(events, sent + 1)
            assert [event.id for event in heard] == [f"e{n}" for n in range(sent + 1)]

    run(scenario())


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 12 MB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only the administrator can mount a small disk")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.durability
def test_a_disk_that_others_have_filled_costs_nothing_and_the_server_goes_on_when_there_is_room(small_disk):
    async def scenario():
        said = []
        settings = ServerSettings(data=small_disk / "data", max_store=64 * 1024 * 1024)
        async with (
            BundledServer(settings, on_trouble=said.append) as server,
            nodes(server.url, "n1"),
            connect(server.url, "p", publish_timeout=3) as bus,
            bus.subscribe("orders") as events,
        ):
            (small_disk / "ballast").write_bytes(bytes(6_000_000))
            sent, why = 0, ""
            while not why:
                try:
                    await bus.publish("orders", f"{sent}".ljust(20_000), id=f"e{sent}")
                    sent += 1
                except UnconfirmedError as error:
                    why = str(error)
            assert sent > 10
            assert "the broker has confirmed no record for" in why
            assert any("is full, nothing is stored; free some space" in str(error) for error in said)
            (small_disk / "ballast").unlink()
            async with asyncio.timeout(30):
                receipt = None
                while receipt is None:
                    with suppress(UnconfirmedError):
                        receipt = await bus.publish("orders", f"{sent}".ljust(20_000), id=f"e{sent}")
            heard = await take(events, sent + 1)
            assert [event.id for event in heard] == [f"e{n}" for n in range(sent + 1)]
            assert server.restarts == 1

    run(scenario())
