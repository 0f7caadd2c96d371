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
from unisono.lab.faults.soak import soak as run_soak
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
            f"{result.acknowledged} acknowledged, {result.delivered} delivered{_slowest(result)}; {state}"
        )

    result = campaign(runs, first=start, transport=transport, kind=kind, jobs=jobs, keep=keep, progress=tell)
    late = result.resume_s_p95 is not None and result.resume_s_p95 > RESUME_S
    if json:
        print_json(result)
    else:
        _show(result)
    finish(held=result.held and not late)


def soak(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Which faults.")] = 0,
    rate: Annotated[float, typer.Option(min=0.01, help="Times the usual load of 300 events a second.")] = 1.0,
    keep: Annotated[Path | None, typer.Option(help="Where everybody leaves what they wrote.")] = None,
    json: Json = False,
) -> None:
    """Mixed load and faults for a long time: nothing is lost, and nobody's memory grows."""
    began = time.monotonic()

    def tell(text: str) -> None:
        people.print(f"{time.monotonic() - began:6.0f} s  {escape(text)}")

    result = run_soak(minutes, seed=seed, keep=keep, rate=rate, tell=tell)
    if json:
        print_json(result)
        finish(held=result.held)
    for name, memory in result.memory.items():
        word = {True: "flat", False: "[bold red]grows[/]", None: "too short to tell"}[memory.is_flat]
        people.print(
            f"{name:>10}  {memory.plot}  {memory.first_mb:.0f} MB at first, {memory.middle_mb:.0f} when warm, "
            f"{memory.last_mb:.0f} at the end, {memory.slope_mb_per_minute:+.2f} MB a minute: {word}"
        )
    run = result.run
    for problem in (*run.violations, *run.stuck):
        people.print(f"[bold red]{escape(problem)}[/]")
    people.print(
        f"{run.acknowledged:,} acknowledged, {run.delivered:,} delivered, {run.lost} lost, {run.duplicates} twice, "
        f"{len(run.resumed)} faults"
    )
    finish(held=result.held)


def _slowest(result: Result) -> str:
    kills = [resumed.seconds for resumed in result.resumed if resumed.kind in OUTAGES]
    return f", resumed within {max(kills):.1f} s" if kills else ""


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
    for name, why in result.left_out.items():
        people.print(f"left out: {name}: {why}")
    p95 = "no kill" if result.resume_s_p95 is None else f"{result.resume_s_p95:.2f} s"
    people.print(
        f"{result.lost} lost, {result.duplicates} twice, {result.violations} violations, {result.stuck} stuck; "
        f"resumed within {p95} of kills (*) at the 95th percentile; {result.seconds:.0f} s"
    )
