"""`unisono rank`: look at the ranks of a plan, check it, and load it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, people, print_json
from unisono.model.errors import ConfigError
from unisono.pipeline.plan_document import PlanDocument, load_plan

SHOWN = 40


def rank(
    plan: Annotated[Path | None, typer.Argument(help="A plan to look at.")] = None,
    apply: Annotated[Path | None, typer.Option("--apply", help="A plan to check and load.")] = None,
    url: Annotated[str, typer.Option(help="The system to load it into.")] = "memory://",
    json: Json = False,
) -> None:
    """Show the ranks of a plan, or with --apply check it as the system would."""
    if (plan is None) == (apply is None):
        raise ConfigError(
            "name a plan to look at, or one to load with --apply (made by 'unisono pipeline plan')"
        )
    if not url.startswith("memory://"):
        scheme = url.partition("://")[0]
        raise ConfigError(f"{scheme}:// takes no plans yet; only memory:// does, from inside its process")
    path = apply or plan
    assert path is not None
    document = load_plan(path)
    where = None if apply is None else _where(apply)
    if json:
        print_json(
            {
                "plan": str(path),
                "valid": True,
                "loaded": False,
                "epoch": document.epoch,
                "ranks": document.ranks,
                "groups": document.groups,
                "note": where or "",
            }
        )
        return
    _show(document)
    if where is not None:
        people.print(f"[green]valid[/]: keeps C1, C2 and C3 over {len(document.topics):,} topics.")
        people.print(escape(where))


def _where(path: Path) -> str:
    """Why nothing was loaded: a memory bus cannot be reached from another process, and this one has none."""
    return (
        f"A memory:// bus lives inside its own process, where no command reaches it. There, call "
        f'unisono.pipeline.plan_apply.apply_plan(bus, "{path}") while it runs; see docs/plan.md.'
    )


def _show(document: PlanDocument) -> None:
    table = Table(title=f"ranks, epoch {document.epoch} ({document.kind}, {document.after.ranks})")
    table.add_column("rank", justify="right")
    table.add_column("topic", no_wrap=True)
    for column in ("events/s", "group", "path", "host"):
        table.add_column(column, justify="right")
    for row in document.topics[:SHOWN]:
        cells = (f"{row.rate:,.4g}", str(row.group + 1), str(row.path_topics), row.host)
        table.add_row(str(row.rank), escape(row.topic), *cells)
    people.print(table)
    if len(document.topics) > SHOWN:
        people.print(f"… and {len(document.topics) - SHOWN:,} more")
