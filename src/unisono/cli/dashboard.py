"""`unisono dashboard`: a page that shows a running system, a journal, and the problem."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from unisono.cli.loop import run_loop
from unisono.cli.output import Json, people
from unisono.cli.settings import load
from unisono.model.errors import ConfigError
from unisono.web.serving import Dashboard, DashboardSettings
from unisono.web.watching import INTERVAL_S, without_secrets

REPORTS = Path("out")  # where make targets leave theirs


def dashboard(
    url: Annotated[
        str | None, typer.Option(help="The system to watch (else UNISONO_URL, else where `unisono up` is).")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="A journal, to follow events in; without --url nothing else is watched."),
    ] = None,
    reports: Annotated[
        list[Path] | None, typer.Option(help="A folder of reports; may be repeated. [default: out]")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Where it listens; beyond loopback a token is asked for. [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Its port; 0 takes one that is free. [default: 8765]")
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.05, max=60, help="Seconds between two looks while a page is open.")
    ] = INTERVAL_S,
    json: Json = False,
) -> None:
    """Serve a page that shows a running system: topics, order, latency, takeovers; and a playground."""
    settings = load({"url": url, "dashboard_host": host, "dashboard_port": port})
    for folder in reports or []:
        if not folder.is_dir():
            raise ConfigError(f"--reports {folder}: there is no such folder")
    wanted = DashboardSettings(
        url=settings.url if url is not None or journal is None else None,
        journal=journal,
        reports=tuple(reports or ([REPORTS] if REPORTS.is_dir() else [])),
        host=settings.dashboard_host,
        port=settings.dashboard_port,
        token=settings.dashboard_token,
        interval_s=interval,
    )
    run_loop(_serve(wanted, json=json))


async def _serve(settings: DashboardSettings, *, json: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Dashboard(settings) as served:
        place = None if settings.url is None else without_secrets(settings.url)
        if json:
            line = {"dashboard": served.url, "pid": os.getpid(), "url": place}
            sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
            sys.stdout.flush()
        else:
            people.print(f"dashboard: [bold]{escape(served.url)}[/]", soft_wrap=True)
            if place is not None:
                people.print(f"watches {escape(place)}; stop with Ctrl-C")
        await stop.wait()
