"""`unisono sub`: listen from the shell."""

from __future__ import annotations

import asyncio
import base64
import signal
import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

import unisono
from unisono.cli.acknowledging import Acknowledger
from unisono.cli.journals import JournalFolder, JournalSeconds, journal_of
from unisono.cli.loop import run_loop
from unisono.cli.observing import MetricsPort, pages
from unisono.cli.output import Json, people
from unisono.cli.settings import Durability, Nodes, Url, load
from unisono.model.errors import UnconfirmedError
from unisono.model.event import Event
from unisono.observability.metrics import Registry
from unisono.runtime.bus import Bus
from unisono.runtime.starts import parse_start

BEHIND_MAX = 10  # times --idle that something may be on its way without coming


def sub(
    topics: Annotated[list[str], typer.Argument(help="Topics and patterns (orders.*, orders.>).")],
    url: Url = None,
    order: Annotated[str, typer.Option(help="none, fifo, causal, total or total_causal.")] = "total",
    on_gap: Annotated[str, typer.Option(help="wait, tag, skip or fail.")] = "wait",
    buffer: Annotated[int, typer.Option(help="Events held before the oldest is let go (tag, skip).")] = 0,
    max_hold: Annotated[float | None, typer.Option(help="Seconds an event is held at most.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Who listens; with --ack, the durable subscriber whose place is kept.")
    ] = None,
    ack: Annotated[
        str | None,
        typer.Option(
            help="Keep a place. auto: what was printed is acknowledged; manual: ids read from stdin are."
        ),
    ] = None,
    held: Annotated[str, typer.Option(help="refuse or take, if another process holds the place.")] = "refuse",
    start: Annotated[
        str,
        typer.Option(help="Begin with what is new, the earliest event kept, a time (ISO 8601), or a stamp."),
    ] = "new",
    gone: Annotated[
        str, typer.Option(help="fail or skip, if what it has not had is not kept any more.")
    ] = "fail",
    where: Annotated[
        str | None, typer.Option(help="Only events whose content matches, such as 'price > 100'.")
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            help="Seconds for which an event is of use: causal, in time or not at all; total, late ones tagged or left out."
        ),
    ] = None,
    nodes: Nodes = True,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    idle: Annotated[float | None, typer.Option(help="End after so many seconds without an event.")] = None,
    durability: Durability = None,
    journal: JournalFolder = None,
    journal_seconds: JournalSeconds = None,
    metrics_port: MetricsPort = None,
    json: Json = False,
) -> None:
    """Print events in their order: one line each, until stopped."""
    settings, registry = load({"url": url, "durability": durability}), Registry()
    bus = unisono.connect(
        settings.url,
        name=name if ack is None else None,
        durability=settings.durability,
        sequencer=settings.sequencer,
        journal=journal_of(journal, journal_seconds),
        metrics=None if metrics_port is None else registry,
        trace=settings.trace_ratio,
        nodes=nodes,
    )
    options: dict[str, Any] = {"order": order, "on_gap": on_gap, "buffer": buffer, "max_hold": max_hold}
    options |= {"start": parse_start(start), "ack": ack, "held": held, "gone": gone}
    options |= {} if ack is None else {"name": name}
    options |= {"where": where, "deadline": deadline}

    async def listen() -> None:
        async with pages(registry, settings, metrics_port) as at:
            await _listen(bus, topics, options, count=count, idle=idle, json=json, at=at)

    run_loop(listen())


async def _listen(
    bus: Bus,
    topics: list[str],
    options: dict[str, Any],
    *,
    count: int | None,
    idle: float | None,
    json: bool,
    at: str | None,
) -> None:
    async with bus, bus.subscribe(*topics, **options) as events:
        task = asyncio.current_task()
        assert task is not None
        stopped = False

        def stop() -> None:
            nonlocal stopped
            stopped = True
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        if json:
            _write(msgspec.json.encode({"ready": True} | ({} if at is None else {"metrics": at})))
        else:
            people.print(f"listening to {escape(', '.join(topics))}")
            if at is not None:
                people.print(f"metrics: {at}")
        left = count
        acknowledger = Acknowledger(events) if options["ack"] == "manual" else None
        try:
            while left is None or left > 0:
                batch = await _next_batch(events, left, idle)
                if not batch:
                    return
                for event in batch:
                    _show(event, json=json)
                    if acknowledger is not None:
                        acknowledger.shown(event)
                sys.stdout.flush()
                left = None if left is None else left - len(batch)
        except asyncio.CancelledError:
            if not stopped:
                raise
            task.uncancel()


async def _next_batch(events: Any, left: int | None, idle: float | None) -> list[Event[Any]]:
    """What comes next; nothing if nothing has come for a while, and nothing is on its way."""
    for _ in range(BEHIND_MAX):
        try:
            async with asyncio.timeout(idle):
                async for batch in events.batches(1024 if left is None else min(left, 1024)):
                    return batch  # type: ignore[no-any-return]
                return []
        except TimeoutError:
            if not events.is_behind:
                return []
    raise UnconfirmedError(
        "nothing comes, and something is still on its way; look at the nodes (`unisono topics`)"
    )


def _show(event: Event[Any], *, json: bool) -> None:
    if not json:
        late = "" if event.in_order else "  (out of order)"
        late += "  (late)" if event.late else ""
        again = "  (again, perhaps)" if event.redelivered else ""
        people.print(f"{escape(event.topic)}  {escape(str(event.data))}{late}{again}", soft_wrap=True)
        return
    line = {
        "id": event.id,
        "topic": event.topic,
        "publisher": event.publisher,
        "data": _plain(event.data),
        "in_order": event.in_order,
        "stamp": event.stamp,
        "headers": event.headers,
        "published_at": event.published_at,
        "missed": event.missed,
        "redelivered": event.redelivered,
        "deadline": event.deadline,
        "late": event.late,
        "waited": event.waited,
    }
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")


def _plain(data: Any) -> Any:
    """What JSON can say: bytes that are text as text, others as base64."""
    if isinstance(data, bytes):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode()}
    return data


def _write(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()
