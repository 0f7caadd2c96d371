"""`unisono bench core`: how fast the in-process bus is, total order beside none, through the public API."""

from __future__ import annotations

import asyncio
import gc
import resource
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from unisono import Bus, Subscription, connect
from unisono.cli.loop import run_loop
from unisono.cli.output import Json, finish, people, print_json, progress

app = typer.Typer(no_args_is_help=True, help="Measure.")

PAYLOAD = b"x" * 100
TOPICS, SUBSCRIBERS = 5, 4
TOTAL_EVENTS_S_MIN = 300_000
RATIO_MIN = 0.5
FLAT_RATIO_MAX = 1.5
SLOW_QUEUE = 1000
FLUSH_EVERY = 4096

Figures = dict[str, Any]


@app.callback()
def main() -> None:
    """Measure, and say whether the targets were met."""


async def _publish(bus: Bus, topics: list[str], events: int) -> None:
    """Events one by one through `publish_nowait`, with a flush now and then."""
    publish, count = bus.publish_nowait, len(topics)
    for i in range(events):
        publish(topics[i % count], PAYLOAD)
        if i % FLUSH_EVERY == 0:
            await bus.flush()
    await bus.flush()


async def _publish_many(bus: Bus, topics: list[str], events: int) -> None:
    for start in range(0, events, FLUSH_EVERY):
        chunk = range(start, min(start + FLUSH_EVERY, events))
        await bus.publish_many((topics[i % len(topics)], PAYLOAD) for i in chunk)


async def _take(subscription: Subscription, events: int) -> None:
    async for _ in subscription:
        events -= 1
        if not events:
            return


async def _take_batches(subscription: Subscription, events: int) -> None:
    async for batch in subscription.batches():
        events -= len(batch)
        if not events:
            return


async def seconds(
    topics: list[str],
    subscribed: Iterable[list[str]],
    order: str,
    events: int,
    *,
    batches: bool = False,
    journal: Path | None = None,
) -> float:
    """Seconds from the first publish until every subscriber has taken its last event."""
    bus = connect("memory://", journal=journal)
    publish, take = (_publish_many, _take_batches) if batches else (_publish, _take)
    async with bus:
        takers, subscriptions = [], []
        for mine in subscribed:
            subscription = bus.subscribe(*mine, order=order)
            await subscription.open()
            subscriptions.append(subscription)
            share = sum(topics[i % len(topics)] in set(mine) for i in range(len(topics))) * (
                events // len(topics)
            )
            takers.append(asyncio.create_task(take(subscription, share)))
        gc.collect()
        started = time.perf_counter()
        await publish(bus, topics, events)
        await asyncio.gather(*takers)
        seconds = time.perf_counter() - started
        for subscription in subscriptions:
            await subscription.close()
    return seconds


def _speed(order: str, events: int, repeats: int, *, batches: bool = False) -> float:
    """Median events per second, every subscriber taking all topics."""
    topics = [f"topic.{i}" for i in range(TOPICS)]
    runs = [
        events / run_loop(seconds(topics, [topics] * SUBSCRIBERS, order, events, batches=batches))
        for _ in range(repeats)
    ]
    return statistics.median(runs)


def _independent(topics_count: int, events: int, subscriptions: int) -> float:
    """Microseconds per event when no two subscriptions share a topic."""
    topics = [f"topic.{i}" for i in range(topics_count)]
    shares = [topics[i::subscriptions] for i in range(subscriptions)]
    runs = [run_loop(seconds(topics, shares, "total", events)) for _ in range(3)]
    return statistics.median(runs) / events * 1e6


async def _slow_consumer(events: int) -> Figures:
    """One subscriber takes nothing until the publisher is held up; memory must not grow with what is published."""
    bus, held_up = connect("memory://"), 0
    async with bus, bus.subscribe("topic", order="total", queue=SLOW_QUEUE) as slow:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taker: asyncio.Task[None] | None = None
        waiting_max = 0
        for i in range(events):
            try:
                bus.publish_nowait("topic", PAYLOAD)
            except Exception:
                held_up += 1
                taker = taker or asyncio.create_task(_take(slow, events))
                await bus.flush()
                bus.publish_nowait("topic", PAYLOAD)
            if i % 512 == 0:
                await asyncio.sleep(0)
            waiting_max = max(waiting_max, slow.waiting)
        taker = taker or asyncio.create_task(_take(slow, events))
        await bus.flush()
        await taker
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "published": events,
        "queue": SLOW_QUEUE,
        "waiting_max": waiting_max,
        "publisher_held_up": held_up,
        "grown_mib": round((after - before) / 1024, 1),
    }


@app.command()
def core(
    events: Annotated[int, typer.Option(min=5000, help="Events in each speed run.")] = 200_000,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of which the median counts.")] = 5,
    json: Json = False,
) -> None:
    """The in-process bus: 5 topics, 4 subscribers of all, 100-byte payloads, events one by one."""
    steps = 12
    with progress("bench core", steps) as tell:
        done = 0

        def step(value: Any) -> Any:
            nonlocal done
            done += 1
            tell(done, steps)
            return value

        events -= events % 1000
        none = step(_speed("none", events, repeats))
        total = step(_speed("total", events, repeats))
        result: Figures = {
            "none_events_s": round(none),
            "total_events_s": round(total),
            "ratio": round(total / none, 3),
            "batch_calls": {
                "none_events_s": round(step(_speed("none", events, repeats, batches=True))),
                "total_events_s": round(step(_speed("total", events, repeats, batches=True))),
            },
            "us_per_event_by_topics": {
                str(n): round(step(_independent(n, events, 4)), 3) for n in (5, 50, 500)
            },
            "us_per_event_by_subscriptions": {
                str(n): round(step(_independent(n, events, n)), 3) for n in (5, 500)
            },
            "us_per_event_by_events": {
                str(n): round(step(1e6 / _speed("total", n, 3)), 3) for n in (10_000, 100_000, 1_000_000)
            },
        }
        result["slow_consumer"] = run_loop(_slow_consumer(events))
    result["missed"] = _missed(result)
    if json:
        print_json(result)
    else:
        _show(result)
    finish(held=not result["missed"])


def _missed(result: Figures) -> list[str]:
    """The targets that were not met, in words."""
    missed = []
    if result["total_events_s"] < TOTAL_EVENTS_S_MIN:
        missed.append(f"total order at {result['total_events_s']:,} events/s, target {TOTAL_EVENTS_S_MIN:,}")
    if result["ratio"] < RATIO_MIN:
        missed.append(f"total order at {result['ratio']:.2f} of the speed of none, target {RATIO_MIN}")
    for key in ("us_per_event_by_topics", "us_per_event_by_events"):
        costs = list(result[key].values())
        if max(costs[1:]) > FLAT_RATIO_MAX * costs[0]:
            missed.append(f"{key} is not flat: {result[key]}")
    slow = result["slow_consumer"]
    if slow["waiting_max"] > slow["queue"] + FLUSH_EVERY:
        missed.append(f"a slow consumer's queue grew to {slow['waiting_max']}")
    return missed


def _show(result: Figures) -> None:
    table = Table(
        title="in-process bus, 5 topics, 4 subscribers of all, 100-byte payloads", show_header=False
    )
    table.add_column()
    table.add_column(justify="right")
    table.add_row("order none, one by one", f"{result['none_events_s']:,} events/s")
    table.add_row("order total, one by one", f"{result['total_events_s']:,} events/s")
    table.add_row("ratio", f"{result['ratio']:.2f}")
    batch = result["batch_calls"]
    table.add_row("order none, batch calls", f"{batch['none_events_s']:,} events/s")
    table.add_row("order total, batch calls", f"{batch['total_events_s']:,} events/s")
    for topics, cost in result["us_per_event_by_topics"].items():
        table.add_row(f"{topics} independent topics, 4 subscriptions", f"{cost:.2f} µs/event")
    for count, cost in result["us_per_event_by_subscriptions"].items():
        table.add_row(f"{count} independent topics, a subscription each", f"{cost:.2f} µs/event")
    for events, cost in result["us_per_event_by_events"].items():
        table.add_row(f"{int(events):,} events", f"{cost:.2f} µs/event")
    slow = result["slow_consumer"]
    table.add_row(f"slow consumer, queue of {slow['queue']}", f"at most {slow['waiting_max']} waiting")
    people.print(table)
    for line in result["missed"]:
        people.print(f"[bold red]missed[/]: {line}")
