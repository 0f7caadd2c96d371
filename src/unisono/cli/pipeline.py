"""`unisono pipeline …`: journals made, audited and taken into a lake, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json, progress
from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from unisono.pipeline.audit import Report
    from unisono.pipeline.run import Ran

app = typer.Typer(no_args_is_help=True, help="Audit what was recorded, and plan from it, on Spark.")

Journal = Annotated[Path, typer.Option("--journal", help="The folder a journal was recorded to.")]
Master = Annotated[str, typer.Option(help="A Spark master; this machine by default.")]
Remote = Annotated[str, typer.Option(help="A Spark Connect URL (sc://…) instead of a master.")]

_COLOURS = {"held": "green", "violated": "bold red", "unknown": "yellow"}


@contextmanager
def needs_spark() -> Iterator[None]:
    """Says how to install what is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the pipeline needs {error.name}; install it with: pip install 'unisono[spark]'"
        ) from None


@app.command()
def synth(
    out: Annotated[Path, typer.Option(help="A new folder for the journal.")],
    deliveries: Annotated[int, typer.Option(min=1, help="About how many deliveries.")] = 1_000_000,
    topics: Annotated[int, typer.Option(min=1, help="How many topics.")] = 20,
    subscribers: Annotated[int, typer.Option(min=1, help="How many subscribers.")] = 100,
    each: Annotated[int, typer.Option(min=1, help="Topics each subscriber holds.")] = 10,
    plant: Annotated[
        str, typer.Option(help="Break one thing: swap, tag, duplicate, forge, cause, gap.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 1,
    json: Json = False,
) -> None:
    """Make a journal as a correct run would have recorded it, with at most one thing wrong."""
    with needs_spark():
        from unisono.pipeline.session import explained
        from unisono.pipeline.synth import synthesize
    with explained(f"the journal cannot be written to '{out}'"), progress("writing", subscribers) as tell:
        made = synthesize(
            out,
            deliveries,
            topics=topics,
            subscribers=subscribers,
            each=each,
            plant=plant,
            seed=seed,
            tell=tell,
        )
    if json:
        print_json(made)
    else:
        people.print(f"{made.deliveries:,} deliveries of {made.events:,} events in {escape(str(out))}")
        if made.planted:
            people.print(f"planted: {escape(made.planted)}")


@app.command()
def audit(
    journal: Journal,
    mode: Annotated[str, typer.Option(help="certificate, independent, or both.")] = "both",
    master: Master = "local[*]",
    remote: Remote = "",
    json: Json = False,
) -> None:
    """Judge every promise over a journal of any size; exit code 1 if one was broken."""
    with needs_spark():
        from unisono.pipeline.audit import audit as judge
        from unisono.pipeline.audit import check_input
        from unisono.pipeline.session import explained, open_session
        from unisono.pipeline.tasks import OnSpark
    check_input(journal, mode)
    with people.status("starting Spark"):
        spark = open_session(master, remote)
    try:
        with explained("the audit stopped"), _progress() as tell:
            report = judge(journal, mode=mode, runner=OnSpark(spark, tell))
    finally:
        spark.stop()
    if json:
        print_json(report)
    else:
        _show(report)
    finish(held=report.verdict != "violated")


@app.command()
def run(
    journal: Journal,
    lake: Annotated[Path, typer.Option(help="A folder for tables, states and verdicts.")],
    master: Master = "local[*]",
    remote: Remote = "",
    json: Json = False,
) -> None:
    """Bring tables and verdicts up to date with a journal; only what is new is read."""
    with needs_spark():
        from unisono.pipeline.run import run as bring_up_to_date
    with _progress() as tell:
        ran = bring_up_to_date(journal, lake, master=master, remote=remote, tell=tell)
    if json:
        print_json(ran)
    else:
        people.print(f"{ran.rows_new:,} new rows in {ran.segments_new} segments")
        _show(ran)
    finish(held=ran.verdict != "violated")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """One bar, whose title says what is going on."""
    with people.status("reading the journal") as status:
        yield lambda title, done, of: status.update(f"{title}: {done} of {of}")


def _show(report: Report | Ran) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("promise", "verdict", "why"):
        table.add_column(title)
    for judged in report.promises:
        colour = _COLOURS[judged.verdict] if judged.matters else "dim"
        table.add_row(judged.promise, f"[{colour}]{judged.verdict}[/]", escape(judged.explanation))
    people.print(table)
    for refused in report.refused:
        people.print(f"[yellow]not used[/] {escape(refused['path'])}: {escape(refused['reason'])}")
    for violation in report.violations:
        people.print(f"[bold red]{violation.promise}[/]: {escape(violation.explanation)}")
    colour = _COLOURS[report.verdict]
    people.print(
        f"[{colour}]{report.verdict}[/] over {report.deliveries:,} deliveries in {report.seconds:.1f} s"
    )
