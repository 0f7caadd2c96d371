"""`unisono bench scaling`: what grows with topics, subscribers, subscriptions, overlap, payloads and nodes."""

from __future__ import annotations

import os
import signal
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.bench_peers import STALLS_MAX, chosen, machine
from unisono.cli.bench_scaling_runs import Cell, Point, quota_folder, run
from unisono.cli.loop import run_loop
from unisono.cli.output import Json, finish, people, print_json, progress
from unisono.model.errors import ConfigError

TWO_NODES_MIN = 1.6  # events/s of two nodes beside one, where nodes are what is short
SHORT_TIMES = 4  # as many events where nodes are short: a start counts for much there
COMPONENTS = 8
PROCESSES = ("publisher", "server", "nodes", "subscribers")

Figures = dict[str, Any]


def all_hold_all(topics: int, subscribers: int, **more: Any) -> Cell:
    """Everybody holds every topic."""
    return Cell(topics=topics, holdings=(tuple(range(topics)),) * subscribers, **more)


def _each(held: int) -> Cell:
    """Ten subscribers, each with its own k of 50 topics, side by side in a ring."""
    return Cell(topics=50, holdings=tuple(tuple((5 * i + j) % 50 for j in range(held)) for i in range(10)))


def _components(**more: Any) -> Cell:
    """Eight topics, each held by a subscriber of its own: nothing is ordered with anything else."""
    return Cell(topics=COMPONENTS, holdings=tuple((i,) for i in range(COMPONENTS)), **more)


def cells(quota: float) -> dict[str, dict[str, Cell]]:
    """Every part of the study, and its points."""
    pairs = Cell(topics=8, holdings=tuple((i // 2 * 2, i // 2 * 2 + 1) for i in range(8)))
    slow: dict[str, Any] = {"store": "nats", "quota": quota, "flush_every": 16_384}
    return {
        "topics": {str(n): all_hold_all(n, 4) for n in (1, 5, 50, 200)},
        "subscribers": {str(n): all_hold_all(5, n) for n in (1, 4, 10, 20)},
        "subscription": {str(n): _each(n) for n in (5, 10, 25, 50)},
        "overlap": {"pairs": pairs, "all": all_hold_all(8, 8)},
        "payload": {str(n): all_hold_all(5, 4, payload_bytes=n) for n in (16, 100, 1000, 10_000)},
        "nodes": {str(n): _components(nodes=n, store="nats") for n in (1, 2)},
        "nodes-quota": {str(n): _components(nodes=n, **slow) for n in (1, 2)},
    }


PARTS = tuple(cells(1.0))
FITTED = ("topics", "subscribers", "payload")


def scaling(
    parts: Annotated[str, typer.Option(help="Which, with commas between them.")] = ",".join(PARTS),
    points: Annotated[str, typer.Option(help="Which points of them; all, if none is named.")] = "",
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of which the median counts.")] = 3,
    events: Annotated[int, typer.Option(min=100, help="Events as fast as they go.")] = 30_000,
    rate: Annotated[int, typer.Option(min=1, help="Events/s when latency is measured.")] = 500,
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="For how long.")] = 1.0,
    node_quota: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Of a core, for each node, in part nodes-quota.")
    ] = 0.05,
    json: Json = False,
) -> None:
    """Events/s, latency and CPU against one thing after the other: a publisher, a server, nodes, subscribers.

    In part nodes-quota every node gets only a share of a core (Linux, root), so that nodes are what is short.
    """
    wanted = cells(node_quota)
    named = chosen(parts, PARTS, "--parts")
    only = chosen(points, sorted({key for part in named for key in wanted[part]}), "--points")
    grid = {
        part: {key: cell for key, cell in wanted[part].items() if not only or key in only} for part in named
    }
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # as Ctrl-C: in good order
    with progress("bench scaling") as tell:
        result = run_loop(measure(grid, repeats, events, rate, seconds, tell))
    result["node_quota"] = node_quota
    if json:
        print_json(result)
    else:
        _show(result)
    finish(held=not result["missed"])


async def measure(
    grid: Mapping[str, Mapping[str, Cell]],
    repeats: int,
    events: int,
    rate: int,
    seconds: float,
    tell: Callable[[int, int], None],
) -> Figures:
    """Every system again and again; one that is a point of several parts runs once for all of them."""
    skipped = {}
    if "nodes-quota" in grid:
        try:
            quota_folder()
        except ConfigError as error:
            skipped["nodes-quota"] = str(error)
            grid = {part: row for part, row in grid.items() if part != "nodes-quota"}
    systems = dict.fromkeys(cell for row in grid.values() for cell in row.values())
    runs: dict[Cell, list[Point]] = {cell: [] for cell in systems}
    stalls: list[float] = []
    loads = [os.getloadavg()[0]]
    for turn in range(repeats):
        for i, cell in enumerate(systems):
            for _ in range(STALLS_MAX):
                if cell.quota:
                    point = await run(cell, SHORT_TIMES * events, 0, seconds)
                else:
                    point = await run(cell, events, rate, seconds)
                if not point.stall_s:
                    break
                stalls.append(point.stall_s)
            runs[cell].append(point)
            tell(turn * len(systems) + i + 1, repeats * len(systems))
        loads.append(os.getloadavg()[0])
    parts = {part: {key: median(runs[cell]) for key, cell in row.items()} for part, row in grid.items()}
    result: Figures = {
        "parts": parts,
        "laws": {part: law(parts[part]) for part in FITTED if len(parts.get(part, {})) > 1},
        "two_nodes": {
            part: ratio for part in ("nodes", "nodes-quota") if (ratio := _ratio(parts.get(part, {})))
        },
        "skipped": skipped,
        "stalls": stalls,
        "repeats": repeats,
        "events": events,
        "load": [round(load, 1) for load in loads],
        "machine": machine(),
    }
    return result | {"missed": missed(result)}


def median(points: Sequence[Point]) -> Figures:
    """The figures of one point of a part."""

    def of(values: Iterable[float | None], digits: int) -> float | None:
        present = [value for value in values if value is not None]
        return round(statistics.median(present), digits) if present else None

    return {
        "events_s": of((point.events_s for point in points), 0),
        "p50_ms": of((point.p50_ms for point in points), 3),
        "p99_ms": of((point.p99_ms for point in points), 3),
        "cpu_us": {kind: of((point.cpu_us.get(kind) for point in points), 2) for kind in PROCESSES},
        "frames": of((point.frames for point in points), 4),
        "bytes_in": of((point.bytes_in for point in points), 1),
        "slow_bytes_in": of((point.slow_bytes_in for point in points), 1),
        "runs": len(points),
        "one_order": sum(point.one_order for point in points),
        "faults": [fault for point in points for fault in point.faults],
    }


def law(row: Mapping[str, Figures]) -> Figures:
    """What an event costs, as a + b x by least squares: µs of CPU by kind of process, and bytes when it goes alone."""
    found: dict[str, list[tuple[float, float]]] = {}
    for key, figures in row.items():
        costs = {kind: cost for kind, cost in figures["cpu_us"].items() if cost is not None}
        if costs:
            costs["all"] = sum(costs.values())
        if figures["slow_bytes_in"] is not None:
            costs["slow_bytes_in"] = figures["slow_bytes_in"]
        for kind, cost in costs.items():
            found.setdefault(kind, []).append((float(key), cost))
    lines = {kind: statistics.linear_regression(*zip(*pairs, strict=True)) for kind, pairs in found.items()}
    return {kind: {"a": round(line.intercept, 3), "b": round(line.slope, 5)} for kind, line in lines.items()}


def _ratio(row: Mapping[str, Figures]) -> float | None:
    one, two = (row.get(key, {}).get("events_s") for key in ("1", "2"))
    return round(two / one, 2) if one and two else None


def missed(result: Figures) -> list[str]:
    """What did not hold, in words."""
    words = []
    for part, row in result["parts"].items():
        for key, figures in row.items():
            where = f"{part} {key}"
            if figures["one_order"] < figures["runs"]:
                words.append(f"{where}: one order in {figures['one_order']} of {figures['runs']} runs")
            words += [f"{where}: {fault}" for fault in figures["faults"]]
    ratio = result["two_nodes"].get("nodes-quota")
    if ratio is not None and ratio < TWO_NODES_MIN:
        words.append(f"two nodes at {ratio:.2f} of one, target {TWO_NODES_MIN}")
    return words


def _show(result: Figures) -> None:
    for part, row in result["parts"].items():
        table = Table(part, "events/s", "p50 ms", "p99 ms", *(f"{kind} µs" for kind in PROCESSES), "frames")
        for key, figures in row.items():
            costs = (_cell(figures["cpu_us"][kind], ".1f") for kind in PROCESSES)
            late = (_cell(figures[name], ".2f") for name in ("p50_ms", "p99_ms"))
            speed, frames = _cell(figures["events_s"], ",.0f"), _cell(figures["frames"], ".3f")
            table.add_row(key, speed, *late, *costs, frames)
        people.print(table)
    for part, ratio in result["two_nodes"].items():
        people.print(f"two nodes beside one, {part}: {ratio:.2f}")
    for part, why in result["skipped"].items():
        people.print(f"skipped {part}: {escape(why)}")
    for line in result["missed"]:
        people.print(f"[bold red]missed[/]: {escape(line)}")


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
