"""`unisono dispatcher`: a process that passes on events by content, in a tree with others like it."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Annotated

import msgspec
import typer

from unisono.cli.loop import run_loop, settle
from unisono.cli.output import Json, people
from unisono.model.errors import ConfigError
from unisono.runtime.overlay.key import find_key, key_for
from unisono.runtime.overlay.service import places_in
from unisono.runtime.overlay.site import Site
from unisono.runtime.overlay.wire import place_of


def dispatcher(
    listen: Annotated[
        str, typer.Option(help="Where it listens: udp://host:port, port 0 for any that is free.")
    ],
    join: Annotated[
        list[str] | None, typer.Option(help="Another dispatcher, udp://host:port; give it several times.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(help="Where others find it, host:port, if that is not where it listens.")
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(help="The key that all peers share. [default: the environment's UNISONO_KEY]"),
    ] = None,
    loss: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Throw away this share of its datagrams, to see what happens."),
    ] = 0.0,
    json: Json = False,
) -> None:
    """Pass on events by content until stopped; dispatchers that know of each other form a tree by themselves."""
    run_loop(_serve(listen, join or [], advertise, key_file, loss, json=json))


async def _serve(
    listen: str, join: list[str], advertise: str | None, key_file: str | None, loss: float, *, json: bool
) -> None:
    (where,) = _one(places_in(listen), listen)
    others = [name for url in join for name in places_in(url)]
    host, port = place_of(where)
    key = find_key(key_file)
    if key is None and advertise is not None:
        key = key_for(place_of(advertise)[0], None)
    site = Site(key_for(host, key), lambda clients, event: None, loss=loss)
    await site.open(host, port, None if advertise is None else place_of(advertise))
    try:
        site.join(others)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        settle()
        if json:
            site.on_change = lambda: _say({"neighbours": site.neighbours})
            line = {"ready": True, "dispatcher": site.name, "url": f"udp://{site.name}"}
            _say(line)
            _say({"neighbours": site.neighbours})
        else:
            people.print(
                f"dispatcher at udp://{site.name}" + (f", joining {', '.join(others)}" if others else "")
            )
        await stopped.wait()
    finally:
        site.close()


def _say(line: object) -> None:
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


def _one(places: list[str], url: str) -> list[str]:
    if len(places) != 1:
        raise ConfigError(f"--listen {url}: a dispatcher listens at one address")
    return places
