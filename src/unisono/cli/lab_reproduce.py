"""`unisono lab reproduce`: the papers' figures and claims, run again; sweeps on Spark, safe to kill and resume."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json, progress
from unisono.cli.pipeline import Master, Remote, needs_spark
from unisono.lab.reproduce.catalogue import Chosen, choose
from unisono.lab.reproduce.claims import Claim, as_markdown
from unisono.lab.reproduce.drawing import draw
from unisono.lab.reproduce.families import Family, Profile, Sweep
from unisono.lab.reproduce.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

NAMES_SHOWN = 4  # of papers and parts, in the name of a file
COLOURS = {"reproduced": "green", "differs": "yellow", "not testable": "dim"}


class Reproduction(msgspec.Struct, frozen=True):
    """What came of it."""

    profile: str
    says: str
    claims: list[Claim]
    table: str  # the file with the claims as a table
    plots: list[str]
    cells: int
    resumed: int  # cells that an earlier run with the same --out had finished
    errors: int
    first_error: str
    seconds: float

    @property
    def held(self) -> bool:
        """Whether everything ran, and ours reached its targets; that a paper differs is no failure."""
        return not self.errors and all(
            claim.verdict == "reproduced" for claim in self.claims if claim.figure == "beaten"
        )


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Papers (000, 001, 002, 003, 004) or parts (000-9, 001-lemma-4); without, all."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="The paper's scale, at least 10 runs.")] = False,
    out: Annotated[Path, typer.Option(help="Where tables, figures and finished work are kept.")] = Path(
        "out/reproduce"
    ),
    master: Master = "local[*]",
    remote: Remote = "",
    json: Json = False,
) -> None:
    """Run a paper's evaluation again: what it says, what we measure, and the verdict."""
    profile: Profile = "full" if full else "quick"
    chosen = choose(names or ())
    for line in _says(chosen, profile):
        people.print(line)
    session: list[SparkSession] = []

    def spark() -> SparkSession:
        if not session:
            with needs_spark():
                from unisono.pipeline.session import open_session
            session.append(open_session(master, remote))
        return session[0]

    try:
        result = _reproduce(chosen, profile, out / profile, _claims_name(names or ()), spark)
    finally:
        for opened in session:
            opened.stop()
    if json:
        print_json(result)
    else:
        _show(result, out / profile)
    finish(held=result.held)


def _says(chosen: Chosen, profile: Profile) -> list[str]:
    """What the profile means for the papers and parts that were asked for."""
    return list(dict.fromkeys(family.profiles[profile] for family in chosen.families))


def _claims_name(names: Sequence[str]) -> str:
    """The file of the claims about these papers and parts: one run must not replace what another found."""
    shown = (
        names if len(names) <= NAMES_SHOWN else (*names[:NAMES_SHOWN], f"and-{len(names) - NAMES_SHOWN}-more")
    )
    return "_".join(["claims", *shown]) + ".md"


def _reproduce(
    chosen: Chosen, profile: Profile, out: Path, claims_name: str, spark: Callable[[], SparkSession]
) -> Reproduction:
    started = perf_counter()
    claims: list[Claim] = []
    plots: list[str] = []
    tally = _Tally()
    for family in chosen.families:
        tables = {sweep.name: tally.run(sweep, family, out, spark) for sweep in family.sweeps(profile)}
        if tally.errors:
            break
        claims += [claim for claim in family.judge(tables) if claim.figure in (*chosen.figures, "beaten")]
        if family.examine is not None:
            with progress(f"{family.name} of {family.figures[0][:3]}") as tell:
                claims += family.examine(profile, chosen.figures, tell)
        wanted = [plot for plot in family.plots(tables) if plot.figure in chosen.figures]
        plots += [str(path) for plot in wanted for path in draw(plot, out / "figures")]
    out.mkdir(parents=True, exist_ok=True)
    table = out / claims_name
    says = "; ".join(_says(chosen, profile))
    table.write_text(as_markdown(claims, says))
    seconds = round(perf_counter() - started, 1)
    return Reproduction(
        profile,
        says,
        claims,
        str(table),
        plots,
        tally.cells,
        tally.resumed,
        tally.errors,
        tally.first_error,
        seconds,
    )


class _Tally:
    """Runs sweeps, and adds up how they went."""

    def __init__(self) -> None:
        self.cells = self.resumed = self.errors = 0
        self.first_error = ""

    def run(self, sweep: Sweep, family: Family, out: Path, spark: Callable[[], SparkSession]) -> Rows:
        """The rows of a sweep; only what is not finished yet, or failed, is run."""
        with needs_spark():
            import pyarrow.parquet as pq

            from unisono.pipeline.sweep import run_sweep
            from unisono.pipeline.sweep_spec import Spec

        spec = Spec(
            sweep.name, sweep.experiment, sweep.grid, sweep.seeds, seeds_per_cell=sweep.seeds_per_cell
        )
        with progress(f"figures {', '.join(family.figures)}: {sweep.name}") as tell:
            result = run_sweep(spark, spec, out / sweep.name, retry=True, progress=tell)
        self.cells += result.cells
        self.resumed += result.resumed
        self.errors += result.errors
        self.first_error = self.first_error or result.first_error
        return Rows(pq.read_table(result.tables["runs"]).to_pylist())


def _show(result: Reproduction, out: Path) -> None:
    table = Table(title=result.says, show_lines=True)
    table.add_column("figure", no_wrap=True)
    for column in ("paper says", "we measure", "verdict"):
        table.add_column(column)
    for claim in result.claims:
        said = f"{claim.claim}: {claim.paper}" if isinstance(claim.paper, float | int) else claim.claim
        colour = COLOURS[claim.verdict]
        why = "" if claim.verdict == "reproduced" else f"\n[dim]{escape(claim.why)}[/]"
        table.add_row(
            claim.figure, escape(said), escape(str(claim.measured)) + why, f"[{colour}]{claim.verdict}[/]"
        )
    people.print(table)
    if result.errors:
        people.print(f"[bold red]{result.errors} runs failed[/], the first: {escape(result.first_error)}")
    counts = {
        verdict: sum(claim.verdict == verdict for claim in result.claims if claim.figure != "beaten")
        for verdict in COLOURS
    }
    people.print(
        ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        + f"; {result.cells} cells, {result.resumed} of them from before; {result.seconds:.0f} s"
    )
    people.print(f"{result.table}, {out / 'figures'}, tables of all runs: {out}/*/runs.parquet")
