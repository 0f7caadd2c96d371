"""Three bundled servers: they find each other, lose one, take it back; who may come in."""

import asyncio

import nats
import pytest
from server_kit import in_a_loop, is_alive

from unisono.ens.registry import open_service
from unisono.model.errors import ServerError
from unisono.server import BundledCluster, BundledServer, ServerSettings


@pytest.mark.durability
@in_a_loop
async def test_three_servers_keep_a_stream_and_one_may_be_killed(tmp_path):
    async with BundledCluster(ServerSettings(data=tmp_path)) as cluster:
        assert cluster.running == ["s1", "s2", "s3"]
        assert await cluster.leader() in cluster.running
        client = await nats.connect(cluster.url.removeprefix("nats://").split(","))
        js = client.jetstream()
        await js.add_stream(name="kept", subjects=["kept"], num_replicas=3)
        await js.publish("kept", b"1")
        leader = await cluster.stream_leader("kept")
        pid = cluster.members[leader].pid
        await cluster.kill(leader)
        assert not is_alive(pid)
        assert len(cluster.running) == 2
        assert cluster.is_ready
        await cluster.wait_for_leader()
        async with asyncio.timeout(20):
            while await cluster.stream_leader("kept") in (None, leader):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (await js.publish("kept", b"2", timeout=5)).seq == 2  # the client has gone to another one
        await cluster.start_server(leader)
        assert len(cluster.running) == 3
        assert f"127.0.0.1:{cluster.members[leader].port}" in cluster.url
        await client.close()


@in_a_loop
async def test_a_stranger_does_not_come_in_by_a_route_and_clients_are_known_to_every_server(tmp_path):
    async with BundledCluster(ServerSettings(data=tmp_path, auth=True)) as cluster:
        url = await cluster.add_client("desk")
        service = open_service(url)
        await service.connect()
        await service.close()
        for server in cluster.members.values():
            with pytest.raises(ConnectionError, match="does not admit"):
                await open_service(server.url).connect()
            assert cluster.url.count(server.address) == 1
            reader, writer = await asyncio.open_connection("127.0.0.1", server.settings.cluster.port)
            writer.write(b'CONNECT {"verbose":false,"user":"unisono","pass":"guess","name":"x"}\r\nPING\r\n')
            async with asyncio.timeout(10):
                said = await reader.read(-1)  # it ends the connection
            assert b"Authorization Violation" in said
            writer.close()


@in_a_loop
async def test_the_data_of_one_server_and_of_three_are_not_mixed_up(tmp_path):
    (tmp_path / "one" / "jetstream").mkdir(parents=True)
    (tmp_path / "three" / "s1" / "jetstream").mkdir(parents=True)
    with pytest.raises(ServerError, match="single server"):
        await BundledCluster(ServerSettings(data=tmp_path / "one")).start()
    with pytest.raises(ServerError, match="--servers 3"):
        await BundledServer(ServerSettings(data=tmp_path / "three")).start()
