"""`unisono bench journal`: what keeping a journal costs a bus that does nothing else."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.table import Table

from unisono.cli.bench import SUBSCRIBERS, TOPICS, Figures, seconds
from unisono.cli.loop import run_loop
from unisono.cli.output import Json, finish, people, print_json, progress


class Cost(NamedTuple):
    """Seconds from the first publish to the last delivery, and of processor time in the bus's own thread."""

    wall_s: float
    bus_thread_s: float


ROWS_PER_EVENT = 2 + SUBSCRIBERS  # published, sequenced, and delivered to each


def journal(
    events: Annotated[int, typer.Option(min=5000, help="Events in each run.")] = 200_000,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of which the median counts.")] = 5,
    json: Json = False,
) -> None:
    """The load of `bench core` in total order, without and with a journal, run by run in turn."""
    events -= events % 1000
    runs: dict[tuple[bool, bool], list[Cost]] = {
        (batches, kept): [] for batches in (False, True) for kept in (False, True)
    }
    sizes: list[float] = []
    missing = 0
    steps = repeats * len(runs)
    with progress("bench journal", steps) as tell, tempfile.TemporaryDirectory() as scratch:
        _run(5000, False, Path(scratch) / "first")  # loads what must be loaded once
        for i in range(steps):
            batches, kept = list(runs)[i % len(runs)]
            folder = Path(scratch) / str(i) if kept else None
            runs[batches, kept].append(_run(events, batches, folder))
            if folder is not None:
                rows, size = _look(folder)
                missing += events * ROWS_PER_EVENT - rows
                sizes.append(size / rows)
            tell(i + 1, steps)
    result: Figures = {
        "one_by_one": _figures(runs[False, False], runs[False, True], events),
        "batch_calls": _figures(runs[True, False], runs[True, True], events),
        "rows_per_event": ROWS_PER_EVENT,
        "bytes_per_row": round(statistics.median(sizes), 2),
        "rows_missing": max(0, missing),
    }
    if json:
        print_json(result)
    else:
        _show(result)
    finish(held=True)


def _run(events: int, batches: bool, folder: Path | None) -> Cost:
    topics, before = [f"topic.{i}" for i in range(TOPICS)], time.thread_time()
    wall_s = run_loop(
        seconds(topics, [topics] * SUBSCRIBERS, "total", events, batches=batches, journal=folder)
    )
    return Cost(wall_s, time.thread_time() - before)


def _look(folder: Path) -> tuple[int, int]:
    """How many rows of events a journal has, and how many bytes."""
    from unisono.journal import scan

    segments = scan(folder).segments
    others = 2 * TOPICS * SUBSCRIBERS  # subscribed and unsubscribed
    return sum(s.rows for s in segments) - others, sum(s.path.stat().st_size for s in segments)


def _figures(without: list[Cost], with_journal: list[Cost], events: int) -> Figures:
    plain, kept = (Cost(*map(statistics.median, zip(*runs, strict=True))) for runs in (without, with_journal))
    return {
        "without_events_s": round(events / plain.wall_s),
        "with_events_s": round(events / kept.wall_s),
        "added_us_per_event": round((kept.wall_s - plain.wall_s) / events * 1e6, 2),
        "bus_thread_us_per_event": round((kept.bus_thread_s - plain.bus_thread_s) / events * 1e6, 2),
    }


def _show(result: Figures) -> None:
    table = Table(
        title="what a journal costs: 5 topics, 4 subscribers of all, 100-byte payloads, total order"
    )
    for name in ("", "without", "with", "added", "in the bus's thread"):
        table.add_column(name, justify="right")
    for key in ("one_by_one", "batch_calls"):
        row = result[key]
        table.add_row(
            key.replace("_", " "),
            f"{row['without_events_s']:,} events/s",
            f"{row['with_events_s']:,} events/s",
            f"{row['added_us_per_event']:.2f} µs/event",
            f"{row['bus_thread_us_per_event']:.2f} µs/event",
        )
    people.print(table)
    people.print(
        f"{result['rows_per_event']} rows per event, {result['bytes_per_row']} bytes per row on disk, "
        f"{result['rows_missing']} rows dropped because the disk was too slow"
    )
