"""Reads the faults of a scenario: what happens, when, to whom, and for how long."""

from __future__ import annotations

from typing import cast

from unisono.lab.scenarios.crowd import Names
from unisono.lab.scenarios.reading import Table
from unisono.lab.scenarios.scenario import Fault, FaultKind, Shape

# What each kind takes beside `at` and `kind`.
KINDS: dict[str, tuple[str, ...]] = {
    "loss": ("until", "loss"),
    "latency": ("until", "latency_ms", "spread_ms"),
    "shuffle": (),
    "crash": ("until", "process"),
    "pause": ("until", "process"),
    "partition": ("until", "side"),
}
OF_NODES = ("crash", "pause", "partition")
NEEDS_END = ("loss", "latency", "pause", "partition")
FAULT_KEYS = ("at", "kind", "until", "process", "side", "loss", "latency_ms", "spread_ms")
FAULTS_MAX = 10_000


def read_faults(
    top: Table, shape: Shape, duration: float, names: Names, nodes: tuple[str, ...]
) -> tuple[Fault, ...]:
    """The faults; whether their processes exist is not known yet."""
    tables = top.tables("faults", FAULT_KEYS)
    if len(tables) > FAULTS_MAX:
        top.fail("faults", f"are {len(tables):,}; the limit is {FAULTS_MAX:,}")
    faults = tuple(_fault(table, shape, duration) for table in tables)
    gone = {fault.process for fault in faults if fault.kind == "crash" and fault.until == 0.0}
    if nodes and gone.issuperset(nodes):
        top.fail("faults", "leave no node: let one come back with 'until', or have more with nodes.count")
    return faults


def _fault(table: Table, shape: Shape, duration: float) -> Fault:
    if "kind" not in table:
        table.missing("kind", f"it is one of {', '.join(KINDS)}")
    kind = cast(FaultKind, table.word("kind", "", tuple(KINDS)))
    if kind in OF_NODES and shape != "nodes":
        table.fail("kind", f'is not simulated as "{kind}" with shape = "{shape}"; take shape = "nodes"')
    for key in table.data:
        if key not in ("at", "kind", *KINDS[kind]):
            takes = f"; that takes {', '.join(('at', *KINDS[kind]))}"
            table.fail(key, f'does not go with kind = "{kind}"{takes}')
    if "at" not in table:
        table.missing("at", "when it happens, in seconds")
    at = table.number("at", 0.0)
    if at >= duration:
        table.fail("at", f"is {at:g}, and 'duration' is {duration:g}")
    if kind in NEEDS_END and "until" not in table:
        table.missing("until", "when it is over, in seconds")
    until = table.number("until", 0.0)
    if "until" in table and until <= at:
        table.fail("until", f"is after 'at', {at:g}, not {until:g}")
    if kind in ("loss", "latency") and until > duration:
        table.fail("until", f"is {until:g}, and 'duration' is {duration:g}")
    for key in ("process", "side", "loss"):
        if key in KINDS[kind] and key not in table:
            table.missing(key, {"loss": "which share is lost, from 0 to 0.9"}.get(key, "who it happens to"))
    if kind == "latency" and "latency_ms" not in table and "spread_ms" not in table:
        table.missing("latency_ms", "or 'spread_ms'")
    side = tuple(table.strings("side"))
    if kind == "partition" and not side:
        table.fail("side", "is empty: name at least one process on it")
    return Fault(
        at=at,
        kind=kind,
        until=until,
        process=table.string("process", ""),
        side=side,
        loss=table.number("loss", 0.0, most=0.9) if "loss" in table else None,
        latency_s=_seconds(table, "latency_ms"),
        spread_s=_seconds(table, "spread_ms"),
    )


def _seconds(table: Table, key: str) -> float | None:
    return table.number(key, 0.0, most=60_000) / 1000 if key in table else None
