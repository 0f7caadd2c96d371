"""The reference of the command line, as Markdown, from the commands themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer
from typer.main import get_command

from unisono.cli.main import app


def commands() -> Iterator[tuple[str, object]]:
    """Every command that can be run, by its words, in the order of `--help`; groups go before what is in them."""
    yield from _below("unisono", get_command(app))


def _below(words: str, command: object) -> Iterator[tuple[str, object]]:
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _below(f"{words} {name}", inner)


def parameters(command: object) -> list[object]:
    """What a command may be told, but for `--help`."""
    return [p for p in getattr(command, "params", []) if p.name != "help" and not getattr(p, "hidden", False)]


def reference() -> str:
    """The whole page."""
    parts = [
        "# Commands",
        "Made from the commands themselves: `unisono COMMAND --help` says the same. With `--json` every command prints one "
        "JSON document on stdout, or JSON lines where it goes on; people's text goes to stderr. "
        "Exit codes: 0 held, 1 a promise or a target was missed, 2 bad usage or input.",
    ]
    for words, command in commands():
        level = "#" * min(2 + words.count(" "), 4) if " " in words else "##"
        parts += [f"{level} `{words}`", _sentence(getattr(command, "help", "") or "")]
        rows = [_row(p) for p in parameters(command)]
        if rows:
            parts.append("\n".join(["| option | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _row(parameter: object) -> str:
    names = [*getattr(parameter, "opts", []), *getattr(parameter, "secondary_opts", [])]
    if getattr(parameter, "param_type_name", "") == "argument":
        names = [(getattr(parameter, "metavar", None) or getattr(parameter, "name", "")).upper()]
    default = getattr(parameter, "default", None)
    shown = "" if default in (None, False, "", [], ()) or callable(default) else f"`{default}`"
    if getattr(parameter, "required", False):
        shown = "needed"
    text = " ".join((getattr(parameter, "help", "") or "").split())
    return f"| {', '.join(f'`{name}`' for name in names)} | {_cell(text)} | {_cell(shown)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _sentence(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("<", "&lt;")


if __name__ == "__main__":
    typer.echo(reference(), file=sys.stdout, nl=False)
