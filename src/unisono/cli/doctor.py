"""`unisono doctor`: what this machine has, what is missing, and what to do about it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from unisono import __version__
from unisono.cli.doctor_extras import EXTRAS, check_extra
from unisono.cli.doctor_machine import (
    Finding,
    check_clock,
    check_files,
    check_folder,
    check_java,
    check_loop,
    check_memory,
    check_port_free,
    check_python,
    check_server,
)
from unisono.cli.doctor_reach import check_broker, check_nodes, hide
from unisono.cli.output import Json, finish, people, print_json
from unisono.cli.settings import Settings, load

LIMIT_S = 15.0  # for all of it: what has not answered by then is reported as such
MARKS = {"good": "[green]good[/]", "note": "[yellow]note[/]", "bad": "[bold red]bad [/]"}

Check = Callable[[], Finding]


def doctor(
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="Also look whether a broker and nodes answer there (else UNISONO_URL, else `url` in unisono.toml).",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check this machine and say what to do: good, a note (works, could be better), or bad (exit code 1)."""
    settings = load({"url": url})
    reach = url is not None or settings.url != Settings().url
    with people.status("looking at this machine …"):
        findings = [hide(found, settings.url) for found in examine(checks(settings, reach=reach), LIMIT_S)]
    held = all(finding.state != "bad" for finding in findings)
    if json:
        print_json({"version": __version__, "held": held, "findings": findings})
    else:
        _show(findings)
    finish(held=held)


def checks(settings: Settings, *, reach: bool) -> dict[str, Check]:
    """What is looked at, by name; `reach`: the broker as well."""
    up = settings.up
    found: dict[str, Check] = {
        "python": check_python,
        "event loop": check_loop,
        "open files": check_files,
        "memory": check_memory,
        "clock": check_clock,
        "data folder": lambda: check_folder("data folder", up.data, "--data"),
        "temporary files": lambda: check_folder("temporary files", None, "TMPDIR"),
        "NATS server": check_server,
        "java": check_java,
    }
    ports = {
        "up --port": up.port,
        "up --monitor-port": up.monitor_port,
        "--metrics-port": settings.metrics_port,
        "--dashboard-port": settings.dashboard_port,
    }
    for option, port in ports.items():
        if port:
            found[f"port {port}"] = lambda port=port, option=option: check_port_free(up.host, port, option)  # type: ignore[misc]
    for extra in EXTRAS:
        found[f"extra {extra}"] = lambda extra=extra: check_extra(extra)  # type: ignore[misc]
    if reach:
        found["broker"] = lambda: check_broker(settings.url)
        found["nodes"] = lambda: check_nodes(settings.url)
    return found


def examine(wanted: dict[str, Check], limit_s: float) -> list[Finding]:
    """All findings, in order. A check that hangs (a dead disk, a name server that is silent) is left behind."""
    answers: dict[str, Finding] = {}

    def ask(name: str, check: Check) -> None:
        try:
            answers[name] = check()
        except Exception as error:  # a doctor that dies of what it finds helps nobody
            answers[name] = Finding(name, "bad", f"the check itself failed: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=ask, args=item, daemon=True) for item in wanted.items()]
    for thread in threads:
        thread.start()
    end = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = f"no answer within {limit_s:g} s"
    return [answers.get(name) or Finding(name, "bad", late, "look what it waits for") for name in wanted]


def _show(findings: list[Finding]) -> None:
    wide = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark, name = MARKS[finding.state], escape(f"{finding.name:{wide}}")
        people.print(f"{mark}  {name}  {escape(finding.found)}", soft_wrap=True)
        if finding.advice:
            people.print(f"{'':{wide + 8}}→ {escape(finding.advice)}", soft_wrap=True)
    count = Counter(finding.state for finding in findings)
    people.print(f"{count['good']} good, {count['note']} to note, {count['bad']} bad")
