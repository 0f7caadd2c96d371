"""Late joiners: what they are told of the past is what everybody else was told."""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
from remote_kit import connect, nodes, run, take
from shell_kit import event_lines, heard, start_nodes

TOPICS = ("orders", "payments", "stock")
EVENTS = int(os.environ.get("REPLAY_EVENTS", "100000"))
PARTS = 3


@pytest.mark.replay
@pytest.mark.timeout(900)
def test_who_comes_late_prints_what_was_printed_from_the_start(shell):
    """Real processes; a node is killed and another comes, subscribers come and go."""
    started = time.monotonic()
    crew = start_nodes(shell, 2)
    patience = ("--count", str(EVENTS), "--idle", "60", "--json")
    first = shell("sub", *TOPICS, *patience)
    first.wait_for_line('"ready"')
    churn = []
    for part in range(PARTS):
        count = EVENTS // PARTS + (EVENTS % PARTS if part == 0 else 0)
        publisher = shell("pub", "--stdin", stdin=event_lines(TOPICS, f"p{part}", count))
        churn.append(shell("sub", *TOPICS[part % 2 : part % 2 + 2], "--json"))
        churn[-1].wait_for_line('"ready"')
        if part == 0:
            crew[0].process.kill()
        if part == 1:
            churn[0].kill()
            crew.append(shell("node", "--name", "n9", "--json"))
        assert publisher.end(timeout=600) == 0, "".join(publisher.errors)
    assert first.end(timeout=300) == 0, "".join(first.errors)
    asked = time.monotonic()
    late = shell("sub", *TOPICS, *patience, "--start", "earliest")
    assert late.end(timeout=300) == 0, "".join(late.errors)
    took_s = time.monotonic() - asked
    told = [(line["id"], line["stamp"]) for line in heard(late)]
    assert len(told) == EVENTS
    assert told == [(line["id"], line["stamp"]) for line in heard(first)]
    print(
        f"\n{EVENTS} events on {len(TOPICS)} topics, a node killed, subscribers coming and going: the late subscriber "
        f"printed the same sequence; {took_s:.1f} s from its start to its end, {time.monotonic() - started:.0f} s in all"
    )


def test_who_comes_late_is_told_what_was_told_from_the_start(nats_url):
    """A node dies and another comes, subscribers come and go; `make replay-check` does it with real processes."""

    async def main():
        async with (
            nodes(nats_url, "n1", "n2") as (one, _),
            AsyncExitStack() as later,
            connect(nats_url, "p") as bus,
            bus.subscribe(*TOPICS) as first,
        ):
            told = []
            for part in range(PARTS):
                events = [(TOPICS[n % 3], n) for n in range(1000)]
                publishing = asyncio.create_task(bus.publish_many(events))
                async with bus.subscribe(*TOPICS[part % 2 : part % 2 + 2]):
                    told += await take(first, 300)
                if part == 0:
                    await one.close()  # it gives nothing away
                if part == 1:
                    await later.enter_async_context(nodes(nats_url, "n9"))
                await publishing
                told += await take(first, 700)
            for start, rest in (("earliest", told), (told[1234].stamp, told[1235:])):
                async with bus.subscribe(*TOPICS, start=start) as late:
                    again = await take(late, len(rest))
                assert [(e.id, e.stamp) for e in again] == [(e.id, e.stamp) for e in rest]

    run(main())


def test_the_past_and_the_present_are_one_sequence(nats_url):
    async def main():
        async with (
            nodes(nats_url, "n1", "n2"),
            connect(nats_url, "p") as bus,
            bus.subscribe(*TOPICS) as first,
        ):
            published = 0

            async def publish(count):
                nonlocal published
                for _ in range(count):
                    await bus.publish(TOPICS[published % 3], published)
                    published += 1

            await publish(150)
            publishing = asyncio.create_task(publish(300))  # while others are told the past
            late = []
            for _ in range(3):
                subscription = bus.subscribe(*TOPICS, start="earliest")
                await subscription.open()
                late.append(subscription)
            await publishing
            everything = [event.id for event in await take(first, 450)]
            for subscription in late:
                told = await take(subscription, 450)
                assert [event.id for event in told] == everything
                assert all(event.in_order and not event.redelivered for event in told)
                await subscription.close()

    run(main())


def test_a_time_and_a_stamp_to_begin_with(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus, bus.subscribe("a", "b") as live:
            for n in range(10):
                await bus.publish("ab"[n % 2], n)
            await asyncio.sleep(0.01)
            then = datetime.now(UTC)
            receipt = await bus.publish("a", 10)
            for n in range(11, 20):
                await bus.publish("ab"[n % 2], n)
            events = await take(live, 20)
            for start, first in (
                (then, 10),
                (then.timestamp(), 10),
                (receipt.stamp, 11),
                (events[14].stamp, 15),
                ({"a": 8, "b": 3}, None),
            ):
                async with bus.subscribe("a", "b", start=start) as late:
                    if first is None:
                        rest = [event for event in events if event.stamp[event.topic] > start[event.topic]]
                    else:
                        rest = events[first:]
                    assert [event.id for event in await take(late, len(rest))] == [e.id for e in rest]

    run(main())


def test_patterns_have_a_past_too(nats_url):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            for n in range(30):
                await bus.publish(f"orders.{n % 3}", n)
            await bus.publish("other", -1)
            async with bus.subscribe("orders.*", start="earliest") as events:
                assert [event.data for event in await take(events, 30)] == list(range(30))
                await bus.publish("orders.new", 30)
                assert (await events.get_one(timeout=10)).data == 30

    run(main())


def test_who_has_been_told_the_past_lives_in_the_present(nats_url):
    """Topics come and go as for anybody else."""

    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await bus.publish("a", 1)
            await bus.publish("b", 2)
            async with bus.subscribe("a", start="earliest") as events:
                assert (await events.get_one(timeout=10)).data == 1
                await events.add("b")  # from now on
                await bus.publish("b", 3)
                assert (await events.get_one(timeout=10)).data == 3

    run(main())


@pytest.mark.parametrize("options", [{}, {"name": "desk", "ack": "auto"}], ids=str)
def test_the_past_waits_for_an_application_that_lags(nats_url, options):
    async def main():
        async with nodes(nats_url, "n1"), connect(nats_url, "p") as bus:
            await bus.publish_many([("a", n) for n in range(6000)])
            async with bus.subscribe("a", start="earliest", queue=50, **options) as events:
                await asyncio.sleep(0.3)
                assert events.waiting < 3000  # a page
                assert [event.data for event in await take(events, 6000)] == list(range(6000))

    run(main())
