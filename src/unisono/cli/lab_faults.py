"""`unisono lab faults` and `unisono lab soak`: real processes, and what is done to them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json
from unisono.lab.faults.campaign import CampaignResult, campaign
from unisono.lab.faults.run import Result
from unisono.lab.faults.world import OUTAGES, TRANSPORTS
from unisono.model.errors import ConfigError

RESUME_S = 5.0  # within which service is resumed after a kill, at the 95th percentile


def faults(
    runs: Annotated[int, typer.Option(min=1, help="How many runs.")] = 20,
    start: Annotated[int, typer.Option("--from", min=0, help="The first seed.")] = 0,
    transport: Annotated[str, typer.Option(help="nats or redis.")] = "nats",
    kind: Annotated[str | None, typer.Option(help="Begin every run with this kind of fault.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs side by side.")] = 2,
    keep: Annotated[Path | None, typer.Option(help="Where failed runs leave what they wrote.")] = None,
    json: Json = False,
) -> None:
    """Kill, pause and cut off real processes under load, and judge what everybody was told."""
    if transport not in TRANSPORTS:
        raise ConfigError(f"'{transport}' has no campaign; choose one of {', '.join(TRANSPORTS)}")
    if kind is not None and kind not in TRANSPORTS[transport]:
        raise ConfigError(
            f"'{kind}' is not a kind of fault on {transport}; the kinds are {', '.join(TRANSPORTS[transport])}"
        )
    began = time.monotonic()

    def tell(done: int, result: Result) -> None:
        state = "held" if result.held else f"[bold red]failed[/], see {escape(result.folder)}"
        people.print(
            f"{time.monotonic() - began:6.0f} s  {done}/{runs}  seed {result.seed}: {', '.join(result.kinds)}; "
            f"{result.acknowledged} acknowledged, {result.delivered} delivered; {state}"
        )

    result = campaign(runs, first=start, transport=transport, kind=kind, jobs=jobs, keep=keep, progress=tell)
    late = result.resume_s_p95 is not None and result.resume_s_p95 > RESUME_S
    if json:
        print_json(result)
    else:
        _show(result)
    finish(held=result.held and not late)


def _show(result: CampaignResult) -> None:
    table = Table(
        title=f"{result.runs} runs on {result.transport}, {result.acknowledged:,} acknowledged events"
    )
    table.add_column("fault")
    for column in ("runs", "faults", "failed", "resumed p50", "p95", "max"):
        table.add_column(column, justify="right")
    for name, row in result.kinds.items():
        mark = " *" if name in OUTAGES else ""
        times = (row.resume_s_p50, row.resume_s_p95, row.resume_s_max)
        seconds = ("" if value is None else f"{value:.2f} s" for value in times)
        table.add_row(name + mark, str(row.runs), str(row.faults), str(row.failed), *seconds)
    people.print(table)
    for failure in result.failures:
        people.print(f"[bold red]seed {failure.seed}[/]: {escape(failure.why)}")
        people.print(f"  {escape(failure.folder)}; again: {failure.again}")
    p95 = "no kill" if result.resume_s_p95 is None else f"{result.resume_s_p95:.2f} s"
    people.print(
        f"{result.lost} lost, {result.duplicates} twice, {result.violations} violations, {result.stuck} stuck; "
        f"resumed within {p95} of kills (*) at the 95th percentile; {result.seconds:.0f} s"
    )
