"""`unisono bench filters`: matching events against very many subscriptions, and what covering saves."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Annotated, Any

import typer
from rich.table import Table

from unisono.cli.bench import Figures
from unisono.cli.bench_filters_load import MIXES, desk, event, subscriptions
from unisono.cli.output import BAD_INPUT, Json, finish, people, print_json, progress
from unisono.engines.filters import Filter, parse
from unisono.engines.filters.cover import Cover

EVENTS_S_MIN = 20_000
CUT_MIN = 0.5
NAIVE_EVENTS = 10


def filters(
    count: Annotated[int, typer.Option("--subscriptions", min=100, help="Of each mix.")] = 100_000,
    events: Annotated[int, typer.Option(min=NAIVE_EVENTS, help="Events in each run.")] = 5_000,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of which the best counts.")] = 7,
    covered: Annotated[int, typer.Option(min=10, help="Subscriptions of the desk, for covering.")] = 20_000,
    json: Json = False,
) -> None:
    """Subscriptions of three predicates over 20 attributes, of which an event matches one in a thousand.

    Processor time is counted, the best of several runs; testing each subscription stands beside it.
    """
    try:
        import numpy  # noqa: F401 (the index is made of its arrays)
    except ImportError:
        people.print("the matching index needs NumPy: pip install 'unisono[filters]'", markup=False)
        raise typer.Exit(BAD_INPUT) from None
    with progress("bench filters", len(MIXES) + 1) as tell:
        result: Figures = {"subscriptions": count, "events": events, "repeats": repeats, "mixes": {}}
        for done, mix in enumerate(MIXES):
            result["mixes"][mix] = _mix(mix, count, events, repeats)
            tell(done + 1, len(MIXES) + 1)
        result["covering"] = _covering(covered)
    result["missed"] = missed(result)
    print_json(result) if json else _show(result)
    finish(held=not result["missed"])


def _mix(mix: str, count: int, events: int, repeats: int) -> Figures:
    from unisono.engines.filters.index import Index

    chances = Random(1)
    wanted, parse_s = _parsed(islice(subscriptions(mix, chances), count))
    index: Index[int] = Index()
    add_s = time.process_time()
    for key, one in enumerate(wanted):
        index.add(key, one)
    add_s = time.process_time() - add_s
    published = [event(chances) for _ in range(events)]
    one_by_one, together = [], []
    gc.collect()
    gc.freeze()
    for _ in range(repeats):
        began = time.process_time()
        found = [index.match(one) for one in published]
        between = time.process_time()
        found_too = index.match_many(published)
        one_by_one.append(between - began)
        together.append(time.process_time() - between)
    gc.unfreeze()
    began = time.process_time()
    asked = [
        [key for key, one in enumerate(wanted) if one.matches(attributes)]
        for attributes in published[:NAIVE_EVENTS]
    ]
    naive_s = (time.process_time() - began) / NAIVE_EVENTS
    bitmap_bytes, remove_s = index.bitmap_bytes, time.process_time()
    for key in range(count):
        index.remove(key)
    remove_s = time.process_time() - remove_s
    return {
        "what": MIXES[mix],
        "selectivity": round(sum(map(len, found)) / events / count, 6),
        "events_s": round(events / min(together)),
        "one_by_one_events_s": round(events / min(one_by_one)),
        "naive_events_s": round(1 / naive_s, 1),
        "parse_us": round(parse_s / count * 1e6, 1),
        "add_us": round(add_s / count * 1e6, 1),
        "remove_us": round(remove_s / count * 1e6, 1),
        "bitmap_bytes": bitmap_bytes,
        "agrees": asked == [sorted(keys) for keys in found[:NAIVE_EVENTS]] and _same(found, found_too),
    }


def _same(found: list[list[int]], found_too: list[list[int]]) -> bool:
    return all(sorted(one) == sorted(other) for one, other in zip(found, found_too, strict=True))


def _parsed(texts: Iterator[str]) -> tuple[list[Filter], float]:
    began = time.process_time()
    return [parse(text) for text in texts], time.process_time() - began


def _covering(count: int) -> Figures:
    wanted, _ = _parsed(islice(desk(Random(2)), count))
    cover = Cover()
    began = time.process_time()
    messages = 0
    for one in wanted:
        change = cover.add(one)
        messages += len(change.propagate) + len(change.withdraw)
    return {
        "what": desk.__doc__ and " ".join(desk.__doc__.split()),
        "subscriptions": count,
        "distinct": len(cover),
        "told": len(cover.told),
        "cut": round(1 - len(cover.told) / len(cover), 3),
        "messages": messages,
        "add_us": round((time.process_time() - began) / count * 1e6, 1),
    }


def missed(result: dict[str, Any]) -> list[str]:
    """The targets that were not met, in words."""
    found = [
        f"the index and asking each disagree ({mix})"
        for mix, row in result["mixes"].items()
        if not row["agrees"]
    ]
    for mix, row in result["mixes"].items():
        if row["events_s"] < EVENTS_S_MIN:
            found.append(f"{row['events_s']:,} events/s ({mix}), target {EVENTS_S_MIN:,}")
    cut = result["covering"]["cut"]
    if cut < CUT_MIN:
        found.append(f"covering cuts {cut:.0%} of the distinct subscriptions, target {CUT_MIN:.0%}")
    return found


def _show(result: Figures) -> None:
    table = Table(title=f"{result['subscriptions']:,} subscriptions of 3 predicates over 20 attributes")
    for name in ("subscriptions want", "match", "together", "one by one", "asking each"):
        table.add_column(name, justify="right")
    for row in result["mixes"].values():
        table.add_row(
            row["what"],
            f"{row['selectivity']:.3%}",
            f"{row['events_s']:,} events/s",
            f"{row['one_by_one_events_s']:,} events/s",
            f"{row['naive_events_s']:,} events/s",
        )
    people.print(table)
    covering = result["covering"]
    people.print(
        f"a desk's {covering['subscriptions']:,} subscriptions are {covering['distinct']:,} different filters; "
        f"others are told {covering['told']:,} ({covering['cut']:.0%} fewer), {covering['messages']:,} messages "
        f"on the way there"
    )
    for line in result["missed"]:
        people.print(f"[bold red]missed[/]: {line}")
