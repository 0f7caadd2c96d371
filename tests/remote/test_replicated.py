"""Lanes on three servers: a writer that was sealed changes nothing, and a server that dies costs nothing.

The quick ones run with `make test`; what needs elections, which take the servers seconds, with `make durability`.
"""

import asyncio
import shutil
from contextlib import asynccontextmanager, suppress

import pytest
from load_kit import under_load
from remote_kit import connect, nodes, run
from zombie_kit import seal, sealed_under_load, store_at, view

from unisono import UnconfirmedError
from unisono.ens.nats_api import ask
from unisono.ens.nats_store import stream_name
from unisono.server import BundledCluster, ServerSettings

BOUND_S = 180.0


@asynccontextmanager
async def cluster_at(tmp_path):
    async with BundledCluster(ServerSettings(data=tmp_path)) as cluster:
        yield cluster, f"{cluster.url}?durability=replicated"


def check_prefix(confirmed, counted):
    """A reader counts every record that was confirmed, and none out of its row."""
    assert confirmed == list(range(1, len(confirmed) + 1))
    assert counted == list(range(1, len(counted) + 1))
    assert len(counted) >= len(confirmed)


def test_what_a_sealed_writer_stores_on_three_servers_does_not_count(tmp_path):
    async def scenario():
        zombies = 0
        async with cluster_at(tmp_path) as (_, url):
            for n in range(3):
                confirmed, counted, behind = await sealed_under_load(url, f"n{n}", seconds=0.1)
                check_prefix(confirmed, counted)
                zombies += behind
            async with store_at(url) as store:
                assert store.durability == "replicated"
                info = await ask(store._service, f"STREAM.INFO.{stream_name('u.', 'n0')}")
                bucket = await ask(store._service, f"STREAM.INFO.{store.bucket}")
            assert info["config"]["num_replicas"] == bucket["config"]["num_replicas"] == 3
        assert zombies, "somebody was to store records behind the seal"

    run(scenario(), BOUND_S)


async def step_down(url, lane):
    async with store_at(url) as store:
        await ask(store._service, f"STREAM.LEADER.STEPDOWN.{stream_name('u.', lane)}")


@pytest.mark.durability
@pytest.mark.parametrize("what", ["step down", "kill the leader", "kill a follower", "stop the leader"])
def test_a_writer_is_sealed_while_servers_change(tmp_path, what):
    async def scenario():
        async with cluster_at(tmp_path) as (cluster, url):
            for n in range(3):
                lane = f"n{n}"

                async def happens(lane=lane):
                    if what == "step down":
                        await step_down(url, lane)
                        return
                    leader = await cluster.stream_leader(stream_name("u.", lane))
                    followers = [name for name in cluster.running if name != leader]
                    gone = followers[0] if "follower" in what else leader
                    await (cluster.stop_server if "stop" in what else cluster.kill)(gone)

                confirmed, counted, _ = await sealed_under_load(url, lane, happens)
                check_prefix(confirmed, counted)
                for name, server in cluster.members.items():
                    if not server.is_ready:
                        await cluster.start_server(name)
                async with store_at(url) as store:  # the server that was away has not brought anything back
                    assert (await view(store, lane))[0] == counted
                    assert await seal(store, lane)

    run(scenario(), BOUND_S)


@pytest.mark.durability
@pytest.mark.parametrize("what", ["leader", "follower", "leader of the control record"])
def test_a_server_is_killed_under_load_and_comes_back(tmp_path, what):
    async def scenario():
        async with cluster_at(tmp_path) as (cluster, url), under_load(url, "n1", "n2") as started:
            lane = started[0].control.lanes[0]
            stream = "KV_unisono" if "record" in what else stream_name("u.", lane)
            leader = await cluster.stream_leader(stream)
            followers = [name for name in cluster.running if name != leader]
            gone = followers[0] if what == "follower" else leader
            await cluster.kill(gone)
            await asyncio.sleep(1)
            await cluster.start_server(gone)

    run(scenario(), BOUND_S)


@pytest.mark.durability
def test_all_servers_are_restarted_one_after_the_other_under_load(tmp_path):
    async def scenario():
        async with cluster_at(tmp_path) as (cluster, url), under_load(url, "n1", "n2"):
            for name in list(cluster.members):
                await cluster.restart_server(name)

    run(scenario(), BOUND_S)


@pytest.mark.durability
def test_all_servers_are_killed_at_once_and_everything_acknowledged_is_there(tmp_path):
    async def scenario():
        async with cluster_at(tmp_path) as (cluster, url), under_load(url, "n1", "n2"):
            await asyncio.gather(*(cluster.kill(name) for name in cluster.members))
            await asyncio.gather(*(server.start() for server in cluster.members.values()))
            await cluster.wait_for_leader()

    run(scenario(), BOUND_S)


@pytest.mark.durability
def test_without_most_servers_nothing_is_confirmed_and_nothing_is_lost(tmp_path):
    async def scenario():
        async with (
            cluster_at(tmp_path) as (cluster, url),
            nodes(url, "n1"),
            connect(url, "p", publish_timeout=3) as bus,
        ):
            await bus.publish("orders", 1)
            await cluster.kill("s1")
            await cluster.kill("s2")
            with pytest.raises(UnconfirmedError):
                await bus.publish("orders", 2, id="second")
            await asyncio.gather(cluster.members["s1"].start(), cluster.members["s2"].start())
            async with asyncio.timeout(60):
                receipt = None
                while receipt is None:
                    with suppress(UnconfirmedError):
                        receipt = await bus.publish("orders", 2, id="second")
            assert receipt.stamp == {"orders": 2}

    run(scenario(), BOUND_S)


@pytest.mark.durability
def test_a_server_that_lost_its_disk_gets_everything_from_the_others(tmp_path):
    async def scenario():
        async with cluster_at(tmp_path) as (cluster, url), under_load(url, "n1", "n2"):
            await cluster.kill("s1")
            shutil.rmtree(tmp_path / "s1" / "jetstream")
            await cluster.start_server("s1")
            await cluster.kill("s2")  # what s1 has now is needed

    run(scenario(), BOUND_S)


@pytest.mark.durability
@pytest.mark.parametrize("gone", ["s1", "s2", "s3"])
def test_nodes_and_clients_start_while_any_one_server_is_away(tmp_path, gone):
    async def scenario():
        settings = ServerSettings(data=tmp_path, auth=True, clients=("desk",))
        async with BundledCluster(settings) as cluster:
            node_url, client_url = f"{cluster.node_url}&durability=replicated", cluster.client_url("desk")
            async with nodes(node_url, "n1"), connect(client_url, "desk.1") as bus:
                await bus.publish("orders", 1)
            await cluster.kill(gone)
            async with nodes(node_url, "n1"), connect(client_url, "desk.2", durability="replicated") as bus:
                assert (await bus.publish("orders", 2)).stamp == {"orders": 2}

    run(scenario(), BOUND_S)
