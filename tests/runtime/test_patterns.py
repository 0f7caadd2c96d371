"""Subscriptions by pattern: every matching topic from its first event on, in every order."""

import time

import pytest
from bus_kit import assert_held, numbers, run, take, until

import unisono
from unisono.history import Kind

ORDERS = ["none", "fifo", "causal", "total", "total_causal"]
URLS = ["memory://", "memory://?jitter_ms=3&seed=1", "memory://?jitter_ms=3&duplicate=0.2&seed=2"]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("order", ORDERS)
def test_the_first_event_of_a_new_topic_is_heard(order, url):
    async def main():
        records = []
        bus = unisono.connect(url, record=records)
        async with (
            bus,
            bus.subscribe("orders.*", order=order, name="star") as star,
            bus.subscribe("orders.>", "other", order=order, name="all") as everything,
        ):
            topics = ["orders.eu", "orders.us", "orders.eu.new", "other", "elsewhere", "orders"]
            await bus.publish_many([(topic, topic) for topic in topics])
            await bus._service.flush()
            await until(lambda: star.waiting >= 2 and everything.waiting >= 4)
            assert {e.data for e in await take(star, star.waiting)} == set(topics[:2])
            assert {e.data for e in await take(everything, everything.waiting)} == set(topics[:4])
            assert star.topics == set(topics[:2])
        joined = {(r.subscription, r.topic, r.number) for r in records if r.kind is Kind.SUBSCRIBED}
        assert joined == {("star", t, 0) for t in topics[:2]} | {("all", t, 0) for t in topics[:4]}

    run(main)


@pytest.mark.parametrize("url", [*URLS, "memory://?jitter_ms=3&loss=0.2&seed=3"])
def test_patterns_and_names_are_told_one_order(url):
    async def main():
        records = []
        bus = unisono.connect(url, record=records)
        async with (
            bus,
            bus.subscribe("r.*", name="one") as one,
            bus.subscribe("r.>", name="two") as two,
            bus.subscribe("r.1", "r.2", name="three") as three,
        ):
            for n in range(60):
                bus.publish_nowait(f"r.{n % 7}", n)
            await bus.flush()
            await until(lambda: not (one.is_behind or two.is_behind or three.is_behind))
            assert numbers(await take(one, 60)) == numbers(await take(two, 60)) == list(range(60))
            assert len(await take(three, three.waiting)) == len([n for n in range(60) if n % 7 in (1, 2)])
            assert_held(records, "total_notification_order", "no_duplication", "nothing_lost")

    run(main)


@pytest.mark.parametrize("order", ORDERS)
def test_a_pattern_brings_topics_in_and_takes_them_along(order):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a.x", order=order) as events:
            await bus.publish("a.y", "before")
            await events.add("a.*", "*.x")
            await bus.publish_many([("a.x", 1), ("a.y", 2), ("b.x", 3)])
            assert numbers(await take(events, 3)) == [1, 2, 3]
            await events.remove("a.*")
            assert events.topics == {"a.x", "b.x"}  # held by its name, and by the other pattern
            await bus.publish_many([("a.x", 4), ("a.y", 5), ("b.x", 6)])
            assert numbers(await take(events, 2)) == [4, 6]
            await events.remove("a.x")
            assert events.topics == {"a.x", "b.x"}  # "*.x" matches it too
            await events.add("a.*")
            await bus.publish("a.y", 7)
            assert numbers(await take(events, 1)) == [7]
            assert events.waiting == 0

    run(main)


def test_a_late_pattern_of_a_fifo_subscriber_waits_for_nothing_old():
    async def main():
        bus, other = (unisono.connect("memory://late-fifo?jitter_ms=4&seed=5") for _ in range(2))
        async with bus, other:
            await bus.publish_many([("t.a", n) for n in range(10)])
            async with bus.subscribe("t.*", order="fifo") as events:
                await bus.publish_many([("t.a", n) for n in range(10, 20)])
                await other.publish_many([("t.a", n) for n in range(20, 25)])
                got = numbers(await take(events, 15))
                assert [n for n in got if n < 20] == list(range(10, 20))
                assert [n for n in got if n >= 20] == list(range(20, 25))

    run(main)


def test_handlers_take_patterns():
    async def main():
        bus, got = unisono.connect(), []

        @bus.on("jobs.*")
        async def handle(event):
            got.append(event.topic)

        async with bus:
            await bus.publish_many([("jobs.a", 1), ("jobs.b", 2), ("other", 3)])
        assert got == ["jobs.a", "jobs.b"]

    run(main)


@pytest.mark.parametrize("subscribers", [1, 2])
@pytest.mark.parametrize("order", ["none", "total", "total_causal"])
def test_two_thousand_topics_under_one_pattern(order, subscribers):
    async def main():
        bus = unisono.connect()
        async with bus:
            many = [bus.subscribe("many.*", order=order) for _ in range(subscribers)]
            for events in many:
                await events.open()
            started = time.perf_counter()
            for n in range(2000):
                await bus.publish(f"many.{n}", n)
            for events in many:
                assert numbers(await take(events, 2000)) == list(range(2000))
            assert time.perf_counter() - started < 30
            for events in many:
                await events.close()

    run(main)
