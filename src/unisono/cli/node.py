"""`unisono node`: a process that sequences topics."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from contextlib import AsyncExitStack
from typing import Annotated

import msgspec
import typer

from unisono.cli.loop import run_loop, settle
from unisono.cli.observing import MetricsPort, pages, traces
from unisono.cli.output import Json, people
from unisono.cli.settings import Durability, Sequencer, Settings, Url, load, storing
from unisono.ens.registry import open_service
from unisono.observability.metrics import Registry
from unisono.runtime.remote.node import Node
from unisono.runtime.remote.node_observer import NodeObserver
from unisono.runtime.remote.node_options import DEFAULTS, NodeOptions

READY_S = 30.0


def node(
    url: Url = None,
    name: Annotated[str | None, typer.Option(help="Who it is; one word, unique.")] = None,
    beat: Annotated[float, typer.Option(help="Seconds between two signs of life.")] = 0.25,
    suspect: Annotated[
        float, typer.Option(help="Seconds of silence after which a node is taken for dead.")
    ] = 2.0,
    durability: Durability = None,
    sequencer: Sequencer = None,
    retain_records: Annotated[
        int | None,
        typer.Option(
            help="Events of the past that are kept at least; 0: none, in a new system. [default: 1000000]"
        ),
    ] = None,
    retain_s: Annotated[
        float | None, typer.Option(help="Seconds after which they may go; 0: never. [default: 7 days]")
    ] = None,
    metrics_port: MetricsPort = None,
    json: Json = False,
) -> None:
    """Sequence topics until stopped; several nodes on one broker share them."""
    given = {"url": url, "durability": durability, "sequencer": sequencer, "metrics_port": metrics_port}
    settings = load({**given, "retain_records": retain_records, "retain_s": retain_s})
    kept = msgspec.structs.replace(
        DEFAULTS.node,
        retain_records=settings.retain_records,
        retain_s=settings.retain_s,
        sequencer=settings.sequencer,
    )
    options = NodeOptions(beat_s=beat, suspect_s=suspect, node=kept)
    run_loop(_serve(settings, name or f"n{secrets.token_hex(3)}", options, json=json))


async def _serve(settings: Settings, name: str, options: NodeOptions, *, json: bool) -> None:
    url, registry = settings.url, Registry()
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(traces(settings, name))
        node = Node(open_service(storing(settings)), name, options, NodeObserver(name, registry, tracing))
        at = await stack.enter_async_context(pages(registry, settings, settings.metrics_port, node.health))
        await stack.enter_async_context(node)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, node.stop)
        serving = asyncio.create_task(node.run())
        ready = asyncio.create_task(node.ready())
        await asyncio.wait({serving, ready}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        settle()
        if ready.done() and not serving.done():
            if json:
                line = {"ready": True, "node": name, "durability": node.durability} | (
                    {} if at is None else {"metrics": at}
                )
                sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
                sys.stdout.flush()
            else:
                people.print(f"node [bold]{name}[/] serves {url}, durability {node.durability}")
                if at is not None:
                    people.print(f"metrics: {at}")
        elif not serving.done():
            ready.cancel()
            raise ConnectionError(
                f"node '{name}' found no epoch to take part in within {READY_S:g} s; "
                "see whether the other nodes and the broker are well"
            )
        await serving
        await node.drain()  # what it sequences goes to the others, if there are any
