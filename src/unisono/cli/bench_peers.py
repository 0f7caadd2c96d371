"""`unisono bench peers`: the same work for unisono and its peers, in turns, on this machine."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from unisono.cli.bench_peers_runs import Cell, Run, check, run
from unisono.cli.bench_peers_targets import OURS, Figures, compare, figures
from unisono.cli.loop import run_loop
from unisono.cli.output import Json, finish, people, print_json, progress
from unisono.model.errors import ConfigError

PEERS = (
    "unisono",
    "unisono-durable",
    "nats-core",
    "jetstream",
    "jetstream-batched",
    "redis-streams",
    "corosync-cpg",
    "jgroups-sequencer",
    "zenoh",
)
BOUND = "nats-relayed"  # no peer: the least that a process in between takes; only if it is asked for
WORKLOADS = ("A", "B", "C")
SUBSCRIBERS = (1, 4, 10)  # of A
RATES = (100, 1000, 5000)  # events/s of B
LATENCY_SUBSCRIBERS = 10
STALLS_MAX = 10  # runs of one peer in a row that are repeated because of them
PUBLISHERS, CONCURRENT_SUBSCRIBERS = 3, 4  # of C


def peers(
    peers: Annotated[str, typer.Option(help="Which, with commas between them.")] = ",".join(PEERS),
    workloads: Annotated[
        str, typer.Option(help="A: how fast; B: how late; C: one order of many publishers?")
    ] = "A,B,C",
    subscribers: Annotated[str, typer.Option(help="How many in A.")] = ",".join(map(str, SUBSCRIBERS)),
    rates: Annotated[str, typer.Option(help="Events/s in B.")] = ",".join(map(str, RATES)),
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of which the median counts.")] = 5,
    events: Annotated[int, typer.Option(min=100, help="Events in A.")] = 50_000,
    concurrent_events: Annotated[int, typer.Option(min=30, help="Events in C, of all publishers.")] = 15_000,
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="How long B lasts.")] = 5.0,
    json: Json = False,
) -> None:
    """5 topics, subscribers of all of them in one process, publishers in others, 100-byte payloads, one by one.

    Peers take turns in every repeat; those that are not installed are skipped (`make peers-setup`).
    """
    wanted = chosen(peers, (*PEERS, BOUND), "--peers")
    cells = _cells(
        chosen(workloads, WORKLOADS, "--workloads"),
        [int(n) for n in chosen(subscribers, [str(n) for n in SUBSCRIBERS], "--subscribers")],
        [int(n) for n in chosen(rates, [str(n) for n in RATES], "--rates")],
        events,
        concurrent_events,
        seconds,
    )
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # as Ctrl-C: in good order
    with progress("bench peers") as tell:
        result = run_loop(measure(wanted, cells, repeats, tell))
    if json:
        print_json(result)
    else:
        _show(result)
    finish(held=not result["missed"])


def chosen(text: str, known: Sequence[str], option: str) -> list[str]:
    """The words of an option, each of them one that is known."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise ConfigError(f"{option} {word}: there is {', '.join(known)}")
    return list(dict.fromkeys(words))


def _cells(
    workloads: Sequence[str],
    subscribers: Sequence[int],
    rates: Sequence[int],
    events: int,
    concurrent: int,
    seconds: float,
) -> list[Cell]:
    cells = []
    if "A" in workloads:
        cells += [Cell(workload="A", key=str(n), subscribers=n, events=events) for n in subscribers]
    if "B" in workloads:
        cells += [
            Cell(
                workload="B",
                key=str(rate),
                subscribers=LATENCY_SUBSCRIBERS,
                events=max(2, round(rate * seconds)),
                rate=rate,
            )
            for rate in rates
        ]
    if "C" in workloads:
        share = concurrent // PUBLISHERS
        cells.append(
            Cell(
                workload="C",
                key="",
                subscribers=CONCURRENT_SUBSCRIBERS,
                publishers=PUBLISHERS,
                events=share,
            )
        )
    return cells


async def measure(
    wanted: Sequence[str], cells: Sequence[Cell], repeats: int, tell: Callable[[int, int], None]
) -> Figures:
    """Every peer in turn, again and again; the document of the contract."""
    versions: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for peer in wanted:
        version, why = await check(peer)
        if why:
            skipped[peer] = why
            people.print(f"{peer} is skipped: {escape(why)}")
        else:
            versions[peer] = version
    runs: list[Run] = []
    stalls: list[dict[str, Any]] = []
    total = repeats * len(cells) * len(versions)
    for _ in range(repeats):
        for cell in cells:
            for peer in versions:
                runs.append(await _run_undisturbed(peer, cell, stalls))
                _tell(runs[-1])
                tell(len(runs), total)
    result = figures(runs)
    ratios, missed = compare(result)
    missed += [f"{peer} was not measured: {why}" for peer, why in skipped.items() if peer in OURS]
    return {
        **result,
        "skipped": skipped,
        "ratios": ratios,
        "missed": missed,
        "stalls": stalls,
        "repeats": repeats,
        "runs": [_told(done) for done in runs],
        "versions": versions,
        "machine": machine(),
    }


async def _run_undisturbed(peer: str, cell: Cell, stalls: list[dict[str, Any]]) -> Run:
    """A run during which the machine did not stand still, if there is one in a few."""
    for _ in range(STALLS_MAX):
        done = await run(peer, cell)
        if not done.stall_s:
            break
        stalls.append(_told(done) | {"stall_s": done.stall_s, "faults": done.faults})
        people.print(f"the machine stood still for {done.stall_s:g} s: {peer} is to run again")
    return done


def _told(done: Run) -> dict[str, Any]:
    """One run, as it was."""
    figures = {"events_s": done.events_s, "p50_ms": done.p50_ms, "p99_ms": done.p99_ms}
    return {
        "peer": done.peer,
        "workload": done.cell.workload,
        "key": done.cell.key,
        "one_order": done.one_order,
        **{name: round(value, 3) for name, value in figures.items() if value is not None},
    }


def _tell(done: Run) -> None:
    """One line for people that watch."""
    cell = done.cell
    words = [f"{cell.workload} {cell.key}".strip(), done.peer]
    if cell.workload == "A" and done.events_s is not None:
        words.append(f"{done.events_s:,.0f} events/s")
    if done.p50_ms is not None:
        words.append(f"p50 {done.p50_ms:.2f} ms, p99 {done.p99_ms:.2f} ms")
    words.append("one order" if done.one_order else "no one order")
    people.print("  ".join(words), "; ".join(map(escape, done.faults)))


def machine() -> dict[str, Any]:
    """What it was measured on."""
    cpu = ""
    information = Path("/proc/cpuinfo")
    if information.exists():
        models = [line for line in information.read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].partition(":")[2].strip() if models else ""
    return {
        "cores": os.cpu_count(),
        "cpu": cpu or platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _show(result: Figures) -> None:
    for title, unit, cells in (
        ("A: events/s, by subscribers", "", result["A"]),
        ("B: ms to the last of 10 subscribers, p50 / p99, by events/s", "ms", result["B"]),
    ):
        if cells:
            table = Table("", *cells, title=title)
            for peer in result["versions"]:
                table.add_row(peer, *(_cell(column.get(peer), unit) for column in cells.values()))
            people.print(table)
    if result["C"]:
        table = Table("", "runs", "with one order", title="C: three publishers at once")
        for peer, orders in result["C"].items():
            table.add_row(peer, str(orders["runs"]), str(orders["one_order"]))
        people.print(table)
    for ratio in result["ratios"]:
        colour = "green" if ratio["held"] else "bold red"
        people.print(f"[{colour}]{ratio['ratio']:.2f}[/]  {ratio['what']}, target {ratio['target']}")
    for peer, why in result["skipped"].items():
        people.print(f"skipped {peer}: {escape(why)}")
    for line in result["missed"]:
        people.print(f"[bold red]missed[/]: {escape(line)}")


def _cell(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value['p50_ms']:.2f} / {value['p99_ms']:.2f}" if unit else f"{value:,}"
