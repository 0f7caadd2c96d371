"""`unisono pipeline watch`: the audit of a journal while it is written."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.markup import escape

from unisono.cli.output import finish, people
from unisono.cli.pipeline import Journal, Master, needs_spark
from unisono.model.errors import ConfigError

if TYPE_CHECKING:
    from unisono.pipeline.watch import Progress, Watch
    from unisono.pipeline.watch_ledger import Ledger, Notice, Page

PROGRESS_S = 5.0
REST_S_MAX = 60.0  # for what was written before the end of the time

Lines = Annotated[bool, typer.Option("--json", help="Print JSON lines on stdout.")]


def watch(
    journal: Journal,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder to go on from after a restart; without it, from the start.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="End after so long; 0: when what is there now is judged.")
    ] = None,
    master: Master = "local[2,4]",  # a task is tried four times
    json: Lines = False,
) -> None:
    """Tell every broken promise a few seconds after the delivery that broke it; exit code 1 if there was one."""
    with needs_spark():
        from unisono.pipeline.watch import progress_of
        from unisono.pipeline.watch_ledger import Ledger
    if not journal.is_dir():
        raise ConfigError(f"'{journal}' is no folder; name the one that processes keep their journals in")
    with _folder(checkpoint) as folder, Ledger(folder, journal).opened() as ledger:
        teller = _Teller(json)
        with _running(ledger, teller, master) as running:
            _until_the_end(running, teller, seconds)
        ended = progress_of(ledger.page, "ended")
        teller.end(ended)
    finish(held=ended.verdict != "violated")


@contextmanager
def _folder(checkpoint: Path | None) -> Iterator[Path]:
    if checkpoint is not None:
        yield checkpoint
        return
    with tempfile.TemporaryDirectory(prefix="unisono-watch-") as folder:
        yield Path(folder)


@contextmanager
def _running(ledger: Ledger, teller: _Teller, master: str) -> Iterator[Watch]:
    from unisono.pipeline.session import java_pid, open_session
    from unisono.pipeline.watch import Watch

    with people.status("starting Spark"):
        spark = open_session(master, java_log=ledger.java_log)
    try:
        ledger.note_java(java_pid(spark))
        watch = Watch(spark, ledger, teller.tell, teller.judged, teller.again)
        try:
            yield watch
        finally:
            watch.stop()
    finally:
        spark.stop()


def _until_the_end(watch: Watch, teller: _Teller, seconds: float | None) -> None:
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: asked.append(number))
    teller.ready()
    begun = time.monotonic()
    bound = REST_S_MAX
    if seconds is None or seconds > 0:
        watch.run(lambda: bool(asked) or (seconds is not None and time.monotonic() - begun >= seconds))
    else:
        bound = float("inf")
    # What was written before the end is judged, so that nothing in it goes untold.
    there, since = watch.there_now(), time.monotonic()
    asked.clear()
    watch.run(lambda: bool(asked) or watch.has_judged(there) or time.monotonic() - since > bound)
    if not watch.has_judged(there):
        people.print("[yellow]ended before everything was judged[/]")


class _Teller:
    """Says what is found: lines for people, JSON lines for machines."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._told_at = 0.0

    def ready(self) -> None:
        """Segments are judged from now on."""
        if self._json:
            self._line({"what": "ready"})
        else:
            people.print("watching")

    def tell(self, notice: Notice) -> None:
        """Something was found."""
        if self._json:
            self._line(notice)
        elif notice.what == "violation":
            also = "".join(f"\n  also {o['promise']}: {escape(o['explanation'])}" for o in notice.also)
            people.print(
                f"[bold red]{notice.promise}[/]: {escape(notice.explanation)} "
                f"(told {notice.delay_s:.1f} s after it happened){also}"
            )
        else:
            people.print(f"[yellow]{notice.what}[/]: {escape(notice.explanation)}")

    def again(self, words: str) -> None:
        """Spark had to be begun again; nothing is lost by it."""
        if self._json:
            self._line({"what": "again", "explanation": words})
        else:
            people.print(f"[yellow]again[/]: {escape(words)}")

    def judged(self, page: Page) -> None:
        """A batch was judged; told now and then."""
        from unisono.pipeline.watch import progress_of

        if time.monotonic() - self._told_at >= PROGRESS_S:
            self._told_at = time.monotonic()
            self._progress(progress_of(page))

    def end(self, ended: Progress) -> None:
        """Nothing more is judged."""
        self._progress(ended)

    def _progress(self, done: Progress) -> None:
        if self._json:
            self._line(done)
            return
        colour = {"held": "green", "violated": "bold red", "unknown": "yellow"}[done.verdict]
        late = f", {done.forgotten:,} stamps came too late to be compared" if done.forgotten else ""
        people.print(
            f"[{colour}]{done.verdict}[/] over {done.deliveries:,} deliveries in {done.segments:,} segments "
            f"of {done.lives} lives: {done.violations} violations{late}"
        )

    @staticmethod
    def _line(document: object) -> None:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        sys.stdout.flush()
