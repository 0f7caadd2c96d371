"""`unisono lab epidemic`: the reference world of dispatchers, with and without recovery."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json, progress

if TYPE_CHECKING:
    from unisono.sim.epidemic.reference import Outcome

DELIVERY, DELIVERY_REWIRED, OVERHEAD = 0.999, 0.99, 0.25  # what is asked of the combined algorithm


def epidemic(
    dispatchers: Annotated[int, typer.Option(min=2, help="How many dispatchers form the tree.")] = 100,
    patterns: Annotated[int, typer.Option(min=1, help="How many kinds of content there are.")] = 70,
    rate: Annotated[float, typer.Option(min=0.01, help="Events per second, of all together.")] = 50.0,
    loss: Annotated[float, typer.Option(min=0.0, max=0.9, help="On each link, of everything.")] = 0.1,
    payload: Annotated[int, typer.Option(min=0, help="Bytes of an event besides its attributes.")] = 256,
    rewire: Annotated[float, typer.Option(help="Seconds between two changes of the tree.")] = 1.0,
    seconds: Annotated[float, typer.Option(min=0.5, help="Simulated time that is counted.")] = 20.0,
    warm: Annotated[float, typer.Option(min=0.0, help="Simulated time before that.")] = 3.0,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything that is random.")] = 1,
    seeds: Annotated[
        int, typer.Option(min=1, help="How many from there on; the targets are for each of them.")
    ] = 1,
    json: Json = False,
) -> None:
    """A tree of dispatchers that loses: how much arrives within ten gossip rounds, and what finding it costs."""
    from unisono.sim.epidemic.reference import Reference, reference_settings, run_reference

    world = Reference(
        dispatchers=dispatchers,
        patterns=patterns,
        rate_s=rate / dispatchers,
        loss=loss,
        payload_bytes=payload,
        seconds=seconds,
        warm_s=warm,
    )
    bare, still, rewired = "bare tree", "combined", f"combined, a tree change every {rewire:g} s"
    kinds = {
        bare: (world, reference_settings(algorithm="none")),
        still: (world, reference_settings()),
        rewired: (msgspec.structs.replace(world, rewire_s=rewire), reference_settings()),
    }
    runs: dict[str, list[Outcome]] = {name: [] for name in kinds}
    with progress("simulating", len(kinds) * seeds) as tell:
        for one in range(seed, seed + seeds):
            for name, (kind, settings) in kinds.items():
                runs[name].append(run_reference(msgspec.structs.replace(kind, seed=one), settings))
                tell(sum(map(len, runs.values())), len(kinds) * seeds)
    held = all(o.delivery >= DELIVERY and o.overhead < OVERHEAD for o in runs[still])
    held = held and all(o.delivery >= DELIVERY_REWIRED for o in runs[rewired])
    if json:
        found = [_facts(name, outcome) for name, outcomes in runs.items() for outcome in outcomes]
        print_json({"held": held, "runs": found})
        finish(held=held)
    title = f"{dispatchers} dispatchers, {patterns} patterns, {rate:g} events/s, {loss:.0%} loss per link"
    _show(title + (f", {seeds} seeds: mean (worst)" if seeds > 1 else ""), runs)
    finish(held=held)


def _show(title: str, runs: dict[str, list[Outcome]]) -> None:
    table = Table(title=title)
    table.add_column("")
    for column in ("events", "owed", "within 10 rounds", "at last", "digests and requests", "repairs"):
        table.add_column(column, justify="right")
    for name, outcomes in runs.items():
        events, owed = (sum(getattr(o, field) for o in outcomes) for field in ("events", "expected"))
        shares = (
            _share([o.delivery for o in outcomes], min),
            _share([o.delivery_at_last for o in outcomes], min),
            _share([o.overhead for o in outcomes], max),
            _share([o.repairs for o in outcomes], max),
        )
        table.add_row(name, f"{events:,}", f"{owed:,}", *shares)
    people.print(table)
    people.print("digests and requests, and repairs, in bytes for each byte of events on the tree; simulated")


def _share(values: list[float], worst: Callable[[list[float]], float]) -> str:
    mean = f"{fmean(values):.2%}"
    return mean if len(values) == 1 else f"{mean} ({worst(values):.2%})"


def _facts(name: str, outcome: Outcome) -> dict[str, object]:
    return {
        "name": name,
        "delivery": outcome.delivery,
        "delivery_at_last": outcome.delivery_at_last,
        "overhead": outcome.overhead,
        "repairs": outcome.repairs,
        **msgspec.structs.asdict(outcome),
    }
