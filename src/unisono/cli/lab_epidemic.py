"""`unisono lab epidemic`: the reference world of dispatchers, with and without recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json

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
    json: Json = False,
) -> None:
    """A tree of dispatchers that loses: how much arrives within ten gossip rounds, and what finding it costs."""
    from unisono.sim.epidemic.reference import Reference, reference_settings, run_reference  # wants NumPy

    world = Reference(
        dispatchers=dispatchers,
        patterns=patterns,
        rate_s=rate / dispatchers,
        loss=loss,
        payload_bytes=payload,
        seconds=seconds,
        warm_s=warm,
        seed=seed,
    )
    moving = msgspec.structs.replace(world, rewire_s=rewire)
    outcomes = {
        "bare tree": run_reference(world, reference_settings(algorithm="none")),
        "combined": run_reference(world),
        f"combined, a tree change every {rewire:g} s": run_reference(moving),
    }
    still, rewired = list(outcomes.values())[1:]
    held = still.delivery >= DELIVERY and still.overhead < OVERHEAD and rewired.delivery >= DELIVERY_REWIRED
    if json:
        print_json({"held": held, "runs": [_facts(name, outcome) for name, outcome in outcomes.items()]})
        finish(held=held)
    table = Table(
        title=f"{dispatchers} dispatchers, {patterns} patterns, {rate:g} events/s, {loss:.0%} loss per link"
    )
    table.add_column("")
    for column in ("events", "owed", "within 10 rounds", "at last", "digests and requests", "repairs"):
        table.add_column(column, justify="right")
    for name, o in outcomes.items():
        shares = (o.delivery, o.delivery_at_last, o.overhead, o.repairs)
        table.add_row(name, f"{o.events:,}", f"{o.expected:,}", *(f"{share:.2%}" for share in shares))
    people.print(table)
    people.print("digests and requests, and repairs, in bytes for each byte of events on the tree; simulated")
    finish(held=held)


def _facts(name: str, outcome: Outcome) -> dict[str, object]:
    return {
        "name": name,
        "delivery": outcome.delivery,
        "delivery_at_last": outcome.delivery_at_last,
        "overhead": outcome.overhead,
        "repairs": outcome.repairs,
        **msgspec.structs.asdict(outcome),
    }
