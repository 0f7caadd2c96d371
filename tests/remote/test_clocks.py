"""Clocks that are set back between two lives of a process: the later life is still the later one."""

import types

import pytest
from remote_kit import QUICK, connect, nodes, run, take

import unisono.runtime.remote.client
import unisono.runtime.remote.node

HOUR_NS = 3600 * 10**9


@pytest.fixture
def clock(monkeypatch):
    """The wall clock of clients and nodes, which can be set."""
    import time

    set_by = {"ns": 0}
    fake = types.SimpleNamespace(
        time_ns=lambda: time.time_ns() + set_by["ns"], time=lambda: time.time() + set_by["ns"] / 1e9
    )
    for module in (unisono.runtime.remote.client, unisono.runtime.remote.node):
        monkeypatch.setattr(module, "time", fake)
    return set_by


def test_a_bus_is_heard_again_after_its_clock_was_set_back(nats_url, clock):
    async def scenario():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "s") as other,
            other.subscribe("orders") as events,
        ):
            clock["ns"] = HOUR_NS
            async with connect(nats_url, "p") as bus:
                await bus.publish("orders", 1)
            clock["ns"] = 0
            async with connect(nats_url, "p", publish_timeout=5) as bus:
                await bus.publish("orders", 2)
            assert [event.data for event in await take(events, 2)] == [1, 2]

    run(scenario())


def test_a_node_is_heard_again_after_its_clock_was_set_back(nats_url, clock):
    async def scenario():
        async with nodes(nats_url, "n1"):
            clock["ns"] = HOUR_NS
            async with nodes(nats_url, "n2", options=QUICK) as [first]:
                pass
            clock["ns"] = 0
            async with nodes(nats_url, "n2", options=QUICK) as [second]:
                assert second.life > first.life

    run(scenario())
