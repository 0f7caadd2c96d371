"""Nodes and clients of releases that do not work together: refused by name, at once, with what to do."""

import pytest
from remote_kit import QUICK, connect, nodes, run

from unisono import ConfigError, VersionError
from unisono.ens.registry import open_service
from unisono.ens.store import open_store
from unisono.model.release import SPEAKS
from unisono.runtime.remote import node as node_module
from unisono.runtime.remote import wire
from unisono.runtime.remote.keeper import KEY
from unisono.runtime.remote.node import Node


def test_a_node_beside_one_that_is_too_new_gives_up(nats_url, monkeypatch):
    monkeypatch.setattr(node_module, "OLDEST", SPEAKS + 1)  # of everybody: the newcomer hears it

    async def scenario():
        async with nodes(nats_url, "n1") as [first], Node(open_service(nats_url), "n2", QUICK) as second:
            with pytest.raises(ConfigError, match=r"node 'n1' serves here.*too new.*upgrade this one first"):
                await second.run()
            assert not first._stop.is_set()

    run(scenario())


def test_a_client_of_nodes_that_are_too_new_is_told(nats_url, monkeypatch):
    monkeypatch.setattr(node_module, "OLDEST", SPEAKS + 1)

    async def scenario():
        async with nodes(nats_url, "n1"):
            with pytest.raises(VersionError, match="a node answers, but it is too new"):
                async with connect(nats_url):
                    pass

    run(scenario())


def test_a_client_of_nodes_that_write_another_version_is_told(nats_url, monkeypatch):
    monkeypatch.setattr(wire, "_PREFIX", b"\x02")

    async def scenario():
        async with nodes(nats_url, "n1"):
            with pytest.raises(VersionError, match="version 2; this build reads version 1: upgrade this one"):
                async with connect(nats_url):
                    pass

    run(scenario())


def test_a_node_does_not_touch_a_control_record_of_another_version(nats_url):
    async def scenario():
        service = open_service(nats_url)
        await service.connect()
        store = await open_store(service)
        revision = await store.decide(KEY, b"\x02whatever", 0)
        with pytest.raises(VersionError, match=r"control record of version 2.*upgrade this one"):
            async with Node(open_service(nats_url), "n1", QUICK):
                pass
        assert await store.look(KEY) == (revision, b"\x02whatever")
        await service.close()

    run(scenario())


def test_a_client_that_wants_more_than_an_older_node_says(nats_url, monkeypatch):
    def without_words(told):  # as the release before writes it
        return wire.encode([told.world, told.control] if isinstance(told, wire.Told) else told)

    monkeypatch.setattr(node_module, "encode", without_words)

    async def scenario():
        async with nodes(nats_url, "n1"):
            with pytest.raises(VersionError, match="does not say what it stores; upgrade it"):
                async with connect(nats_url.replace("&durability=memory", ""), durability="memory"):
                    pass
            async with connect(nats_url.replace("&durability=memory", "")) as bus:
                await bus.publish("orders", 1)

    run(scenario())
