"""`unisono lab`: worlds in which the protocols are put to the test."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli import lab_epidemic, lab_faults, lab_reproduce, lab_run
from unisono.cli.output import Json, finish, people, print_json, progress
from unisono.lab.bugs import run_bugs
from unisono.lab.churn import measure as measure_churn
from unisono.lab.explore import explore as run_explore
from unisono.lab.explore_atoms import explore_atoms as run_explore_atoms
from unisono.lab.explore_deadline import explore_deadlines as run_explore_deadlines
from unisono.lab.fuzz import ATOMS, DEADLINE, ENGINES, check_engine
from unisono.lab.fuzz import fuzz as run_fuzz
from unisono.lab.fuzz import replay as run_replay
from unisono.lab.shrink import shrink as run_shrink

app = typer.Typer(no_args_is_help=True, help="Put the protocols to the test.")
app.command("faults")(lab_faults.faults)
app.command("soak")(lab_faults.soak)
app.command("epidemic")(lab_epidemic.epidemic)
app.command("reproduce")(lab_reproduce.reproduce)
app.command("run")(lab_run.run)


@app.callback()
def main() -> None:
    """Run scenarios, explore, fuzz, replay, shrink, and plant bugs."""


@app.command()
def explore(
    quick: Annotated[bool, typer.Option(help="A small part of the sweep, in seconds.")] = False,
    engine: Annotated[str, typer.Option(help="Which engine.")] = ENGINES[0],
    json: Json = False,
) -> None:
    """Every interleaving of tiny worlds, standing still and moving, and random walks through larger ones."""
    check_engine(engine)
    sweep = {ATOMS: run_explore_atoms, DEADLINE: run_explore_deadlines}.get(engine, run_explore)
    with progress("exploring") as tell:
        result = sweep(quick=quick, progress=lambda what, done, of: tell(done, of))
    if json:
        print_json(result)
        finish(held=result.held)
    table = Table(title=f"{result.configurations:,} configurations, {result.states:,} states")
    table.add_column("sweep")
    for column in ("configurations", "states", "violations", "stuck", "cut at the bound"):
        table.add_column(column, justify="right")
    for row in result.rows:
        counts = (row.configurations, row.states, row.violations, row.stuck, row.cut)
        table.add_row(row.name, *(f"{count:,}" for count in counts))
    people.print(table)
    if result.first is not None:
        people.print(f"[bold red]{result.first.promise}[/] in {result.first.configuration}")
        people.print(escape(result.first.explanation))
        for step in result.first.trace:
            people.print(f"  {escape(str(step))}")
    people.print(f"{result.violations} violations, {result.stuck} stuck, {result.seconds:.1f} s")
    finish(held=result.held)


@app.command()
def bugs(json: Json = False) -> None:
    """Plant every known bug, the papers' own among them, and see that each is caught."""
    with progress("planting bugs") as tell:
        result = run_bugs(progress=lambda name, done, of: tell(done, of))
    if json:
        print_json(result)
        finish(held=result.held)
    for bug in result.bugs:
        mark = "[green]caught[/]" if bug.caught and bug.sound else "[bold red]missed[/]"
        people.print(f"{mark} [bold]{bug.name}[/] ({escape(bug.source)}): {escape(bug.says)}")
        people.print(f"       {bug.promise}: {escape(bug.explanation)}")
    people.print(f"{result.caught} of {result.planted} caught")
    finish(held=result.held)


@app.command()
def fuzz(
    seeds: Annotated[int, typer.Option(min=1, help="How many worlds.")] = 1000,
    start: Annotated[int, typer.Option("--from", min=0, help="The first seed.")] = 0,
    engine: Annotated[str, typer.Option(help="Which engine.")] = ENGINES[0],
    jobs: Annotated[int, typer.Option(min=1, help="How many processes share the work.")] = 2,
    json: Json = False,
) -> None:
    """Seeded worlds, still and moving: safety throughout, then heal, then liveness."""
    with progress("fuzzing", seeds) as tell:
        result = run_fuzz(seeds, start, engine, jobs=jobs, progress=lambda done, failed: tell(done, seeds))
    if json:
        print_json(result)
        finish(held=result.is_good)
    for trait, count in sorted(result.worlds.items()):
        people.print(f"{trait:>24}  {count / result.seeds:6.1%}")
    if result.explanation:
        people.print(f"[bold red]{escape(result.explanation)}[/]")
    people.print(
        f"{result.seeds} seeds, {result.violations} violations, {result.stuck} stuck, {result.seconds:.1f} s"
    )
    finish(held=result.is_good)


@app.command()
def replay(
    seed: Annotated[int, typer.Argument(min=0, help="The seed that decided the world.")],
    engine: Annotated[str, typer.Option(help="Which engine.")] = ENGINES[0],
    json: Json = False,
) -> None:
    """Run one seed again, one line per step."""
    lines = run_replay(seed, engine)
    if json:
        print_json({"seed": seed, "steps": lines})
        return
    for line in lines:
        typer.echo(line)


@app.command()
def shrink(
    seed: Annotated[int, typer.Argument(min=0, help="The seed that decided the world.")],
    bug: Annotated[str | None, typer.Option(help="Plant this bug in a moving world first.")] = None,
    engine: Annotated[str, typer.Option(help="Which engine.")] = ENGINES[0],
    json: Json = False,
) -> None:
    """Make the world of a failing seed as small as it can be while it fails in the same way."""
    with progress("shrinking") as tell:
        result = run_shrink(seed, bug, progress=tell, engine=engine)
    if json:
        print_json({"seed": seed, "shrunk": result})
        finish(held=result is None)
    if result is None:
        people.print(f"nothing is wrong with the world of seed {seed}")
        finish(held=True)
    for line in result.settings:
        typer.echo(f"# {line}")
    for line in result.steps:
        typer.echo(line)
    for problem in result.problems:
        people.print(f"[bold red]{escape(problem)}[/]")
    people.print(f"{len(result.steps)} steps of {result.steps_before}, {result.trials} worlds tried")
    finish(held=False)


@app.command()
def churn(
    hours: Annotated[int, typer.Option(min=1, help="How long subscribers come and go.")] = 7 * 24,
    json: Json = False,
) -> None:
    """Measure what joins and epochs cost by size of component, and whether registrations pile up in a week."""
    with progress("churning") as tell:
        result = measure_churn(hours, progress=tell)
    if json:
        print_json(result)
        finish(held=result.is_bounded)
    table = Table(title="in message delays")
    for column in ("plan", "topics", "nodes", "joins", "p50", "p99", "epochs", "pause p50", "pause p99"):
        table.add_column(column, justify="right")
    for cost in result.costs:
        table.add_row(*(str(getattr(cost, name)) for name in cost.__struct_fields__))
    people.print(table)
    for week in result.weeks:
        how = "with" if week.shrinks else "without"
        people.print(
            f"{week.hours} hours {how} epochs that shrink: {week.lives} subscriptions, at most {week.live_max} "
            f"at a time, at most {week.registrations_max} registered, {week.epochs} epochs"
        )
    finish(held=result.is_bounded)
