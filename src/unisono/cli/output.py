"""Output: people's text and progress on stderr, one JSON document on stdout for machines.

Exit codes: 0 held, 1 a promise or a target was missed, 2 bad usage or input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

HELD, MISSED, BAD_INPUT = 0, 1, 2

people = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
    sys.stdout.flush()


def finish(*, held: bool) -> NoReturn:
    """End with the exit code that says whether everything held."""
    raise typer.Exit(HELD if held else MISSED)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int, int], None]]:
    """A progress bar, where there is a terminal to draw it; call what it yields with (done, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=people, transient=True, disable=not people.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)
