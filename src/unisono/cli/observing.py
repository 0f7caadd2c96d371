"""`--metrics-port` of the commands that run for a while, and the traces that the settings ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from unisono.cli.settings import Settings
from unisono.observability.exposition import Health, MetricsServer
from unisono.observability.metrics import Registry
from unisono.observability.tracing import Tracing, open_tracing

MetricsPort = Annotated[
    int | None, typer.Option("--metrics-port", help="Serve /metrics and /healthz; 0 takes a free port.")
]
"""The `--metrics-port` of a command."""


@asynccontextmanager
async def pages(
    registry: Registry, settings: Settings, port: int | None, health: Health | None = None
) -> AsyncIterator[str | None]:
    """Serve what is counted while the command runs; where, or None if nobody wants it."""
    if port is None:
        yield None
        return
    async with MetricsServer(registry, host=settings.metrics_host, port=port, health=health) as server:
        yield server.url


@asynccontextmanager
async def traces(settings: Settings, service: str) -> AsyncIterator[Tracing | None]:
    """The traces that the settings ask for, sent when the command ends; None for none."""
    tracing = open_tracing(settings.trace_ratio, service=service)
    try:
        yield tracing
    finally:
        if tracing is not None:
            await asyncio.to_thread(tracing.close)
