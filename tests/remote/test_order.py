"""Every subscriber hears the same order, whoever publishes, whichever nodes sequence."""

import asyncio
import random
from contextlib import AsyncExitStack
from itertools import combinations

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run, shared, take

from unisono.model.errors import QuotaError
from unisono.runtime.remote.admin import rerank

TOPICS = ("orders", "payments", "stock", "news")
WANTED = (("orders", "payments"), ("payments", "stock", "orders"), ("stock", "orders", "payments"), TOPICS)


SHARED = ("nats", "redis", "redis pub/sub")  # on MQTT there is one node: see test_nodes.py


@pytest.mark.parametrize(
    ("url", "count"),
    [*((broker, count) for broker in SHARED for count in (1, 2)), ("mqtt", 1), ("mqtt qos 0", 1)],
    indirect=["url"],
)
def test_overlapping_subscribers_agree(url, count):
    async def scenario():
        async with nodes(url, *[f"n{i}" for i in range(count)]), AsyncExitStack() as stack:
            publishers = [await stack.enter_async_context(connect(url, f"p{i}")) for i in range(3)]
            listeners = []
            for i, topics in enumerate(WANTED):
                bus = await stack.enter_async_context(connect(url, f"s{i}"))
                listeners.append(await stack.enter_async_context(bus.subscribe(*topics)))
            sent = dict.fromkeys(TOPICS, 0)

            async def publish(bus, seed):
                dice = random.Random(seed)
                for n in range(100):
                    topic = dice.choice(TOPICS)
                    sent[topic] += 1
                    receipt = bus.publish_nowait(topic, {"n": n})
                    if n % 10 == 9:
                        await receipt

            await asyncio.gather(*(publish(bus, i) for i, bus in enumerate(publishers)))
            heard = [
                await take(events, sum(sent[t] for t in topics))
                for events, topics in zip(listeners, WANTED, strict=True)
            ]
            for one, other in combinations(heard, 2):
                mine, theirs = shared(one, other)
                assert mine == theirs
                assert mine
            for events in heard:
                assert all(e.in_order for e in events)
                for bus in publishers:
                    own = [e.data["n"] for e in events if e.publisher == bus.name]
                    per_topic = {}
                    for e in events:
                        if e.publisher == bus.name:
                            per_topic.setdefault(e.topic, []).append(e.data["n"])
                    assert own
                    assert all(ns == sorted(ns) for ns in per_topic.values())

    run(scenario())


def test_causes_come_before_effects_across_nodes(nats_url):
    async def scenario():
        async with nodes(nats_url, "n1", "n2"), AsyncExitStack() as stack:
            bus = await stack.enter_async_context(connect(nats_url, "p", causal=True))
            other = await stack.enter_async_context(connect(nats_url, "s"))
            events = await stack.enter_async_context(
                other.subscribe("orders", "payments", order="total_causal")
            )
            await rerank(nats_url, ("orders", "payments"), {"orders": "n1", "payments": "n2"})
            for n in range(50):
                bus.publish_nowait("orders" if n % 2 else "payments", n)
            assert [e.data for e in await take(events, 50)] == list(range(50))

    run(scenario())


def test_a_refused_event_is_refused_again(nats_url):
    one_topic = msgspec.structs.replace(
        QUICK, node=msgspec.structs.replace(QUICK.node, client_topics_per_minute=1)
    )

    async def scenario():
        async with nodes(nats_url, "n1", options=one_topic), connect(nats_url, "p") as bus:
            await bus.publish("orders", 1, id="one")
            for _ in range(2):  # an id that failed is not taken for one that did not
                with pytest.raises(QuotaError, match="1 topics in a minute"):
                    await bus.publish("payments", 2, id="two")
            assert (await bus.publish("orders", 1, id="one")).stamp == {"orders": 1}

    run(scenario())


def test_without_an_order_topics_and_patterns_come_and_go(nats_url):
    async def scenario():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("news.*", order="none") as witness,
            bus.subscribe("orders", "news.*", order="none") as events,
        ):
            assert events.topics == {"orders"}
            await bus.publish("news.eu", 1)
            await bus.publish("orders", 2)
            assert {e.data for e in await take(events, 2)} == {1, 2}
            await bus.publish("news.eu", 3)
            assert [e.data for e in await take(witness, 2)] == [1, 3]
            await events.remove("news.*")
            assert not events.waiting
            await events.add("stock")
            await bus.publish("stock", 4)
            assert [e.data for e in await take(events, 1)] == [4]

    run(scenario())
