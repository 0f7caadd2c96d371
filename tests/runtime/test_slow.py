"""What happens when the application lags: publishers wait, events are dropped, or the subscription ends."""

import asyncio

import pytest
from bus_kit import numbers, run, take, take_to_the_end, until

import unisono
from unisono import SlowConsumerError
from unisono.engines.effects import Deliver
from unisono.model.frames import Publication, Stamped
from unisono.runtime.receipts import FLIGHT_EVENTS_MAX


def test_wait_makes_publishers_wait_and_bounds_memory():
    async def main():
        bus = unisono.connect(outbox=500)
        async with bus, bus.subscribe("t", queue=100) as slow, bus.subscribe("t", queue=100_000) as fast:
            published = 0

            async def publish():
                nonlocal published
                for n in range(20_000):
                    bus.publish_nowait("t", n)
                    published = n + 1
                    if n % 50 == 49:
                        await bus.flush()

            publisher = asyncio.create_task(publish())
            got, most = [], 0
            while len(got) < 20_000:
                got.append((await slow.get_one(timeout=5)).data)
                most = max(most, slow.waiting)
                assert published - len(got) <= 100 + 2 * FLIGHT_EVENTS_MAX
            await publisher
            assert got == list(range(20_000))
            assert most <= 100 + 50  # the queue, and the last flight that found room
            assert fast.waiting == 20_000
            assert numbers(await take(fast, 3)) == [0, 1, 2]

    run(main)


def test_a_full_subscription_that_leaves_lets_publishers_go():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as other:
            sloth = bus.subscribe("t", queue=1)
            await sloth.open()
            await bus.publish("t", 0)
            publishing = asyncio.create_task(bus.publish("t", 1))
            await asyncio.sleep(0.005)
            assert not publishing.done()
            await sloth.close()
            await publishing
            assert numbers(await take(other, 2)) == [0, 1]

    run(main)


def test_wait_ends_after_slow_timeout_without_progress():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", queue=2, slow_timeout=0.02) as stuck, bus.subscribe("t") as other:
            for n in range(5):
                await bus.publish("t", n)  # the third waits until the stuck one is given up
            assert numbers(await take(other, 5)) == list(range(5))
            assert numbers(await take(stuck, 2)) == [0, 1]  # what it has, it keeps
            with pytest.raises(
                SlowConsumerError, match=r"took no event for 0.02 s while 2 waited.*slow='drop'"
            ):
                await stuck.get_one(timeout=1)

    run(main)


def test_slow_is_not_stuck():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", queue=4, slow_timeout=0.03) as slow:
            publishing = asyncio.create_task(bus.publish_many([("t", n) for n in range(30)]))
            got = []
            async for event in slow:  # one batch of thirty: no batch is taken for long, but events are
                got.append(event.data)
                await asyncio.sleep(0.005)
                if len(got) == 2:
                    bus.publish_nowait("t", 30)
                    for n in range(31, 36):
                        bus.publish_nowait("t", n)
                if len(got) == 36:
                    break
            await publishing
            assert got == list(range(36))
            await bus.publish("t", 36)  # and it is still served
            assert numbers(await take(slow, 1)) == [36]

    run(main)


def test_drop_loses_only_its_own_events_and_says_how_many():
    async def main():
        records = []
        bus = unisono.connect(record=records)
        async with (
            bus,
            bus.subscribe("t", slow="drop", queue=3, name="d") as drops,
            bus.subscribe("t") as other,
        ):
            for n in range(10):
                await bus.publish("t", n)
            assert numbers(await take(drops, 3)) == [0, 1, 2]
            assert drops.dropped == 7
            for n in range(10, 12):
                await bus.publish("t", n)
            later = await take(drops, 2)
            assert [(event.data, event.missed) for event in later] == [(10, 7), (11, 0)]
            everything = await take(other, 12)
            assert numbers(everything) == list(range(12))
            assert {event.missed for event in everything} == {0}
        dropped = [record for record in records if record.kind == "dropped"]
        assert [record.number for record in dropped] == list(range(4, 11))
        assert {(record.subscription, record.reason) for record in dropped} == {
            ("d", "the application is too slow")
        }

    run(main)


def test_drop_keeps_what_fits_of_a_batch():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", slow="drop", queue=3) as drops:
            await bus.publish_many([("t", n) for n in range(10)])
            assert numbers(await take(drops, 3)) == [0, 1, 2]
            await bus.publish_many([("t", n) for n in range(10, 20)])
            got = await take(drops, 3)
            assert [(event.data, event.missed) for event in got] == [(10, 7), (11, 0), (12, 0)]
            assert drops.dropped == 14

    run(main)


def test_fail_ends_after_what_was_queued():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", slow="fail", queue=3) as fails, bus.subscribe("t") as other:
            for n in range(6):
                await bus.publish("t", n)
            got, error = await take_to_the_end(fails)
            assert isinstance(error, SlowConsumerError)
            assert "slow='fail'; take them faster, or allow a longer queue=" in str(error)
            assert got == [0, 1, 2]
            with pytest.raises(SlowConsumerError):
                await fails.get_one(timeout=1)
            assert numbers(await take(other, 6)) == list(range(6))
        assert not bus._service._by_topic

    run(main)


def test_nothing_follows_the_gap_of_a_failed_subscription():
    async def main():
        bus = unisono.connect("memory://?jitter_ms=1&loss=0.3&seed=1")
        async with bus, bus.subscribe("t", slow="fail", queue=3) as fails:
            await bus.publish_many([("t", n) for n in range(50)])
            await until(lambda: fails._error is not None)
            assert fails._timer is None  # it asks for nothing any more
            await bus.drain()
            got, error = await take_to_the_end(fails)
            assert isinstance(error, SlowConsumerError)
            assert got == list(range(len(got)))
            assert len(got) <= 3

    run(main)


def test_what_comes_with_the_failing_batch_does_not_jump_the_gap():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", on_gap="tag", slow="fail", queue=3) as fails:
            made = [Stamped(Publication("p", 1, n, "t", b"%d" % n), 0, {"t": n}) for n in range(1, 8)]
            fails._carry_out([Deliver(made[:2]), Deliver(made[2:6]), Deliver(made[6:], in_order=False)])
            got, error = await take_to_the_end(fails)
            assert got == [b"1", b"2"]
            assert isinstance(error, SlowConsumerError)

    run(main)


def test_a_bus_closed_while_it_waits_is_not_kept_by_the_others():
    async def main():
        here, there = unisono.connect("memory://unpark"), unisono.connect("memory://unpark")
        async with here, here.subscribe("t", queue=1) as events:
            async with there:
                await there.publish("t", 0)
                there.publish_nowait("t", 1)
                await asyncio.sleep(0)
                assert here._hub._parked
                await there.close()
            assert not here._hub._parked
            assert numbers(await take(events, 1)) == [0]

    run(main)


def test_back_pressure_holds_across_buses():
    async def main():
        here, there = unisono.connect("memory://pressure"), unisono.connect("memory://pressure")
        async with here, there, here.subscribe("t", queue=1) as events:
            await there.publish("t", 0)
            waiting = [asyncio.create_task(bus.publish("t", n)) for n, bus in ((1, here), (2, there))]
            await asyncio.sleep(0.005)
            assert not any(task.done() for task in waiting)
            assert sorted(numbers(await take(events, 3))) == [0, 1, 2]
            await asyncio.gather(*waiting)

    run(main)


def test_timers_do_not_outlive_the_subscription():
    async def main():
        loop = asyncio.get_running_loop()
        bus = unisono.connect("memory://?loss=0.2&jitter_ms=2")
        async with bus:
            async with bus.subscribe("t", queue=1, slow="wait", slow_timeout=100) as events:
                await bus.publish("t", 1)
                await events.get_one(timeout=5)
                bus.publish_nowait("t", 2)
                await asyncio.sleep(0.01)
            await bus.flush()
        pending = [h for h in loop._scheduled if not h.cancelled() and "unisono" in repr(h)]
        assert pending == []

    run(main)
