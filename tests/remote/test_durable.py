"""Durable subscribers: their places are kept, one session holds each, and nothing is skipped."""

import asyncio

import msgspec
import pytest
from remote_kit import QUICK, connect, nodes, run, take

from unisono import ConfigError
from unisono.model.errors import HeldError, QuotaError


async def until(condition, timeout=10):
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_a_place_is_begun_and_kept(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                for n in range(40):
                    await bus.publish("ab"[n % 2], n)
                got = await take(events, 40)
                assert [event.data for event in got] == list(range(40))
                assert not any(event.redelivered for event in got)
                assert events.position.acknowledged == 39  # the last one is still being dealt with
                await until(lambda: events.position.kept == 39)
                assert events.position.clock == {"a": 20, "b": 19}
            assert events.position.kept == 40

    run(main())


def test_the_same_name_twice_is_refused_or_taken_as_asked(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1", "n2"),
            connect(nats_url, "p") as one,
            connect(nats_url, "q") as two,
            one.subscribe("a", name="desk", ack="auto") as events,
        ):
            with pytest.raises(HeldError, match=r"is held by 'p.place.*', which is alive; .* held='take'"):
                await two.subscribe("a", name="desk", ack="auto").open()
            await one.publish("a", 1)
            assert (await events.get_one(timeout=5)).data == 1
            with pytest.raises(ConfigError, match="keeps a place in a, not in b: subscribe to these"):
                await two.subscribe("b", name="desk", ack="auto", held="take").open()

    run(main())


def test_what_a_durable_subscription_does_not_do(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="manual") as events,
            bus.subscribe("a", name="plain") as plain,
        ):
            for change in (events.add, events.remove):
                with pytest.raises(ConfigError, match="'desk' is durable: its topics stay as they are"):
                    await change("b")
            await bus.publish("a", 1)
            event = await plain.get_one(timeout=5)
            with pytest.raises(ConfigError, match="subscription 'plain' keeps no place"):
                await plain.ack(event)
            with pytest.raises(ConfigError, match="was not handed out by subscription 'desk'"):
                await events.ack(event)

    run(main())


def test_manual_acknowledgements_are_kept_when_they_return(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", "b", name="desk", ack="manual") as events,
        ):
            await bus.publish_many([("ab"[n % 2], n) for n in range(10)])
            got = await take(events, 10)
            assert events.position.acknowledged == 0
            await events.ack(got[4])
            done = {topic: [event.topic for event in got[:5]].count(topic) for topic in "ab"}
            assert (events.position.kept, events.position.clock) == (5, done)
            await events.ack(got[2])  # long done
            assert events.position.kept == 5
            events.ack_nowait(got[9])
            await until(lambda: events.position.kept == 10)

    run(main())


def test_an_application_that_acknowledges_nothing_is_held_up(nats_url, monkeypatch):
    monkeypatch.setattr("unisono.runtime.remote.durable.UNACKNOWLEDGED_MAX", 5)

    async def main():
        async with (
            nodes(nats_url, "n1"),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="manual") as events,
        ):
            await bus.publish_many([("a", n) for n in range(8)])
            got = await take(events, 5)
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0.2)
            await events.ack(got[1])
            assert [event.data for event in await take(events, 2)] == [5, 6]
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0.2)

    run(main())


def test_no_more_places_than_nodes_take(nats_url):
    few = msgspec.structs.replace(QUICK, node=msgspec.structs.replace(QUICK.node, places_max=1))

    async def main():
        async with (
            nodes(nats_url, "n1", options=few),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="auto"),
        ):
            with pytest.raises(QuotaError, match="there are 1 durable subscribers"):
                await bus.subscribe("a", name="other", ack="auto").open()

    run(main())


def test_a_fast_application_is_not_held_up(nats_url):
    """Windows grow with the pace: 20,000 events cost a few saves."""

    async def main():
        async with (
            nodes(nats_url, "n1") as (node,),
            connect(nats_url, "p") as bus,
            bus.subscribe("a", name="desk", ack="auto") as events,
        ):
            count = 5000
            publishing = asyncio.create_task(bus.publish_many([("a", n) for n in range(count)]))
            got = 0
            async for event in events:
                assert event.data == got
                got += 1
                if got == count:
                    break
            await publishing
            assert node._places.tended < 100

    run(main())


@pytest.mark.parametrize("option", [{"ack": "auto", "name": "desk"}, {"start": "earliest"}], ids=str)
def test_mqtt_keeps_nothing(mqtt_broker, option):
    url = f"{mqtt_broker.url}?prefix=durable/"

    async def main():
        async with nodes(url, "n1"), connect(url, "p") as bus:
            with pytest.raises(ConfigError, match="has no store that nodes share"):
                bus.subscribe("a", **option)

    run(main())


def test_it_goes_on_where_it_was(nats_url):
    async def main():
        async with nodes(nats_url, "n1", "n2"), connect(nats_url, "p") as bus:
            got, sent = [], 0
            for _ in range(4):
                async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                    for _ in range(30):
                        await bus.publish("ab"[sent % 2], sent)
                        sent += 1
                    got += await take(events, 20)
                for _ in range(10):
                    await bus.publish("ab"[sent % 2], sent)
                    sent += 1
            async with bus.subscribe("a", "b", name="desk", ack="auto") as events:
                got += await take(events, sent - len(got))
                with pytest.raises(TimeoutError):
                    await events.get_one(timeout=0.2)
        assert [event.data for event in got] == list(range(sent))
        assert not any(event.redelivered for event in got)

    run(main())
