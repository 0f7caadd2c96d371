"""What an order does with frames that are not for it, and with events that could make it wait for ever."""

import pytest
from bus_kit import numbers, run, take, take_to_the_end, until

import unisono
from unisono import GapError
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.frames import EpochNotice


@pytest.mark.parametrize("order", ["none", "fifo"])
@pytest.mark.parametrize("url", ["memory://", "memory://?jitter_ms=1"])
def test_an_epoch_is_no_affair_of_who_wants_no_total_order(order, url):
    async def main():
        bus = unisono.connect(url)
        async with bus, bus.subscribe("t", order=order) as events:
            bus._service.publish(("t",), EpochNotice(1, {"t": 0}))
            await bus._service.flush()
            await bus.publish("t", 1)
            assert numbers(await take(events, 1)) == [1]
            assert events.rejected == 0

    run(main)


def test_more_under_way_than_can_be_held_ends_a_subscription_by_name():
    """A reliable service delays, so nothing is asked for again: what is not taken in must not vanish."""

    async def main():
        bus = unisono.connect("memory://?jitter_ms=5&seed=1")
        async with bus:
            events = bus.subscribe("t")
            events._settings = SubscriberSettings(hold_max=10)
            async with events:
                await bus.publish_many([("t", n) for n in range(500)])
                got, error = await take_to_the_end(events)
                assert got == list(range(len(got)))
                assert isinstance(error, GapError)

    run(main)


def test_a_fifo_subscription_holds_nothing_of_a_publisher_that_has_gone():
    async def main():
        here = unisono.connect("memory://gone-publisher?jitter_ms=30&seed=3")
        async with here:
            gone = unisono.connect("memory://gone-publisher?jitter_ms=30&seed=3", name="gone")
            await gone.__aenter__()
            async with here.subscribe("t", order="fifo") as before:
                await gone.publish_many([("t", n) for n in range(20)])
                await gone.close()  # everything is still under way
                async with here.subscribe("t", order="fifo") as after:
                    came = unisono.connect("memory://gone-publisher?jitter_ms=30&seed=3", name="came")
                    async with came:
                        await came.publish_many([("t", n) for n in range(100, 110)])
                    assert sorted(numbers(await take(before, 30))) == [*range(20), *range(100, 110)]
                    assert numbers(await take(after, 10)) == list(range(100, 110))
                    await here._service.flush()
                    await until(lambda: not after._engine.inner.held)
                    assert after.waiting == 0

    run(main)
