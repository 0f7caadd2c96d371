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
    "perturbation": ("until", "peers", "loss", "latency_ms"),
    "shuffle": (),
    "crash": ("until", "process"),
    "pause": ("until", "process"),
    "partition": ("until", "side"),
}
OF_NODES = ("crash", "pause", "partition")
OF_NETWORKS = ("loss", "latency", "perturbation")
NEEDS_END = (*OF_NETWORKS, "pause", "partition")
FAULT_KEYS = ("at", "kind", "until", "process", "side", "peers", "loss", "latency_ms", "spread_ms")
FAULTS_MAX = 10_000
NEEDED: dict[str, dict[str, str]] = {
    "loss": {"loss": "which share is lost, from 0 to 0.9"},
    "perturbation": {"peers": "which share of the peers it happens to, up to 1"},
    "crash": {"process": "who it happens to"},
    "pause": {"process": "who it happens to"},
    "partition": {"side": "who it happens to"},
}
EITHER = {"latency": ("latency_ms", "spread_ms"), "perturbation": ("loss", "latency_ms")}
LOSS_MAX = {"loss": 0.9, "perturbation": 1.0}


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
    if kind in OF_NETWORKS and until > duration:
        table.fail("until", f"is {until:g}, and 'duration' is {duration:g}")
    for key, what in NEEDED.get(kind, {}).items():
        if key not in table:
            table.missing(key, what)
    if kind in EITHER and not any(key in table for key in EITHER[kind]):
        table.missing(EITHER[kind][0], f"or '{EITHER[kind][1]}'")
    side = tuple(table.strings("side"))
    if kind == "partition" and not side:
        table.fail("side", "is empty: name at least one process on it")
    return Fault(
        at=at,
        kind=kind,
        until=until,
        process=table.string("process", ""),
        side=side,
        peers=table.positive("peers", 1.0, most=1.0),
        loss=table.number("loss", 0.0, most=LOSS_MAX[kind]) if "loss" in table else None,
        latency_s=_seconds(table, "latency_ms"),
        spread_s=_seconds(table, "spread_ms"),
    )


def _seconds(table: Table, key: str) -> float | None:
    return table.number(key, 0.0, most=60_000) / 1000 if key in table else None
