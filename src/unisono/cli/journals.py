"""The options of commands that keep a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from unisono.journal.options import Journal

JournalFolder = Annotated[str | None, typer.Option("--journal", help="Record the history in this folder.")]
JournalSeconds = Annotated[
    float | None,
    typer.Option(
        "--journal-seconds",
        help="Close a segment of the journal after so long, not 5 s: 1 to be watched live.",
    ),
]


def journal_of(folder: str | None, seconds: float | None) -> Journal | str | None:
    """What `connect` takes for these options."""
    if seconds is None:
        return folder
    if folder is None:
        raise ConfigError(
            "--journal-seconds says when segments of a journal are closed; name one with --journal"
        )
    try:
        from unisono.journal.options import Journal
    except ImportError as error:
        raise ConfigError(f"--journal needs {error.name}; pip install 'unisono[journal]'") from None
    return Journal(folder, seconds_max=seconds)
