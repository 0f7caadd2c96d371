"""Taking events: one lane, in order, that can be left and taken up again without losing anything."""

import asyncio
from dataclasses import dataclass

import msgspec
import pydantic
import pytest
from bus_kit import numbers, run, take, until

import unisono
from unisono import ClosedError, ConfigError, PayloadError


@dataclass
class Order:
    id: int


class Struct(msgspec.Struct):
    id: int


class Model(pydantic.BaseModel):
    id: int


def test_a_loop_that_breaks_can_be_taken_up_again():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            await bus.publish_many([("t", n) for n in range(10)])
            got = []
            for stop_after in (3, 6, 10):
                async for event in events:
                    got.append(event.data)
                    if len(got) == stop_after:
                        break
            assert got == list(range(10))

    run(main)


def test_every_way_of_taking_events_takes_from_the_same_lane():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            got = []
            for n in range(1, 5):  # several batches of different sizes
                await bus.publish_many([("t", (n, i)) for i in range(n)])
            async for event in events:
                got.append(event.data)
                got.append((await events.get_one(timeout=1)).data)
                async for batch in events.batches(limit=1):
                    got += numbers(batch)
                    break
                if len(got) >= 9:
                    break
            got.append((await events.get_one(timeout=1)).data)
            assert got == [[n, i] for n in range(1, 5) for i in range(n)]

    run(main)


def test_get_one_inside_a_loop_takes_nothing_away_from_it():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            for batch in ([0], [1, 2, 3], [4, 5]):
                await bus.publish_many([("t", n) for n in batch])
            got = []
            async for event in events:
                got.append(event.data)
                if len(got) == 1:
                    got.append((await events.get_one(timeout=1)).data)  # the first of the next batch
                if len(got) == 6:
                    break
            assert got == [0, 1, 2, 3, 4, 5]

    run(main)


def test_batches_have_at_least_one_and_at_most_limit_events():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            await bus.publish_many([("t", n) for n in range(10)])
            got = []
            async for batch in events.batches(limit=4):
                assert 1 <= len(batch) <= 4
                got += numbers(batch)
                if len(got) == 10:
                    break
            assert got == list(range(10))
            for bad in (0, -1, True, 1.5, None):
                with pytest.raises(ConfigError, match="limit="):
                    events.batches(limit=bad)

    run(main)


def test_get_one_gives_up_without_losing_anything():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0)
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await events.get_one(timeout=0.005)
            assert len(events._waiters) <= 1  # nobody waits, and those who did do not pile up
            assert not events.is_idle()
            await bus.publish_many([("t", 1), ("t", 2)])
            assert (await events.get_one(timeout=0)).data == 1
            assert (await events.get_one()).data == 2
            for bad in (-1, float("nan"), float("inf"), True, "1"):
                with pytest.raises(ConfigError, match="timeout="):
                    await events.get_one(timeout=bad)

    run(main)


def test_racing_timeouts_lose_no_event():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            got, misses = [], 0
            publisher = asyncio.create_task(_trickle(bus, 300))
            while len(got) < 300:
                try:
                    got.append((await events.get_one(timeout=0.0002)).data)
                except TimeoutError:
                    misses += 1
            await publisher
            assert got == list(range(300))

    run(main)


async def _trickle(bus, count):
    for n in range(count):
        bus.publish_nowait("t", n)
        await asyncio.sleep(0.0002 if n % 3 else 0)


def test_cancelling_a_waiting_loop_loses_no_event():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            got = []

            async def loop():
                async for event in events:
                    got.append(event.data)  # noqa: PERF401 (what was taken counts, also when cancelled)

            for n in range(20):
                task = asyncio.create_task(loop())
                await asyncio.sleep(0)
                bus.publish_nowait("t", n)
                if n % 2:
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await bus.flush()
            while len(got) < 20:
                got.append((await events.get_one(timeout=1)).data)
            assert got == list(range(20))

    run(main)


def test_a_subscription_that_is_not_open_says_so():
    async def main():
        bus = unisono.connect()
        async with bus:
            events = bus.subscribe("t")
            with pytest.raises(ClosedError, match="not open; use 'async with'"):
                await events.get_one(timeout=1)
            async with events:
                await events.open()  # already is
            assert [event async for event in events] == []
            with pytest.raises(ClosedError, match="is closed"):
                await events.get_one(timeout=1)
            with pytest.raises(ClosedError, match="is closed; make a new one"):
                await events.open()

    run(main)


def test_closing_ends_the_loops_that_wait():
    async def main():
        bus = unisono.connect()
        async with bus:
            events = bus.subscribe("t")
            await events.open()

            async def loop():
                return [event async for event in events]

            tasks = [asyncio.create_task(loop()) for _ in range(2)]
            await until(lambda: len(events._waiters) == 2)
            await events.close()
            assert await asyncio.gather(*tasks) == [[], []]

    run(main)


def test_a_subscription_made_before_the_bus_closed_cannot_be_opened_after():
    async def main():
        bus = unisono.connect()
        async with bus:
            events = bus.subscribe("t")
        with pytest.raises(ClosedError, match="is not open"):
            await events.open()

    run(main)


def test_subscriptions_never_opened_are_not_kept():
    async def main():
        bus = unisono.connect()
        async with bus:
            for _ in range(10):
                bus.subscribe("t")
            assert not bus._open

    run(main)


def test_names_are_unique_while_open():
    async def main():
        bus = unisono.connect()
        async with bus:
            async with bus.subscribe("t", name="me") as mine:
                twin = bus.subscribe("t", name="me")
                with pytest.raises(ConfigError, match="named 'me' is already open; choose another name"):
                    await twin.open()
                await bus.publish("t", 1)  # the first is unharmed
                assert (await mine.get_one(timeout=1)).data == 1
            async with bus.subscribe("t", name="me") as again:
                await bus.publish("t", 2)
                assert numbers(await take(again, 1)) == [2]

    run(main)


@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_a_twin_refused_and_opened_later_hears_only_what_comes_later(order):
    async def main():
        bus = unisono.connect()
        async with bus:
            first = bus.subscribe("t", name="me", order=order)
            await first.open()
            twin = bus.subscribe("t", name="me", order=order)
            with pytest.raises(ConfigError):
                await twin.open()
            await bus.publish("t", 1)
            await first.close()
            async with twin:
                await bus.publish("t", 2)
                assert numbers(await take(twin, 1)) == [2]

    run(main)


@pytest.mark.parametrize("type_", [Order, Struct, Model], ids=["dataclass", "struct", "pydantic"])
def test_payloads_come_back_as_the_type_asked_for(type_):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", type=type_) as typed, bus.subscribe("t") as plain:
            await bus.publish("t", type_(id=7))
            assert (await typed.get_one(timeout=1)).data == type_(id=7)
            assert (await plain.get_one(timeout=1)).data == {"id": 7}

    run(main)


@pytest.mark.parametrize("type_", [Order, Struct, Model, int, list[Order]])
def test_a_payload_of_another_type_is_an_error_where_it_is_looked_at(type_):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", type=type_) as events:
            await bus.publish("t", {"id": "seven"})
            await bus.publish("t", b"\xc1 not MessagePack")
            for event in await take(events, 2):
                for _ in range(2):
                    with pytest.raises(PayloadError, match="is not a "):
                        event.data  # noqa: B018
                assert event.topic == "t"

    run(main)


def test_whatever_a_type_raises_is_a_payload_error():
    class Picky(msgspec.Struct):
        id: int

        def __post_init__(self):
            raise LookupError("no such id")

    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", type=Picky) as events:
            await bus.publish("t", {"id": 1})
            with pytest.raises(PayloadError, match="no such id"):
                (await events.get_one(timeout=1)).data  # noqa: B018

    run(main)


@pytest.mark.parametrize("data", [None, True, 0, -1, 1.5, "text", "", [], {}, [1, {"a": None}], b"", b"raw"])
def test_plain_data_comes_back_as_it_was(data):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            await bus.publish("t", data)
            got = (await events.get_one(timeout=1)).data
            assert got == data
            assert type(got) is type(data)

    run(main)


def test_nobody_can_change_what_another_subscriber_gets():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as first, bus.subscribe("t") as second:
            await bus.publish("t", {"list": [1]})
            event = await first.get_one(timeout=1)
            event.data["list"].append(2)
            event.headers["x"] = "y"
            event.stamp["t"] = 99
            other = await second.get_one(timeout=1)
            assert (other.data, other.headers, other.stamp) == ({"list": [1]}, {}, {"t": 1})

    run(main)


def test_two_buses_meet_at_a_shared_name():
    async def main():
        here, there, elsewhere = (unisono.connect(f"memory://{name}") for name in ("meet", "meet", "apart"))
        async with here, there, elsewhere, here.subscribe("t") as mine, elsewhere.subscribe("t") as other:
            await there.publish("t", "hello")
            assert (await mine.get_one(timeout=1)).data == "hello"
            with pytest.raises(TimeoutError):
                await other.get_one(timeout=0.01)

    run(main)


def test_a_shared_name_outlives_one_of_its_buses():
    async def main():
        here, there = unisono.connect("memory://outlive"), unisono.connect("memory://outlive")
        async with here, here.subscribe("t") as mine:
            async with there:
                await there.publish("t", 1)
            await here.publish("t", 2)
            assert numbers(await take(mine, 2)) == [1, 2]

    run(main)


def test_one_shared_name_in_two_loops_is_refused():
    async def main():
        bus = unisono.connect("memory://two-loops")

        def elsewhere():
            async def open_there():
                async with unisono.connect("memory://two-loops"):
                    pass

            asyncio.run(open_there())

        async with bus, bus.subscribe("t") as events:
            with pytest.raises(ConfigError, match="in use in another event loop"):
                await asyncio.to_thread(elsewhere)
            await bus.publish("t", 1)  # and this one goes on
            assert (await events.get_one(timeout=1)).data == 1

    run(main)


def test_one_shared_name_in_one_loop_after_the_other():
    async def main():
        async with unisono.connect("memory://later-loop?loss=0.1") as bus, bus.subscribe("t") as events:
            await bus.publish("t", 1)
            await events.get_one(timeout=5)
            return bus

    first = run(main)
    run(main)
    assert first.name


def test_a_late_subscriber_gets_only_later_events_in_the_same_order():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a", "b") as early:
            done = asyncio.Event()

            async def publish():
                for n in range(2000):
                    bus.publish_nowait("ab"[n % 2], n)
                    if n % 10 == 0:
                        await asyncio.sleep(0)
                await bus.flush()
                done.set()

            publisher = asyncio.create_task(publish())
            await until(lambda: early.waiting > 500)
            async with bus.subscribe("b", "a") as late:
                joined_at = early.waiting
                await done.wait()
                everything = numbers(await take(early, 2000))
                tail = numbers(await take(late, late.waiting))
                await publisher
            assert everything == list(range(2000))
            assert 0 < len(tail) < 1500
            assert tail == everything[joined_at:]

    run(main)
