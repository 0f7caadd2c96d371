"""Nodes come, go and die while events flow."""

import asyncio
import random
from contextlib import AsyncExitStack
from itertools import combinations

import pytest
from remote_kit import QUICK, connect, nodes, run, shared, take

from unisono import ConfigError
from unisono.ens.registry import open_service
from unisono.runtime.remote.admin import look, rerank
from unisono.runtime.remote.node import Node

TOPICS = ("orders", "payments", "stock", "news")


async def publish(bus, topics, count, sent, pause_s=0.0):
    dice = random.Random(bus.name)
    for n in range(count):
        receipt = await bus.publish(dice.choice(topics), {"n": n})
        sent.append(receipt.id)
        await asyncio.sleep(pause_s)


def assert_one_order(heard):
    for one, other in combinations(heard, 2):
        mine, theirs = shared(one, other)
        assert mine == theirs
        assert mine


async def crowd(stack, url, wanted):
    """Subscriptions, each on a bus of its own."""
    listeners = []
    for i, topics in enumerate(wanted):
        bus = await stack.enter_async_context(connect(url, f"s{i}"))
        listeners.append(await stack.enter_async_context(bus.subscribe(*topics)))
    return listeners


async def crash(node):
    """As kill -9 would: nothing is said, nothing is finished."""
    node._host.close()
    node._beating.cancel()
    for interest in node._interests:
        await node._service.unsubscribe(interest)
    await node._keeper.close()


def test_a_component_split_across_nodes(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1", "n2", "n3"), AsyncExitStack() as stack:
            listeners = await crowd(stack, nats_url, [TOPICS] * 3)
            owners = dict(zip(TOPICS, ("n1", "n2", "n3", "n1"), strict=True))
            control = await rerank(nats_url, TOPICS, owners)
            assert control.owner == owners
            publishers = [await stack.enter_async_context(connect(nats_url, f"p{i}")) for i in range(3)]
            sent = []
            await asyncio.gather(*(publish(bus, TOPICS, 60, sent) for bus in publishers))
            heard = [await take(events, len(sent)) for events in listeners]
            assert_one_order(heard)
            described = (await look(nats_url)).topics
            assert {len(described[topic].path) for topic in TOPICS} != {1}

    run(scenario())


@pytest.mark.parametrize("victim", [0, 1])
def test_a_node_dies_and_nothing_acknowledged_is_lost(nats_url, victim):
    async def scenario():
        async with nodes(nats_url, "n1", "n2") as both, AsyncExitStack() as stack:
            listeners = await crowd(stack, nats_url, [TOPICS, TOPICS])
            await rerank(nats_url, TOPICS, dict(zip(TOPICS, ("n1", "n2") * 2, strict=True)))
            publishers = [await stack.enter_async_context(connect(nats_url, f"p{i}")) for i in range(2)]
            sent = []
            work = [asyncio.create_task(publish(bus, TOPICS, 100, sent, 0.002)) for bus in publishers]
            await asyncio.sleep(0.1)
            await crash(both[victim])
            await asyncio.gather(*work)
            heard = [await take(events, len(sent)) for events in listeners]
            assert_one_order(heard)
            assert {e.id for e in heard[0]} == set(sent)
            control = (await look(nats_url)).control
            assert control.dead == (both[victim].name,)

    run(scenario())


def test_nodes_are_replaced_one_by_one(nats_url):
    async def scenario():
        async with AsyncExitStack() as stack:
            first, second = await stack.enter_async_context(nodes(nats_url, "n1", "n2"))
            listeners = await crowd(stack, nats_url, [TOPICS, TOPICS])
            bus = await stack.enter_async_context(connect(nats_url, "p"))
            sent = []
            work = asyncio.create_task(publish(bus, TOPICS, 200, sent, 0.005))
            for old, new in ((first, "n3"), (second, "n4")):
                await stack.enter_async_context(nodes(nats_url, new))
                assert await old.drain(10)
                await old.close()
            await work
            heard = [await take(events, len(sent)) for events in listeners]
            assert_one_order(heard)
            assert [e.data["n"] for e in heard[0] if e.topic == "orders"] == sorted(
                e.data["n"] for e in heard[0] if e.topic == "orders"
            )
            control = (await look(nats_url)).control
            assert control.nodes == ("n3", "n4")
            assert not control.dead

    run(scenario())


def test_a_node_comes_back_under_its_name(nats_url):
    async def scenario():
        async with AsyncExitStack() as stack:
            async with nodes(nats_url, "n1"):
                bus = await stack.enter_async_context(connect(nats_url, "p"))
                events = await stack.enter_async_context(bus.subscribe("orders", "payments"))
                await bus.publish("orders", 1)
            async with nodes(nats_url, "n1"):
                await bus.publish("payments", 2)
                await bus.publish("orders", 3)
                assert [e.data for e in await take(events, 3)] == [1, 2, 3]

    run(scenario())


@pytest.mark.parametrize("url", ["mqtt", "mqtt qos 0"], indirect=True)
def test_on_mqtt_there_is_one_node(url):
    async def scenario():
        async with nodes(url, "n1"), Node(open_service(url), "n2", QUICK) as second:
            with pytest.raises(ConfigError, match="no store that nodes could share"):
                await asyncio.wait_for(second.run(), 10)

    run(scenario())


def test_two_processes_are_not_one_node(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1") as [first], nodes(nats_url, "n1"):
            with pytest.raises(ConfigError, match="another process is node 'n1'"):
                await asyncio.wait_for(first.run(), 10)

    run(scenario())
