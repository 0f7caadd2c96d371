"""`unisono lab run`: a world described in a file, simulated and judged."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json, progress
from unisono.model.errors import ConfigError, HistoryError, JournalError

if TYPE_CHECKING:
    from unisono.lab.scenarios.figures import GroupFigures
    from unisono.lab.scenarios.run import Run, Summary
    from unisono.lab.scenarios.scenario import Scenario

_COLOURS = {"held": "green", "violated": "bold red", "unknown": "dim"}
_TELL_S = 2.0  # how often somebody without a terminal is told how far a run is


def run(
    scenario: Annotated[Path, typer.Argument(help="A scenario file; docs/lab.md says what is in it.")],
    out: Annotated[Path | None, typer.Option(help="A new folder for the journal and the summary.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**53, help="Instead of the seed in the file.")
    ] = None,
    json: Json = False,
) -> None:
    """Simulate the world a file describes, with every protocol message, and judge what everybody was told."""
    try:
        from unisono.lab.scenarios.load import load_scenario
        from unisono.lab.scenarios.run import run_scenario
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"scenarios need {error.name}; install it with: pip install 'unisono[journal]'"
        ) from None
    wanted = load_scenario(scenario)
    if seed is not None:
        wanted = msgspec.structs.replace(wanted, seed=seed)
    if out is not None:
        _check_folder(out)
    end = wanted.heals_at
    with _telling("simulating", "seconds") as tell:
        done = run_scenario(wanted, lambda now: tell(min(int(now), int(end)), int(end)))
    if out is not None:
        _write(out, scenario, wanted, done)
    if json:
        print_json(done.summary)
    else:
        _show(done.summary, out)
    finish(held=done.summary.is_good)


@contextmanager
def _telling(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar; where there is no terminal to draw it, a line now and then."""
    told = time.monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal told
        bar(done, of)
        if not people.is_terminal and time.monotonic() - told > _TELL_S:
            told = time.monotonic()
            people.print(f"{title}: {done:,} of {of:,} {unit}")

    with progress(title) as bar:
        yield tell


def _check_folder(out: Path) -> None:
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"--out {out} is there already and is not empty; name a new folder")
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be made: {error.strerror}") from None


def _write(out: Path, file: Path, scenario: Scenario, done: Run) -> None:
    from unisono.history.files import write_history
    from unisono.journal import write_records

    try:
        if "journal" in scenario.record:
            with _telling("writing journals", "processes") as tell:
                write_records(out / "journal", done.records, tell=tell)
        if "history" in scenario.record:
            write_history(out / "history.jsonl", done.records)
        if "trace" in scenario.record:
            (out / "trace.txt").write_text("\n".join([*done.lines, ""]))
        shutil.copyfile(file, out / "scenario.toml")
        # Without the time it took, so that the same file and seed leave the same bytes.
        told = msgspec.structs.asdict(done.summary)
        del told["wall_seconds"]
        (out / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(told)) + b"\n")
    except (OSError, JournalError, HistoryError) as error:
        raise ConfigError(f"the run cannot be written to {out}: {error}") from None


def _show(summary: Summary, out: Path | None) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("promise", "verdict", "why"):
        table.add_column(title)
    for promise, verdict in summary.verdicts.items():
        why = escape(summary.explanations.get(promise, ""))
        table.add_row(promise, f"[{_COLOURS[verdict]}]{verdict}[/]", why)
    people.print(table)
    for problem in summary.problems:
        people.print(f"[bold red]{escape(problem)}[/]")
    people.print(_figures(summary))
    people.print(
        f"seed {summary.seed}: {summary.simulated_seconds:.1f} simulated seconds, {summary.steps:,} steps "
        f"in {summary.wall_seconds:.1f} s, digest {summary.digest[:12]}"
        + (f"; written to {escape(str(out))}" if out else "")
    )


def _figures(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(f"{summary.published:,} published")
    for title in ("delivered", "tagged", "dropped", "lost", "p50 ms", "p99 ms"):
        table.add_column(title, justify="right")
    for group in summary.groups:
        _add_row(table, group.name, group)
    if len(summary.groups) > 1:
        _add_row(table, "all", summary)
    return table


def _add_row(table: Table, name: str, told: GroupFigures | Summary) -> None:
    counts = (f"{count:,}" for count in (told.delivered, told.tagged, told.dropped, told.lost))
    times = (told.latency_ms.p50, told.latency_ms.p99)
    table.add_row(name, *counts, *("" if time is None else f"{time:,.1f}" for time in times))
