"""`unisono pipeline plan | sweep | report`: make the order cheaper, run experiments, show what happened."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json, progress
from unisono.cli.pipeline import Master, Remote, needs_spark
from unisono.model.errors import ConfigError

if TYPE_CHECKING:  # the pipeline needs Spark and Arrow; whoever only asks for help does not
    from unisono.pipeline.plan_document import PlanDocument
    from unisono.pipeline.plan_overlaps import Matrix

TOPICS_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `unisono pipeline`."""
    app.command("plan")(plan)
    app.command("sweep")(sweep)
    app.command("report")(report)


def plan(
    journal: Annotated[Path | None, typer.Option(help="The folder a journal was recorded to.")] = None,
    lake: Annotated[
        Path | None, typer.Option(help="A lake that 'pipeline run' keeps: no record is read again.")
    ] = None,
    subscriptions: Annotated[
        Path | None, typer.Option(help="Parquet: rows of 'subscriber, topic', or of 'topics' and 'weight'.")
    ] = None,
    rates: Annotated[Path | None, typer.Option(help="Events/s by topic: JSON, CSV or Parquet.")] = None,
    threshold: Annotated[int, typer.Option(help="Subscribers two topics must share to be ordered.")] = 2,
    nodes: Annotated[int | None, typer.Option(help="How many hosts there are.")] = None,
    capacity: Annotated[float | None, typer.Option(help="Events/s that one host carries.")] = None,
    kind: Annotated[str, typer.Option(help="line or forest.")] = "forest",
    current: Annotated[Path | None, typer.Option(help="The plan in force, to compare with.")] = None,
    open_only: Annotated[
        bool, typer.Option("--open-only", help="Of a journal, only subscriptions open at its end.")
    ] = False,
    master: Master = "local[*]",
    remote: Remote = "",
    out: Annotated[Path | None, typer.Option(help="Write the plan here.")] = None,
    json: Json = False,
) -> None:
    """Plan ranks, groups and hosts from who subscribes to what and how much is published."""
    with needs_spark():
        from unisono.pipeline.plan import make_plan
        from unisono.pipeline.plan_document import load_plan, save_plan
        from unisono.pipeline.plan_inputs import check_topics, read_rates
        from unisono.pipeline.plan_place import check_hosts
        from unisono.pipeline.session import explained

    if sum(source is not None for source in (journal, lake, subscriptions)) != 1:
        raise ConfigError("name one of --journal DIR, --lake DIR and --subscriptions FILE.parquet")
    if kind not in ("line", "forest"):
        raise ConfigError(f"--kind is 'line' or 'forest', not '{kind}'")
    if threshold < 1:
        raise ConfigError(f"--threshold is at least 1, not {threshold}")
    check_hosts(capacity, nodes)
    known = None if rates is None else read_rates(rates)
    in_force = None if current is None else load_plan(current)
    with people.status("starting Spark") as status, explained("the plan could not be made"):
        if lake is not None:
            matrix, measured = _from_lake(lake, threshold, open_only)
        else:
            matrix, measured = _on_spark(
                lambda: status.update("counting overlaps"),
                journal,
                subscriptions,
                threshold,
                open_only=open_only,
                master=master,
                remote=remote,
                measure=known is None,
            )
        known = measured if known is None else known
        check_topics(matrix.topics, str(journal or lake or subscriptions))
        status.update("planning")
        chosen: Literal["line", "forest"] = "line" if kind == "line" else "forest"
        document = make_plan(matrix, known, kind=chosen, capacity=capacity, nodes=nodes, current=in_force)
        if out is not None:
            save_plan(document, out)
    if json:
        print_json(document)
    else:
        _show_plan(document, out)
    finish(held=document.placement.fits)


Measured: TypeAlias = "tuple[Matrix, dict[str, float] | None]"


def _from_lake(lake: Path, threshold: int, open_only: bool) -> Measured:
    """From what was carried over: neither Spark nor a record is needed."""
    from unisono.pipeline.lake import Lake
    from unisono.pipeline.tally import all_together

    tally = all_together(Lake(lake).tallies())
    return tally.matrix(threshold, current=open_only), tally.rates()


def _on_spark(
    started: Callable[[], None],
    journal: Path | None,
    subscriptions: Path | None,
    threshold: int,
    *,
    open_only: bool,
    master: str,
    remote: str,
    measure: bool,
) -> Measured:
    """From every record of a journal, or from a file of subscriptions."""
    from unisono.pipeline.plan_inputs import journal_rates, journal_subscriptions, read_subscriptions
    from unisono.pipeline.plan_overlaps import count_overlaps
    from unisono.pipeline.session import is_heavy, open_session

    spark = open_session(master, remote, heavy=is_heavy(journal or subscriptions))
    started()
    try:
        if journal is None:
            assert subscriptions is not None
            return count_overlaps(read_subscriptions(spark, subscriptions), threshold), None
        held = journal_subscriptions(spark, journal, threshold, current=open_only)
        return count_overlaps(held, threshold), journal_rates(spark, journal) if measure else None
    finally:
        spark.stop()


def _show_plan(document: PlanDocument, out: Path | None) -> None:
    people.print(
        f"{document.subscriptions:,} subscriptions ({document.distinct:,} distinct) of {len(document.topics):,} "
        f"topics; {len(document.overlaps):,} pairs share {document.threshold} or more; "
        f"{len(document.groups):,} groups, the largest of {max(map(len, document.groups), default=0):,} topics"
    )
    ranks = Table(title=f"ranks ({document.after.ranks}, {document.kind})")
    ranks.add_column("rank", justify="right")
    ranks.add_column("topic", no_wrap=True)
    for column in ("events/s", "subs", "host", "full", "upward", "path", "hops"):
        ranks.add_column(column, justify="right")
    for row in document.topics[:TOPICS_SHOWN]:
        figures = (row.stamp_entries, row.stamp_entries_upward, row.path_topics, row.hops)
        known = (f"{row.rate:,.4g}", f"{row.subscribers:,}", row.host)
        ranks.add_row(str(row.rank), escape(row.topic), *known, *map(str, figures))
    people.print(ranks)
    if len(document.topics) > TOPICS_SHOWN:
        people.print(f"… and {len(document.topics) - TOPICS_SHOWN:,} more")
    costs = Table(title="expected per event")
    for column in ("", f"before ({document.before.ranks})", f"after ({document.after.ranks})"):
        costs.add_column(column, justify="left" if not column else "right")
    for name, words in COSTS.items():
        before, after = getattr(document.before, name), getattr(document.after, name)
        costs.add_row(words, f"{before:,.5g}", f"{after:,.5g}")
    people.print(costs)
    _show_sequencers(document)
    if document.placement.problem:
        people.print(f"[bold red]does not fit[/]: {escape(document.placement.problem)}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    people.print(f"planned in {document.seconds:.1f} s after the overlaps, {memory:,.0f} MiB in this process")
    if out is not None:
        people.print(f"written to {out}")


def _show_sequencers(document: PlanDocument) -> None:
    both = document.sequencers
    if both is None or document.atoms is None:
        return
    table = Table(title=f"sequencers, on {both.nodes} hosts ({document.atoms.count:,} atoms)")
    for column in ("", "topics", "atoms"):
        table.add_column(column, justify="left" if not column else "right")
    for name, words in SEQUENCERS.items():
        table.add_row(words, *(f"{getattr(costs, name):,.4g}" for costs in (both.topics, both.atoms)))
    people.print(table)
    people.print(f"recommended: [bold]{both.recommended}[/]")
    for reason in both.reasons:
        people.print(f"- {escape(reason)}")


SEQUENCERS = {
    "hops": "hosts that sequence an event",
    "hops_max": "and at most",
    "messages": "messages per event",
    "stretch": "legs to a subscriber",
    "stamp_bytes": "bytes of a stamp",
    "transit": "visits that only pass on",
    "whole": "events ordered on one host",
    "load_max": "events/s at the busiest host",
    "cores_max": "cores, the busiest host",
    "cores": "cores, all hosts",
}

COSTS = {
    "stamp_entries": "entries, full stamps",
    "stamp_bytes": "bytes, full stamps",
    "stamp_entries_upward": "entries, upward stamps",
    "stamp_bytes_upward": "bytes, upward stamps",
    "path_topics": "topics on the path",
    "hops": "hosts on the path",
    "hosts": "hosts in all",
    "load_max": "events/s at the busiest host",
}


def sweep(
    spec: Annotated[Path, typer.Argument(help="What to run, as TOML (docs/sweeps.md).")],
    out: Annotated[Path, typer.Option(help="Where the tables go; finished cells there are not run again.")],
    retry: Annotated[bool, typer.Option("--retry", help="Run cells with errors again.")] = False,
    master: Master = "local[*]",
    remote: Remote = "",
    json: Json = False,
) -> None:
    """Run a grid of simulations as Spark tasks; safe to kill and start again."""
    with needs_spark():
        from unisono.pipeline.session import open_session
        from unisono.pipeline.sweep import run_sweep
        from unisono.pipeline.sweep_spec import load_spec

    wanted = load_spec(spec)
    with progress(f"sweep {wanted.name}") as tell:
        result = run_sweep(lambda: open_session(master, remote), wanted, out, retry=retry, progress=tell)
    if json:
        print_json(result)
        finish(held=result.held)
    table = Table(title=f"{result.name}: means over {result.runs:,} runs of '{result.experiment}'")
    for column in (*wanted.grid, *SWEEP_SHOWN.values()):
        table.add_column(column, justify="right")
    for point in result.points:
        shown = (point.get(column) for column in (*wanted.grid, *SWEEP_SHOWN))
        table.add_row(*(f"{value:,.4g}" if isinstance(value, float) else str(value) for value in shown))
    people.print(table)
    if result.errors:
        people.print(f"[bold red]{result.errors} runs had errors[/], the first: {escape(result.first_error)}")
    if result.diverged:
        people.print(f"[bold red]{result.diverged} seeds gave other figures when repeated[/]")
    people.print(
        f"{result.cells} cells ({result.resumed} finished before), {result.violations} runs with broken promises, "
        f"{result.seconds:.1f} s; tables: {', '.join(result.tables.values())}"
    )
    finish(held=result.held)


SWEEP_SHOWN = {
    "runs": "runs",
    "errors": "errors",
    "violations": "broken",
    "stuck": "stuck",
    "delivered": "heard",
    "tagged": "tagged",
    "lost": "lost",
    "latency_ms_mean": "ms",
}


def report(
    journal: Annotated[Path | None, typer.Option(help="The folder a journal was recorded to.")] = None,
    lake: Annotated[Path | None, typer.Option(help="A lake that 'pipeline run' keeps, instead.")] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    audit: Annotated[Path | None, typer.Option(help="What 'pipeline audit --json' printed.")] = None,
    plan: Annotated[Path | None, typer.Option(help="What 'pipeline plan --out' wrote.")] = None,
    master: Master = "local[*]",
    remote: Remote = "",
    json: Json = False,
) -> None:
    """One self-contained HTML page: verdicts, latency, overhead, popularity, overlaps, the plan."""
    with needs_spark():
        from unisono.pipeline.plan_document import load_plan
        from unisono.pipeline.report import (
            check_lake,
            gather_facts,
            gather_lake_facts,
            load_audit,
            render,
            save_page,
        )
        from unisono.pipeline.session import explained, is_heavy, open_session

    if (journal is None) == (lake is None):
        raise ConfigError("name either --journal DIR or --lake DIR, and not both")
    if lake is not None:
        check_lake(lake)
    judged = None if audit is None else load_audit(audit)
    planned = None if plan is None else load_plan(plan)
    with people.status("starting Spark") as status, explained("the report could not be made"):
        spark = open_session(master, remote, heavy=is_heavy(journal or lake))
        status.update("counting")
        try:
            if journal is not None:
                facts = gather_facts(spark, journal)
            else:
                assert lake is not None
                facts = gather_lake_facts(spark, lake)
        finally:
            spark.stop()
        save_page(render(facts, judged, planned), out)
    if json:
        costs = None if planned is None else {"before": planned.before, "after": planned.after}
        print_json({"report": str(out), "facts": facts, "audit": judged, "plan": costs})
    else:
        people.print(f"{facts.records:,} records, {facts.totals['delivered']:,} deliveries")
        people.print(f"written to {out}")
