"""The promises, judged on what real buses recorded, over services that delay, lose and double."""

import asyncio
import itertools

import msgspec
import pytest
from bus_kit import PATIENCE_S, assert_held, run, until

import unisono
from unisono import ConfigError, GapError
from unisono.history import Kind, judge, read_history

TOPICS = ("a", "b", "c", "d")
TOTAL = (
    "no_creation",
    "no_duplication",
    "publisher_fifo",
    "total_notification_order",
    "tags",
)
services = itertools.count()


async def play(url, options, *, events=60, publishers=2, records=None):
    """Several buses publish at once on a shared service; subscribers of overlapping topics take what comes."""
    records = [] if records is None else records
    name = f"memory://play{next(services)}{url.removeprefix('memory://')}"
    buses = [unisono.connect(name, name=f"p{n}", record=records) for n in range(publishers)]
    for bus in buses:
        await bus.__aenter__()
    wanted = [("a", "b"), ("b", "a", "c"), ("c", "d", "a"), TOPICS]
    subscriptions = [buses[0].subscribe(*topics, name=f"s{n}", **options) for n, topics in enumerate(wanted)]
    for subscription in subscriptions:
        await subscription.open()
    took = [[] for _ in subscriptions]

    async def take(subscription, into):
        async for event in subscription:
            into.append(event)

    async def publish(bus):
        for n in range(events):
            bus.publish_nowait(TOPICS[n % 4], n)
            if n % 3 == 0:
                await asyncio.sleep(0.0005)
        await bus.flush()

    takers = [asyncio.create_task(take(s, t)) for s, t in zip(subscriptions, took, strict=True)]
    await asyncio.gather(*(publish(bus) for bus in buses))
    owed = [publishers * events // 4 * len(topics) for topics in wanted]

    def is_over():
        return all(
            task.done() or len(t) + s.dropped + s.lost >= n
            for task, s, t, n in zip(takers, subscriptions, took, owed, strict=True)
        )

    await until(is_over, PATIENCE_S)
    unsubscribed = list(records)
    for bus in buses:
        await bus.close()
    outcomes = await asyncio.gather(*takers, return_exceptions=True)
    return unsubscribed, took, owed, outcomes, subscriptions


SERVICES = [
    "memory://",
    "memory://?jitter_ms=5&seed=1",
    "memory://?jitter_ms=5&duplicate=0.3&seed=2",
    "memory://?jitter_ms=5&loss=0.2&seed=3",
    "memory://?jitter_ms=5&loss=0.2&duplicate=0.2&seed=4",
    "memory://?loss=0.5&seed=5",
]


@pytest.mark.parametrize("url", SERVICES)
def test_total_order_waits_and_nothing_is_lost(url):
    async def main():
        records, took, owed, *_ = await play(url, {"order": "total"})
        assert [len(events) for events in took] == owed
        assert all(event.in_order for events in took for event in events)
        assert_held(records, *TOTAL, "nothing_lost")

    run(main)


@pytest.mark.parametrize("order", ["causal", "total_causal"])
@pytest.mark.parametrize("url", SERVICES[:1] + SERVICES[4:5])
def test_causal_orders(url, order):
    async def main():
        records, took, owed, *_ = await play(url, {"order": order})
        assert [len(events) for events in took] == owed
        assert_held(records, "causal_order", "no_duplication", "publisher_fifo", "nothing_lost")
        if order == "total_causal":
            assert_held(records, *TOTAL, "acyclic_order")

    run(main)


@pytest.mark.parametrize("url", SERVICES[3:5])
@pytest.mark.parametrize(
    "options",
    [
        {"on_gap": "tag"},
        {"on_gap": "tag", "buffer": 8},
        {"on_gap": "tag", "max_hold": 0.01},
        {"on_gap": "tag", "buffer": 8, "max_hold": 0.01},
    ],
)
def test_tag_delivers_everything_and_tags_what_deserves_it(url, options):
    async def main():
        records, took, owed, *_ = await play(url, options)
        assert [len(events) for events in took] == owed
        assert_held(records, *TOTAL, "nothing_lost")
        if options == {"on_gap": "tag"}:
            assert any(not event.in_order for events in took for event in events)

    run(main)


@pytest.mark.parametrize("url", SERVICES[3:5])
@pytest.mark.parametrize("options", [{}, {"buffer": 8}, {"max_hold": 0.01}])
def test_skip_never_breaks_the_order_and_accounts_for_what_it_dropped(url, options):
    async def main():
        records, took, owed, _, subscriptions = await play(url, {"on_gap": "skip"} | options)
        assert all(event.in_order for events in took for event in events)
        assert [len(t) + s.dropped + s.lost for t, s in zip(took, subscriptions, strict=True)] == owed
        dropped = [record for record in records if record.kind == Kind.DROPPED]
        assert len(dropped) == sum(s.dropped for s in subscriptions)
        assert_held(records, *TOTAL, "nothing_lost")

    run(main)


def test_skip_tells_the_next_event_how_many_were_missed():
    async def main():
        _, took, _, _, subscriptions = await play("memory://?jitter_ms=8&seed=6", {"on_gap": "skip"})
        dropped = sum(s.dropped for s in subscriptions)
        assert dropped > 0
        told = sum(event.missed for events in took for event in events)
        assert told + sum(s._missed for s in subscriptions) == dropped

    run(main)


def test_fail_ends_where_wait_would_wait_too_long():
    async def main():
        options = {"on_gap": "fail", "max_hold": 0.001}
        records, _, _, outcomes, _ = await play("memory://?jitter_ms=20&loss=0.3&seed=7", options)
        assert all(isinstance(outcome, GapError) for outcome in outcomes), outcomes
        assert "waited 0.001 s for an event of" in str(outcomes[0])
        assert_held(records, *TOTAL)

    run(main)


@pytest.mark.parametrize("url", SERVICES[:3])
def test_fifo_keeps_each_publishers_order_and_every_event(url):
    async def main():
        records, took, owed, *_ = await play(url, {"order": "fifo"})
        assert [len(events) for events in took] == owed
        assert_held(records, "publisher_fifo", "no_duplication", "no_creation")

    run(main)


def test_fifo_may_skip_or_tag_on_a_lossy_service():
    async def main():
        for on_gap in ("skip", "tag"):
            bus = unisono.connect("memory://?loss=0.2&jitter_ms=3&seed=8")
            async with bus, bus.subscribe("t", order="fifo", on_gap=on_gap, max_hold=0.005) as events:
                await bus.publish_many([("t", n) for n in range(100)])
                await bus.drain()
                await asyncio.sleep(0.02)
                got = [await events.get_one(timeout=1) for _ in range(events.waiting)]
                clean = [event.data for event in got if event.in_order]
                assert clean == sorted(set(clean))
                assert 50 < len(clean) < 100

    run(main)


@pytest.mark.parametrize("on_gap", ["wait", "fail"])
def test_fifo_does_not_wait_for_what_is_lost_for_ever(on_gap):
    async def main():
        bus = unisono.connect("memory://?loss=0.1")
        async with bus:
            with pytest.raises(
                ConfigError, match="use on_gap='skip' with max_hold=, or order='total', which repairs"
            ):
                bus.subscribe("t", order="fifo", on_gap=on_gap)

    run(main)


def test_a_late_fifo_subscriber_hears_what_comes_later():
    async def main():
        bus = unisono.connect("memory://?jitter_ms=5&seed=9")
        async with bus:
            await bus.publish_many([("t", n) for n in range(10)])
            bus.publish_nowait("t", 10)  # still waits to be sent: owed
            async with bus.subscribe("t", order="fifo") as events:
                await bus.publish_many([("t", n) for n in range(11, 20)])
                got = [(await events.get_one(timeout=5)).data for _ in range(10)]
                assert got == list(range(10, 20))

    run(main)


def test_none_delivers_at_once_whatever_the_order():
    async def main():
        bus = unisono.connect("memory://?jitter_ms=10&seed=1")
        async with bus, bus.subscribe("t", order="none") as events:
            await bus.publish_many([("t", n) for n in range(50)])
            await bus.drain()
            got = [(await events.get_one(timeout=1)).data for _ in range(50)]
            assert sorted(got) == list(range(50)) != got

    run(main)


def test_orders_can_be_mixed_on_one_topic():
    async def main():
        records = []
        bus = unisono.connect("memory://?jitter_ms=5&loss=0.1&seed=2", record=records)
        async with bus:
            subscriptions = [
                bus.subscribe("a", "b", order="total", name="t1"),
                bus.subscribe("a", "b", order="total", on_gap="tag", name="t2"),
                bus.subscribe("a", order="none", name="n"),
                bus.subscribe("b", order="fifo", on_gap="skip", max_hold=0.01, name="f"),
            ]
            for subscription in subscriptions:
                await subscription.open()
            await bus.publish_many([("ab"[n % 2], n) for n in range(100)])
            got = [(await subscriptions[0].get_one(timeout=5)).data for _ in range(100)]
            assert got == list(range(100))
            tagged = [await subscriptions[1].get_one(timeout=5) for _ in range(100)]
            assert sorted(event.data for event in tagged) == got
        assert_held(records, *TOTAL)

    run(main)


def test_a_history_in_a_file_is_read_and_judged(tmp_path):
    path = tmp_path / "runs" / "history.jsonl"

    async def main():
        bus = unisono.connect("memory://?jitter_ms=3&loss=0.1&seed=3", record=path)
        async with bus, bus.subscribe("a", "b") as first, bus.subscribe("a", "b") as second:
            await bus.publish_many([("ab"[n % 2], n) for n in range(700)])
            for events in (first, second):
                async for event in events:
                    if event.data == 699:
                        break

    run(main)
    records = read_history(path)
    assert {record.kind for record in records} >= {
        Kind.PUBLISHED,
        Kind.SEQUENCED,
        Kind.SUBSCRIBED,
        Kind.DELIVERED,
        Kind.UNSUBSCRIBED,
    }
    assert sum(record.kind is Kind.DELIVERED for record in records) == 1400
    assert_held(records, *TOTAL, "nothing_lost")


def test_a_history_grows_by_appending(tmp_path):
    path = tmp_path / "history.jsonl"

    async def main():
        async with unisono.connect(record=str(path)) as bus:
            await bus.publish("t", 1)

    run(main)
    run(main)
    assert len(read_history(path)) == 2


def test_a_history_that_cannot_be_written_is_refused_or_ended(tmp_path, caplog):
    (tmp_path / "file").write_text("")

    async def main():
        for bad in (tmp_path, tmp_path / "file" / "history"):
            bus = unisono.connect(record=bad)
            with pytest.raises(ConfigError, match=r"cannot record to .*choose another path"):
                async with bus:
                    pass
        bus = unisono.connect(record="/dev/full")
        async with bus, bus.subscribe("t") as events:  # a full disk ends the recording, not the bus
            for n in range(1500):
                bus.publish_nowait("t", n)
            await bus.flush()
            assert (await events.get_one(timeout=1)).data == 0

    run(main)
    assert "recording to '/dev/full' has ended" in caplog.text
    with pytest.raises(ConfigError, match="takes a path or a list, not int"):
        unisono.connect(record=7)


def test_the_judges_would_see_a_violation():
    """The test above means something: the same history with two deliveries exchanged is refused."""

    async def main():
        records, *_ = await play("memory://", {"order": "total"})
        return records

    records = run(main)
    mine = [n for n, r in enumerate(records) if r.kind is Kind.DELIVERED and r.subscription == "s3"]
    i, j = mine[10], mine[11]
    first, second = records[i], records[j]
    swap = {"event": second.event, "topic": second.topic, "number": second.number, "stamp": second.stamp}
    back = {"event": first.event, "topic": first.topic, "number": first.number, "stamp": first.stamp}
    records[i] = msgspec.structs.replace(first, **swap)
    records[j] = msgspec.structs.replace(second, **back)
    assert any(verdict.outcome == "violated" for verdict in judge(records, TOTAL))
