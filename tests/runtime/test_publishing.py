"""Publishing: lazily connected, in order, confirmed by receipts, bounded by the outbox."""

import asyncio
import gc
import threading
import weakref

import pytest
from bus_kit import numbers, run, take, until

import unisono
from unisono import BackPressureError, ClosedError, UnconfirmedError, UnisonoError
from unisono.runtime.receipts import FLIGHT_EVENTS_MAX


def test_connect_is_synchronous_and_lazy(tmp_path):
    history = tmp_path / "deep" / "history.jsonl"
    bus = unisono.connect("memory://", name="lazy", record=history)  # no event loop is running
    assert bus.name == "lazy"
    assert not history.parent.exists()


def test_a_published_event_arrives_with_all_it_was_given():
    async def main():
        bus = unisono.connect(name="alice")
        async with bus, bus.subscribe("orders") as events:
            receipt = await bus.publish("orders", {"id": 7}, headers={"trace": "abc"})
            event = await events.get_one(timeout=1)
            assert (event.topic, event.data, event.headers) == ("orders", {"id": 7}, {"trace": "abc"})
            assert event.publisher == "alice"
            assert event.in_order
            assert not event.redelivered
            assert event.missed == 0
            assert event.published_at > 1_700_000_000
            assert event.id == receipt.id
            assert event.stamp == receipt.stamp == {"orders": 1}
            assert "orders" in repr(event)
            assert receipt.id in repr(receipt)

    run(main)


def test_publish_many_keeps_the_order_across_topics():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("a", "b") as events:
            receipts = await bus.publish_many([("ab"[n % 2], n) for n in range(10_000)])
            assert len(receipts) == 10_000
            assert all(receipt.sequenced for receipt in receipts)
            got = []
            async for batch in events.batches():
                got += numbers(batch)
                if len(got) == 10_000:
                    break
            assert got == list(range(10_000))

    run(main)


def test_publish_many_of_nothing():
    async def main():
        async with unisono.connect() as bus:
            assert await bus.publish_many([]) == []

    run(main)


def test_publish_many_ends_at_what_is_refused_and_says_so():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            with pytest.raises(unisono.TopicError):
                await bus.publish_many([("t", 1), ("no good", 2), ("t", 3)])
            with pytest.raises(unisono.ConfigError, match=r"takes \(topic, data\) pairs, not 'x'"):
                await bus.publish_many(["x"])
            await bus.publish("t", 4)
            assert numbers(await take(events, 2)) == [1, 4]

    run(main)


def test_a_receipt_knows_its_place_only_after_it_is_awaited():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t"):
            receipt = bus.publish_nowait("t", 1)
            assert (receipt.topic, receipt.sequenced, receipt.stamp) == ("t", False, {})
            assert await receipt is receipt
            assert await receipt is receipt  # as often as you like
            assert (receipt.sequenced, receipt.stamp) == (True, {"t": 1})

    run(main)


def test_a_receipt_can_be_awaited_by_several_and_given_up_by_one():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", queue=1) as events:
            await bus.publish("t", 0)  # now the queue is full, and the next has to wait
            receipt = bus.publish_nowait("t", 1)

            async def wait():
                return await receipt

            tasks = [asyncio.create_task(wait()) for _ in range(3)]
            await asyncio.sleep(0.005)
            assert not any(task.done() for task in tasks)
            tasks[0].cancel()
            assert numbers(await take(events, 2)) == [0, 1]
            assert await asyncio.gather(*tasks[1:]) == [receipt, receipt]
            assert tasks[0].cancelled()

    run(main)


def test_events_nobody_wants_ordered_have_no_stamp():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", order="none") as events:
            receipt = await bus.publish("t", 1)
            assert receipt.stamp == {}
            assert not receipt.sequenced
            assert (await events.get_one(timeout=1)).stamp == {}

    run(main)


def test_sequenced_and_plain_topics_in_one_turn():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("s") as ordered, bus.subscribe("p", order="none") as plain:
            receipts = [bus.publish_nowait("sp"[n % 2], n) for n in range(6)]
            await bus.flush()
            assert [receipt.stamp for receipt in receipts] == [{"s": 1}, {}, {"s": 2}, {}, {"s": 3}, {}]
            assert numbers(await take(ordered, 3)) == [0, 2, 4]
            assert numbers(await take(plain, 3)) == [1, 3, 5]

    run(main)


def test_the_same_id_never_makes_a_second_event():
    async def main():
        bus = unisono.connect("memory://same-id")
        other = unisono.connect("memory://same-id")
        async with bus, other, bus.subscribe("t", "u") as events:
            first = bus.publish_nowait("t", 1, id="x")
            again = bus.publish_nowait("t", 1, id="x")  # before it has departed
            await first
            later = await other.publish("t", 1, id="x")  # and after, on another bus
            elsewhere = await bus.publish("u", 2, id="x")
            assert first.id == again.id == later.id == elsewhere.id == "x"
            assert later.stamp == first.stamp == {"t": 1}
            assert later.topic == "t"
            assert [r.duplicate for r in (first, again, later, elsewhere)] == [False, True, True, False]
            assert numbers(await take(events, 2)) == [1, 2]
            with pytest.raises(TimeoutError):
                await events.get_one(timeout=0.01)

    run(main)


def test_an_id_that_never_departed_may_be_published_again():
    async def main():
        bus, other = unisono.connect("memory://again"), unisono.connect("memory://again")
        async with other, other.subscribe("t", queue=1) as events:
            async with bus:
                await bus.publish("t", 0)
                lost = bus.publish_nowait("t", 1, id="x")
                await bus.close()
            with pytest.raises(ClosedError, match="closed before the event was sent; publish it again"):
                await lost
            assert (await events.get_one(timeout=1)).data == 0
            assert (await other.publish("t", 1, id="x")).sequenced
            assert (await events.get_one(timeout=1)).data == 1

    run(main)


def test_a_remembered_id_does_not_keep_payloads():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", order="none", slow="drop", queue=1):
            receipt = bus.publish_nowait("t", b"x" * 1000, id="x")
            await bus.flush()
            (kept,) = bus._hub.ids._receipts.values()
            assert b"x" * 1000 not in kept
            again = bus.publish_nowait("t", b"y", id="x")
            assert again._flight is not receipt._flight
            assert again._flight.publications[0].body == b""
            assert (again.id, again.topic, again.stamp, again.duplicate) == ("x", "t", receipt.stamp, True)

    run(main)


def test_the_outbox_is_bounded():
    async def main():
        bus = unisono.connect(outbox=10)
        async with bus:
            for n in range(10):
                bus.publish_nowait("t", n)
            with pytest.raises(BackPressureError, match=r"'await bus.flush\(\)' makes room"):
                bus.publish_nowait("t", 10)
            await bus.flush()
            bus.publish_nowait("t", 10)

    run(main)


def test_publish_waits_for_room_whoever_else_publishes():
    async def main():
        bus = unisono.connect(outbox=2)
        async with bus, bus.subscribe("t", queue=1) as events:

            async def publish(n):
                await bus.publish("t", n)

            tasks = [asyncio.create_task(publish(n)) for n in range(20)]
            got = numbers(await take(events, 20))
            await asyncio.gather(*tasks)
            assert sorted(got) == list(range(20))

    run(main)


def test_no_confirmation_in_time_says_what_to_do():
    async def main():
        bus = unisono.connect(publish_timeout=0.02, outbox=1)
        async with bus, bus.subscribe("t", queue=1, name="sloth"):
            await bus.publish("t", 0)
            with pytest.raises(UnconfirmedError, match="retry with id='k'"):
                await bus.publish("t", 1, id="k")
            with pytest.raises(BackPressureError, match=r"no room for an event on 't' within 0\.02 s"):
                await bus.publish("t", 2)
            await bus.close()

    run(main)


def test_flush_waits_for_what_was_published_before_it_and_no_longer():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", queue=1) as events:
            await bus.publish("t", 0)
            for n in range(FLIGHT_EVENTS_MAX):
                mine = bus.publish_nowait("t", n)
            flushing = asyncio.create_task(bus.flush())
            await asyncio.sleep(0)
            later = bus.publish_nowait("t", "later")
            await asyncio.sleep(0.002)
            assert not flushing.done()
            await events.get_one(timeout=1)  # makes room for one flight
            async with asyncio.timeout(1):
                await flushing
            assert mine.sequenced
            assert not later.sequenced
            await bus.close()

    run(main)


def test_flush_of_a_bus_closed_meanwhile_does_not_say_all_is_well():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", queue=1):
            await bus.publish("t", 0)
            bus.publish_nowait("t", 1)
            flushing = asyncio.create_task(bus.flush())
            await asyncio.sleep(0.002)
            await bus.close()
            with pytest.raises(ClosedError):
                await flushing

    run(main)


def test_giving_up_flush_again_and_again_piles_nothing_up():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t", queue=1) as events:
            await bus.publish("t", 0)
            bus.publish_nowait("t", 1)
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await bus.flush()
            assert len(bus._hub._parked) == 1
            assert numbers(await take(events, 2)) == [0, 1]

    run(main)


@pytest.mark.parametrize(
    "method", ["publish", "publish_nowait", "publish_many", "flush", "drain", "run", "subscribe"]
)
@pytest.mark.parametrize("state", ["new", "closed"])
def test_a_bus_that_is_not_open_says_so(method, state):
    arguments = {
        "publish": ("t", 1),
        "publish_nowait": ("t", 1),
        "publish_many": ([("t", 1)],),
        "subscribe": ("t",),
    }
    if (method, state) == ("run", "new"):
        pytest.skip("run opens the bus")

    async def main():
        bus = unisono.connect(name="shut")
        if state == "closed":
            async with bus:
                pass
        with pytest.raises(ClosedError, match=r"'shut' is .*use 'async with bus:'"):
            await getattr(bus, method)(*arguments.get(method, ()))

    run(main)


def test_publishing_from_another_thread_is_refused_by_name():
    async def main():
        bus = unisono.connect()
        async with bus:
            raised = []

            def work():
                try:
                    bus.publish_nowait("t", 1)
                except UnisonoError as error:
                    raised.append(error)

            thread = threading.Thread(target=work)
            thread.start()
            await until(lambda: raised)
            thread.join()
            assert "run_coroutine_threadsafe" in str(raised[0])

    run(main)


def test_a_service_that_fails_to_take_an_event_fails_its_receipt_and_nothing_else(caplog):
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t"):
            publish, bus._service.publish = bus._service.publish, None
            broken = bus.publish_nowait("t", 1)
            with pytest.raises(UnconfirmedError, match="the service did not take the event"):
                await broken
            bus._service.publish = publish
            assert (await bus.publish("t", 2)).sequenced

    run(main)


def test_two_buses_of_one_name_publish_different_events():
    async def main():
        first, second = (unisono.connect("memory://twins", name="twin") for _ in range(2))
        async with first, second, first.subscribe("t", order="fifo") as events:
            receipts = [await first.publish("t", 1), await second.publish("t", 2)]
            assert receipts[0].id != receipts[1].id
            assert numbers(await take(events, 2)) == [1, 2]

    run(main)


def test_a_dropped_bus_is_garbage():
    async def main():
        bus = unisono.connect()
        async with bus, bus.subscribe("t") as events:
            await bus.publish("t", b"x" * 1000)
            await events.get_one(timeout=1)
        return weakref.ref(bus), weakref.ref(bus._service)

    refs = run(main)
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
