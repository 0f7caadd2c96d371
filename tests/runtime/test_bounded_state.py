"""What nobody needs any more is forgotten, and coming back after that breaks nothing."""

import asyncio
import gc
import tracemalloc

import pytest
from bus_kit import assert_held, numbers, run, take, until

import unisono
from unisono.runtime import counts as counts_module
from unisono.runtime import hub as hub_module

ORDERS = ["none", "fifo", "total", "total_causal"]
URLS = ["memory://", "memory://?jitter_ms=0.2&seed=1", "memory://?jitter_ms=0.2&loss=0.05&seed=2"]


def kept(bus):
    """How many topics anything on the way remembers."""
    managers, service = bus._hub.managers, bus._service
    return max(
        len(managers.index),
        len(managers.clock),
        len(managers.groups.of),
        len(managers.groups._holders),
        len(managers.emitter.rings),
        len(managers.emitter._beats),
        len(bus._hub._held),
        len(service._by_topic),
        len(bus._nth),
    )


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("order", ORDERS)
def test_short_lived_topics_and_subscriptions_leave_nothing_behind(order, url, monkeypatch):
    monkeypatch.setattr(counts_module, "TOPICS_TIDY", 100)
    monkeypatch.setattr(hub_module, "RING_EVENTS", 50)  # of the topic that stays
    options = {"order": order}
    if order == "fifo" and "loss" in url:
        options |= {"on_gap": "skip", "max_hold": 0.01}

    async def main():
        bus = unisono.connect(url)
        async with (
            bus,
            bus.subscribe("always", order=order, name="changes", **options_of(options)) as changes,
        ):

            async def live(n):
                topics = [f"t.{n}.a", f"t.{n}.b"]
                async with bus.subscribe(*topics, **options), bus.subscribe(*topics, **options):
                    await changes.add(topics[0])
                    for topic in (*topics, "always", f"unheard.{n}"):
                        bus.publish_nowait(topic, b"x" * 100)
                    await bus.flush()
                    await changes.remove(topics[0])
                await take(changes, changes.waiting)

            for n in range(150):
                await live(n)
            tracemalloc.start()
            growths = []  # what fills once, wherever it is, shows in one of them; what leaks in all
            for first in (150, 300, 450):
                gc.collect()
                before, _ = tracemalloc.get_traced_memory()
                for n in range(first, first + 150):
                    await live(n)
                gc.collect()
                after, _ = tracemalloc.get_traced_memory()
                growths.append(after - before)
            tracemalloc.stop()
            assert kept(bus) <= 300
            assert min(growths) < 300_000, f"{min(growths) / 150:.0f} bytes stay of each life"

    run(main)


def options_of(options):
    return {key: value for key, value in options.items() if key != "order"}


async def forget(bus):
    """Let so many topics come and go that old ones are forgotten."""
    for n in range(200):
        await bus.subscribe(f"churn.{n}").open()
        await list(bus._open)[-1].close()


@pytest.mark.parametrize(
    "url", ["memory://", "memory://?jitter_ms=3&seed=1", "memory://?jitter_ms=3&loss=0.2&seed=2"]
)
def test_a_topic_that_comes_back_starts_above_what_is_still_under_way(url):
    async def main():
        records = []
        bus = unisono.connect(url, record=records)
        async with bus:
            first = bus.subscribe("t", "u")
            await first.open()
            old = await bus.publish("t", "old")
            await bus.publish_many([("t", "old")] * 5)
            await first.close()
            await forget(bus)
            assert "t" not in bus._hub.managers.index
            async with bus.subscribe("t", "u") as one, bus.subscribe("t", "u") as two:
                new = await bus.publish("t", "new")
                await bus.publish("u", "new")
                assert new.stamp["t"] > old.stamp["t"] + 5
                await bus._service.flush()
                await until(lambda: not (one.is_behind or two.is_behind))
                for events in (one, two):
                    assert numbers(await take(events, 2)) == ["new", "new"]
                    assert events.waiting == 0
                    assert events.rejected == 0
        assert_held(records, "no_duplication", "total_notification_order", "nothing_lost")

    run(main)


def test_receipts_of_forgotten_topics_keep_their_stamps():
    async def main():
        bus = unisono.connect()
        async with bus:
            events = bus.subscribe("t", "u")
            await events.open()
            receipt = await bus.publish("t", 1)
            await events.close()
            await forget(bus)
            assert receipt.stamp == {"t": 1}

    run(main)


def test_a_subscription_that_stays_is_not_disturbed_while_others_are_forgotten():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a", "b") as one, bus.subscribe("a", "b") as two:
            await bus.publish_many([("ab"[n % 2], n) for n in range(10)])
            await forget(bus)
            await bus.publish_many([("ab"[n % 2], n) for n in range(10, 20)])
            for events in (one, two):
                got = await take(events, 20)
                assert numbers(got) == list(range(20))
                assert got[-1].stamp == {"a": 10, "b": 10}
                assert events.rejected == 0

    run(main)


def test_a_publisher_forgets_what_it_counted_and_fifo_goes_on(monkeypatch):
    monkeypatch.setattr(counts_module, "TOPICS_TIDY", 10)

    async def main():
        bus = unisono.connect("memory://?jitter_ms=3&seed=4")
        async with bus, bus.subscribe("kept", order="fifo") as keeps:
            for n in range(100):
                bus.publish_nowait(f"gone.{n}", n)
                bus.publish_nowait("kept", n)
                bus.publish_nowait("back", n)
                await asyncio.sleep(0)
            assert len(bus._nth) < 60
            async with bus.subscribe("back", order="fifo") as back:
                await bus.publish_many([("back", n) for n in range(5)])
                for n in range(100, 150):
                    bus.publish_nowait(f"gone.{n}", n)
                await bus.publish_many([("back", n) for n in range(5, 10)])
                assert numbers(await take(back, 10)) == list(range(10))
            assert numbers(await take(keeps, 100)) == list(range(100))

    run(main)
