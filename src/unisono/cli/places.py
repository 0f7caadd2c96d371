"""`unisono places`: where durable subscribers are, and forgetting those that nobody needs."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.output import Json, people, print_json
from unisono.cli.settings import Url, url_of
from unisono.model.errors import ConfigError
from unisono.model.places import Place
from unisono.runtime.remote.admin import remove_place, survey_places

app = typer.Typer(
    name="places", help="Durable subscribers: where they are.", no_args_is_help=True, add_completion=False
)
Name = Annotated[str, typer.Argument(help="The name of a durable subscriber.")]


@app.command("list")
def list_places(url: Url = None, json: Json = False) -> None:
    """Show every durable subscriber: its topics, how far it is, and who holds it."""
    places = asyncio.run(survey_places(url_of(url)))
    if json:
        print_json({"places": [_row(place) for place in places]})
        return
    table = Table(title=f"{len(places)} durable subscribers")
    for column in ("name", "topics", "acknowledged", "may have seen", "held by", "saved"):
        table.add_column(column)
    for place in places:
        table.add_row(
            escape(place.name),
            escape(", ".join(place.names)),
            str(place.acknowledged),
            str(place.handed - place.acknowledged),
            escape(place.session) if place.is_held else "nobody",
            f"{max(0.0, time.time() - place.saved_at):.0f} s ago",
        )
    people.print(table)


@app.command()
def show(name: Name, url: Url = None, json: Json = False) -> None:
    """Show where one durable subscriber is on each of its topics."""
    place = next((p for p in asyncio.run(survey_places(url_of(url))) if p.name == name), None)
    if place is None:
        raise ConfigError(f"there is no durable subscriber '{name}'; see `unisono places list`")
    if json:
        print_json(_row(place))
        return
    holder = f"held by '{place.session}'" if place.is_held else "held by nobody"
    people.print(f"[bold]{escape(name)}[/]: {place.acknowledged} events acknowledged, {escape(holder)}")
    for topic, number in sorted(place.clock.items()):
        people.print(f"  {escape(topic)}: {number}")


@app.command()
def remove(
    name: Name,
    url: Url = None,
    force: Annotated[bool, typer.Option(help="Also if somebody holds it.")] = False,
    json: Json = False,
) -> None:
    """Forget a durable subscriber: whoever takes the name next begins anew."""
    asyncio.run(remove_place(url_of(url), name, even_held=force))
    if json:
        print_json({"removed": name})
    else:
        people.print(f"forgot '{escape(name)}'")


def _row(place: Place) -> dict[str, Any]:
    return {
        "name": place.name,
        "topics": list(place.names),
        "acknowledged": place.acknowledged,
        "handed": place.handed,
        "held_by": place.session if place.is_held else None,
        "begun": place.epoch >= 0,
        "epoch": place.epoch,
        "clock": place.clock,
        "saved_at": place.saved_at,
    }
