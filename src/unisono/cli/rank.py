"""`unisono rank`: look at the ranks of a plan, check it, and load it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, people, print_json
from unisono.cli.settings import Url, url_of
from unisono.cli.topics import topics
from unisono.engines.takeover.control import Control
from unisono.model.errors import ConfigError
from unisono.pipeline.plan_document import PlanDocument, load_plan
from unisono.runtime.remote.admin import look, rerank

SHOWN = 40


def rank(
    plan: Annotated[Path | None, typer.Argument(help="A plan to look at.")] = None,
    apply: Annotated[Path | None, typer.Option("--apply", help="A plan to check and load.")] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show the ranks of the running system, or of a plan; with --apply load a plan into the running system."""
    if plan is not None and apply is not None:
        raise ConfigError("name a plan to look at, or one to load with --apply, not both")
    if plan is None and apply is None:
        topics(url=url, json=json)
        return
    path = apply or plan
    assert path is not None
    document = load_plan(path)
    where = url_of(url)
    control = None
    if apply is not None:
        if where.startswith("memory://"):
            raise ConfigError(
                "a memory:// bus lives inside its own process, where no command reaches it; there, call "
                "unisono.pipeline.plan_apply.apply_plan(bus, path); see docs/plan.md"
            )
        control = asyncio.run(_load(where, document))
    if json:
        print_json(
            {
                "plan": str(path),
                "valid": True,
                "loaded": control is not None,
                "epoch": document.epoch if control is None else control.epoch,
                "ranks": document.ranks,
                "groups": document.groups,
                "owners": {} if control is None else dict(control.owner),
            }
        )
        return
    _show(document)
    if control is not None:
        people.print(
            f"[green]loaded[/]: epoch {control.epoch} began with these ranks, on {', '.join(control.live)}"
        )


async def _load(url: str, document: PlanDocument) -> Control:
    """Load ranks and owners; the hosts of the plan become the nodes there are, in their order."""
    nodes = (await look(url)).control.live
    hosts = sorted({row.host for row in document.topics})
    named = dict(zip(hosts, hosts, strict=True)) if set(hosts) <= set(nodes) else {}
    node_of = named or {host: nodes[i % len(nodes)] for i, host in enumerate(hosts)}
    moves = {row.topic: node_of[row.host] for row in document.topics}
    return await rerank(url, tuple(row.topic for row in document.topics), moves)


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
