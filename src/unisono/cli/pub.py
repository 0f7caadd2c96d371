"""`unisono pub`: publish from the shell."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
import typer

import unisono
from unisono.cli.journals import JournalFolder, JournalSeconds, journal_of
from unisono.cli.loop import run_loop
from unisono.cli.observing import MetricsPort, pages
from unisono.cli.output import Json, finish, people
from unisono.cli.settings import Durability, Nodes, Url, load
from unisono.model.errors import ConfigError, UnconfirmedError
from unisono.observability.metrics import Registry
from unisono.runtime.bus import Bus
from unisono.runtime.receipts import Receipt

WINDOW = 4096  # events without confirmation


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One event on standard input."""

    topic: str
    data: Any
    id: str | None = None
    headers: dict[str, str] | None = None
    deadline: float | None = None


def pub(
    topic: Annotated[str | None, typer.Argument(help="The topic; with --stdin leave it out.")] = None,
    data: Annotated[str | None, typer.Argument(help="The payload: JSON, or else a string.")] = None,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Read JSON lines with topic, data[, id, headers, deadline].")
    ] = False,
    url: Url = None,
    name: Annotated[str | None, typer.Option(help="Who publishes.")] = None,
    id: Annotated[str | None, typer.Option(help="An id that makes a retry safe.")] = None,
    deadline: Annotated[
        float | None,
        typer.Option(help="Seconds for which the event is of use; of every line that does not say itself."),
    ] = None,
    nodes: Nodes = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a confirmation.")] = 30.0,
    durability: Durability = None,
    journal: JournalFolder = None,
    journal_seconds: JournalSeconds = None,
    metrics_port: MetricsPort = None,
    json: Json = False,
) -> None:
    """Publish one event, or every line of standard input; exits 0 when all are acknowledged."""
    if stdin == (topic is not None) or (topic is not None and data is None):
        raise ConfigError("name a topic and its data, or give --stdin and write JSON lines")
    settings, registry = load({"url": url, "durability": durability}), Registry()
    bus = unisono.connect(
        settings.url,
        name=name,
        publish_timeout=timeout,
        durability=settings.durability,
        sequencer=settings.sequencer,
        journal=journal_of(journal, journal_seconds),
        metrics=None if metrics_port is None else registry,
        trace=settings.trace_ratio,
        nodes=nodes,
    )
    lines = (
        _read_lines(deadline) if stdin else _one(Line(topic or "", _payload(data or ""), id, None, deadline))
    )

    async def publish() -> int:
        async with pages(registry, settings, metrics_port) as at:
            if at is not None:
                people.print(f"metrics: {at}")
            return await _publish(bus, lines, timeout, json=json)

    published = run_loop(publish())
    if not json:
        people.print(f"{published:,} published")


async def _publish(bus: Bus, lines: AsyncIterator[Line], timeout: float, *, json: bool) -> int:
    published = 0
    waiting: list[Receipt] = []
    async with bus:
        async for line in lines:
            receipt = bus.publish_nowait(
                line.topic, line.data, id=line.id, headers=line.headers, deadline=line.deadline
            )
            waiting.append(receipt)
            if len(waiting) >= WINDOW:
                published += await _confirm(waiting, timeout, json=json)
        published += await _confirm(waiting, timeout, json=json)
    return published


async def _confirm(waiting: list[Receipt], timeout: float, *, json: bool) -> int:
    try:
        async with asyncio.timeout(timeout):
            for receipt in waiting:
                await receipt
                if json:
                    line = {"id": receipt.id, "topic": receipt.topic, "stamp": receipt.stamp}
                    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    except TimeoutError:
        late = sum(not receipt.sequenced for receipt in waiting)
        people.print(f"{late:,} events were not confirmed within {timeout:g} s; retry with their ids")
        finish(held=False)
    except UnconfirmedError as error:
        people.print(str(error))
        finish(held=False)
    count = len(waiting)
    waiting.clear()
    return count


async def _one(line: Line) -> AsyncIterator[Line]:
    yield line


async def _read_lines(deadline: float | None) -> AsyncIterator[Line]:
    """Lines as they come, however slowly, without holding up the bus."""
    loop = asyncio.get_running_loop()
    decoder = msgspec.json.Decoder(Line)
    number = 0
    while True:
        raw = await loop.run_in_executor(None, sys.stdin.buffer.readlines, 65536)
        if not raw:
            return
        for text in raw:
            number += 1
            if text.strip():
                try:
                    line = decoder.decode(text)
                except msgspec.MsgspecError as error:
                    raise ConfigError(
                        f"line {number} of standard input is not an event: {error}; "
                        'write lines like {"topic": "orders", "data": {"id": 7}}'
                    ) from None
                yield line if line.deadline is not None else msgspec.structs.replace(line, deadline=deadline)


def _payload(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
