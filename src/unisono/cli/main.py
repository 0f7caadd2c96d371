"""The command line, put together."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.markup import escape

from unisono import __version__
from unisono.cli import (
    bench,
    bench_filters,
    bench_journal,
    bench_peers,
    bench_pipeline,
    bench_scaling,
    bench_sequencers,
    bench_sim,
    bench_spark,
    dashboard,
    demo,
    dispatcher,
    doctor,
    lab,
    node,
    pipeline,
    pipeline_plan,
    pipeline_watch,
    places,
    pub,
    rank,
    sub,
    topics,
    up,
    views,
)
from unisono.cli.output import BAD_INPUT, people
from unisono.cli.settings import load
from unisono.model.errors import UnisonoError
from unisono.observability import logs

app = typer.Typer(
    name="unisono",
    help="Every subscriber hears the same order, across topics, without a global sequencer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("dashboard")(dashboard.dashboard)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.add_typer(lab.app, name="lab")
bench.app.command("pipeline")(bench_pipeline.pipeline)
app.add_typer(bench.app, name="bench")
bench.app.command("filters")(bench_filters.filters)
bench.app.command("journal")(bench_journal.journal)
bench.app.command("peers")(bench_peers.peers)
bench.app.command("scaling")(bench_scaling.scaling)
bench.app.command("sequencers")(bench_sequencers.sequencers)
bench.app.command("sim")(bench_sim.sim)
bench.app.command("spark")(bench_spark.spark)
app.add_typer(pipeline.app, name="pipeline")
pipeline_plan.register(pipeline.app)
pipeline.app.command("watch")(pipeline_watch.watch)
app.command("rank")(rank.rank)
app.command("node")(node.node)
app.command("dispatcher")(dispatcher.dispatcher)
app.add_typer(places.app, name="places")
app.command("pub")(pub.pub)
app.command("sub")(sub.sub)
app.command("topics")(topics.topics)
app.command("groups")(topics.groups)
app.command("up")(up.up)
app.add_typer(views.app, name="views")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unisono {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Ordered, reliable publish/subscribe."""
    settings = load()
    logs.configure(settings.log, json=settings.log_json)


def run() -> None:
    """The entry point: named errors become one line and exit code 2."""
    try:
        app()
    except (UnisonoError, ConnectionError) as error:
        people.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}", soft_wrap=True)
        sys.exit(BAD_INPUT)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in {"unisono", ""}:
            raise  # a mistake of ours, not something to install
        people.print(
            f"this command needs {error.name}, which is in one of the extras: unisono doctor lists them"
        )
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        people.print("stopped")
        sys.exit(130)
