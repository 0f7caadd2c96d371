"""`unisono views`: named sets of topics whose common order is kept, whether anybody listens or not."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, people, print_json
from unisono.cli.settings import Url, url_of
from unisono.engines.takeover.control import Control
from unisono.model.frames import Registration
from unisono.runtime.remote.admin import drop_view, list_views, make_view

app = typer.Typer(
    name="views",
    help="Sets of topics whose common order is kept while nobody listens.",
    no_args_is_help=True,
    add_completion=False,
)
Name = Annotated[str, typer.Argument(help="The name of a view.")]


@app.command("list")
def list_all(url: Url = None, json: Json = False) -> None:
    """Show every view; those of durable subscribers are called place.NAME."""
    control = asyncio.run(list_views(url_of(url)))
    if json:
        print_json({"views": [_row(view, control) for _, view in sorted(control.views.items())]})
        return
    table = Table(title=f"{len(control.views)} views")
    table.add_column("name")
    table.add_column("topics and patterns")
    table.add_column("topics now", justify="right")
    for _, view in sorted(control.views.items()):
        row = _row(view, control)
        table.add_row(escape(row["name"]), escape(", ".join(row["names"])), str(len(row["topics"])))
    people.print(table)


@app.command()
def add(
    name: Name,
    topics: Annotated[list[str], typer.Argument(help="Topics and patterns.")],
    url: Url = None,
    json: Json = False,
) -> None:
    """Keep the common order of these topics from now on, for whoever will ask for their past."""
    control = asyncio.run(make_view(url_of(url), name, tuple(topics)))
    if json:
        print_json({"added": _row(control.views[name], control), "epoch": control.epoch})
    else:
        people.print(f"view [bold]{escape(name)}[/] counts from epoch {control.epoch} on")


@app.command()
def remove(name: Name, url: Url = None, json: Json = False) -> None:
    """Order these topics for their subscribers only."""
    control = asyncio.run(drop_view(url_of(url), name))
    if json:
        print_json({"removed": name, "epoch": control.epoch})
    else:
        people.print(f"view '{escape(name)}' does not count from epoch {control.epoch} on")


def _row(view: Registration, control: Control) -> dict[str, Any]:
    return {
        "name": view.subscriber,
        "names": list(view.topics),
        "topics": sorted(control.viewed(view.subscriber)),
    }
