"""`unisono bench sequencers`: nodes that keep topics together, nodes that spread atoms, and one JetStream stream."""

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
from unisono.cli.bench_scaling import all_hold_all
from unisono.cli.bench_scaling_runs import Cell, Point, run
from unisono.cli.loop import run_loop
from unisono.cli.output import Json, finish, people, print_json, progress

WORKLOADS = ("A4", "A10", "zipf")
SYSTEMS = ("topics", "atoms", "jetstream")
NODES = ("1", "2")
TOPICS = 5  # of workload A, as in `bench peers`
GROUPS, MEMBERS, SEED = 64, 32, 7  # of zipf: the k-th group has 1/k of all members
PROCESSES = ("publisher", "server", "nodes", "subscribers")

Figures = dict[str, Any]


def groups_of_zipf_size() -> tuple[tuple[int, ...], ...]:
    """The groups that each member is in; the first group has everybody, as in paper 003 members are drawn evenly."""
    import numpy as np  # only here: whoever runs another command need not have it

    from unisono.sim.workloads import group_members, zipf_group_sizes

    held = group_members(zipf_group_sizes(GROUPS, MEMBERS, MEMBERS), MEMBERS, np.random.default_rng(SEED))
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in held)


def cells(
    workloads: Sequence[str], systems: Sequence[str], nodes: Sequence[str]
) -> dict[str, dict[str, Cell]]:
    """What every system is to do, by workload; all of them keep events on disk."""
    shapes: dict[str, Figures] = {
        "A4": {"topics": TOPICS, "holdings": all_hold_all(TOPICS, 4).holdings},
        "A10": {"topics": TOPICS, "holdings": all_hold_all(TOPICS, 10).holdings},
        "zipf": {"topics": GROUPS, "holdings": groups_of_zipf_size()},
    }
    grid: dict[str, dict[str, Cell]] = {}
    for workload in workloads:
        row: dict[str, Cell] = {}
        for system in systems:
            if system == "jetstream":
                row[system] = Cell(**shapes[workload], nodes=0, store="nats", script="jetstream")
                continue
            for n in nodes:
                row[f"{system} {n}"] = Cell(**shapes[workload], nodes=int(n), store="nats", sequencer=system)
        grid[workload] = row
    return grid


def sequencers(
    workloads: Annotated[
        str, typer.Option(help="A4, A10: 5 topics, 4 or 10 subscribers of all; zipf: 64 groups, 32 members.")
    ] = ",".join(WORKLOADS),
    systems: Annotated[str, typer.Option(help="Which, with commas between them.")] = ",".join(SYSTEMS),
    nodes: Annotated[str, typer.Option(help="How many nodes sequence.")] = ",".join(NODES),
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of which the median counts.")] = 3,
    events: Annotated[int, typer.Option(min=100, help="Events as fast as they go.")] = 10_000,
    rate: Annotated[int, typer.Option(min=1, help="Events/s when latency is measured.")] = 500,
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="For how long.")] = 3.0,
    json: Json = False,
) -> None:
    """Events/s, latency to the last subscriber, CPU of every node, and whether there was one order.

    Systems take turns in every repeat. One publisher, 100-byte payloads, in turns over the topics.
    """
    grid = cells(
        chosen(workloads, WORKLOADS, "--workloads"),
        chosen(systems, SYSTEMS, "--systems"),
        chosen(nodes, NODES, "--nodes"),
    )
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # as Ctrl-C: in good order
    with progress("bench sequencers") as tell:
        result = run_loop(measure(grid, repeats, events, rate, seconds, tell))
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
    """Every system again and again, in turns."""
    runs: dict[tuple[str, str], list[Point]] = {}
    loads, stalls = [os.getloadavg()[0]], []
    total, done = repeats * sum(map(len, grid.values())), 0
    for _ in range(repeats):
        for workload, row in grid.items():
            for name, cell in row.items():
                for _ in range(STALLS_MAX):
                    point = await run(cell, events, rate, seconds)
                    if not point.stall_s:
                        break
                    stalls.append(point.stall_s)
                runs.setdefault((workload, name), []).append(point)
                done += 1
                tell(done, total)
        loads.append(os.getloadavg()[0])
    workloads = {
        w: {name: figures(runs[w, name], cell) for name, cell in row.items()} for w, row in grid.items()
    }
    return {
        "workloads": workloads,
        "missed": missed(workloads),
        "rate": rate,
        "events": events,
        "repeats": repeats,
        "stalls": stalls,
        "load": [round(load, 1) for load in loads],
        "machine": machine(),
    }


def figures(points: Sequence[Point], cell: Cell) -> Figures:
    """The medians of one system at one workload."""

    def of(values: Iterable[float | None], digits: int) -> float | None:
        present = [value for value in values if value is not None]
        return round(statistics.median(present), digits) if present else None

    each = [f"n{i}" for i in range(1, cell.nodes + 1)]
    return {
        "events_s": of((point.events_s for point in points), 0),
        "p50_ms": of((point.p50_ms for point in points), 3),
        "p99_ms": of((point.p99_ms for point in points), 3),
        "cpu_us": {kind: of((point.cpu_us.get(kind) for point in points), 1) for kind in (*PROCESSES, *each)},
        "slow_cpu_us": {
            kind: of((point.slow_cpu_us.get(kind) for point in points), 1) for kind in (*PROCESSES, *each)
        },
        "runs": len(points),
        "one_order": sum(point.one_order for point in points),
        "faults": [fault for point in points for fault in point.faults],
    }


def missed(workloads: Mapping[str, Mapping[str, Figures]]) -> list[str]:
    """Where there was no one order, or something was lost, in words."""
    words = []
    for workload, row in workloads.items():
        for name, found in row.items():
            if found["one_order"] < found["runs"]:
                words.append(f"{workload}, {name}: one order in {found['one_order']} of {found['runs']} runs")
            words += [f"{workload}, {name}: {fault}" for fault in found["faults"]]
    return words


def _show(result: Figures) -> None:
    for workload, row in result["workloads"].items():
        table = Table(
            title=f"{workload}; µs of CPU per event at full speed, and at {result['rate']} events/s"
        )
        table.add_column("", no_wrap=True)
        for column in ("events/s", "p50 ms", "p99 ms", "each node", "all", "each node", "all", "one order"):
            table.add_column(column, justify="right")
        for name, found in row.items():
            speed = "-" if found["events_s"] is None else f"{found['events_s']:,.0f}"
            late = ["-" if found[p] is None else f"{found[p]:.2f}" for p in ("p50_ms", "p99_ms")]
            busy = [cell for when in ("cpu_us", "slow_cpu_us") for cell in _costs(found[when])]
            table.add_row(name, speed, *late, *busy, f"{found['one_order']} of {found['runs']}")
        people.print(table)
    for line in result["missed"]:
        people.print(f"[bold red]missed[/]: {escape(line)}")


def _costs(costs: Mapping[str, float | None]) -> tuple[str, str]:
    """Of each node, and of all processes."""

    def shown(cost: float | None) -> str:
        return "-" if cost is None else f"{cost:.0f}"

    known = [cost for kind in PROCESSES if (cost := costs[kind]) is not None]
    nodes = [shown(cost) for kind, cost in costs.items() if kind not in PROCESSES]
    return ", ".join(nodes) or "-", shown(sum(known) if known else None)
