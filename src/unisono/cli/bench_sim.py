"""`unisono bench sim`: how fast simulated time passes, beside SimPy on the same models; and whole worlds on a ring."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from random import Random
from typing import Annotated, Any

import typer
from rich.table import Table

from unisono.cli.bench import Figures
from unisono.cli.bench_sim_worlds import LARGE, SIZES, measure
from unisono.cli.output import BAD_INPUT, Json, finish, people, print_json, progress
from unisono.sim.kernel import Kernel

PENDING = (10, 1000, 100_000)
OCCURRENCES_S_MIN = 1_000_000
RATIO_MIN = 1.5
AHEAD = "scheduled ahead"

Seconds = Callable[[list[float]], float]


def sim(
    occurrences: Annotated[int, typer.Option(min=10_000, help="Occurrences in each run.")] = 200_000,
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Runs of which the best counts.")] = 5,
    worlds: Annotated[bool, typer.Option(help="Worlds on a ring, too.")] = True,
    large: Annotated[bool, typer.Option("--large", help="Worlds of 10,000 nodes, too: minutes.")] = False,
    json: Json = False,
) -> None:
    """The simulator's kernel with handlers that do nothing but schedule, beside SimPy; and worlds of many nodes.

    Processor time is counted: of the kernels, which take turns, the best of several runs; of each world one run.
    """
    try:
        import simpy  # noqa: F401 (only this command needs it)
    except ImportError:
        people.print("bench sim stands beside SimPy, which is not installed: run `make setup`")
        raise typer.Exit(BAD_INPUT) from None
    random = Random(1)
    delays = [random.expovariate(1.0) for _ in range(occurrences)]
    models = {AHEAD: _ahead(), **{f"{n} pending": _hold(n) for n in PENDING if 2 * n <= occurrences}}
    best: dict[tuple[str, str], float] = {}
    sizes = (*SIZES, *(LARGE if large else ())) if worlds else ()
    steps = repeats * sum(map(len, models.values())) + len(sizes)
    with progress("bench sim", steps) as tell:
        done = 0
        for _ in range(repeats):
            for model, contenders in models.items():
                for name, run in contenders.items():
                    gc.collect()
                    seconds = run(delays)
                    best[model, name] = min(seconds, best.get((model, name), seconds))
                    done += 1
                    tell(done, steps)
        measured = []
        for size in sizes:
            measured.append(measure(size))
            done += 1
            tell(done, steps)
    figures: dict[str, Figures] = {}
    for model, contenders in models.items():
        speeds = {name: round(occurrences / best[model, name]) for name in contenders}
        ratio = speeds["unisono"] / max(speed for name, speed in speeds.items() if name != "unisono")
        figures[model] = {
            **{f"{name}_occurrences_s": n for name, n in speeds.items()},
            "ratio": round(ratio, 2),
        }
    result: Figures = {
        "occurrences": occurrences,
        "repeats": repeats,
        "occurrences_s": figures[AHEAD]["unisono_occurrences_s"],
        "simpy_occurrences_s": figures[AHEAD]["simpy_occurrences_s"],
        "ratio": min(f["ratio"] for f in figures.values()),
        "models": figures,
        "worlds": measured,
    }
    result["missed"] = _missed(result)
    print_json(result) if json else _show(result)
    finish(held=not result["missed"])


def _ahead() -> dict[str, Seconds]:
    """Everything is scheduled, then happens: handlers do nothing at all."""

    def ours(delays: list[float]) -> float:
        kernel: Kernel[int] = Kernel()
        schedule, scale = kernel.schedule, len(delays) / 1000
        started = time.process_time()
        for i, delay in enumerate(delays):
            schedule(delay * scale, i)
        kernel.run(_ignore)
        return time.process_time() - started

    def theirs(delays: list[float]) -> float:
        from simpy import Environment, Timeout

        environment, scale = Environment(), len(delays) / 1000
        started = time.process_time()
        for delay in delays:
            Timeout(environment, delay * scale).callbacks.append(_ignore)
        environment.run()
        return time.process_time() - started

    return {"unisono": ours, "simpy": theirs}


def _hold(pending: int) -> dict[str, Seconds]:
    """So many occurrences are pending at any time: each that happens schedules another."""

    def ours(delays: list[float]) -> float:
        kernel: Kernel[int] = Kernel()
        schedule, handed = kernel.schedule, pending

        def handle(occurrence: int) -> None:
            nonlocal handed
            if handed < len(delays):
                schedule(kernel.now + delays[handed], occurrence)
                handed += 1

        for i, delay in enumerate(delays[:pending]):
            schedule(delay, i)
        started = time.process_time()
        kernel.run(handle)
        return time.process_time() - started

    def theirs(delays: list[float]) -> float:
        from simpy import Environment, Timeout

        environment, handed = Environment(), pending

        def handle(_: Any) -> None:
            nonlocal handed
            if handed < len(delays):
                Timeout(environment, delays[handed]).callbacks.append(handle)
                handed += 1

        for delay in delays[:pending]:
            Timeout(environment, delay).callbacks.append(handle)
        started = time.process_time()
        environment.run()
        return time.process_time() - started

    def theirs_in_processes(delays: list[float]) -> float:
        from simpy import Environment

        environment, handed = Environment(), 0

        def process() -> Any:
            nonlocal handed
            while handed < len(delays):
                delay = delays[handed]
                handed += 1
                yield environment.timeout(delay)

        for _ in range(pending):
            environment.process(process())
        started = time.process_time()
        environment.run()
        return time.process_time() - started

    return {"unisono": ours, "simpy": theirs, "simpy_processes": theirs_in_processes}


def _ignore(occurrence: object) -> None:
    """An empty handler."""


def _missed(result: Figures) -> list[str]:
    """The targets that were not met, in words."""
    missed = []
    if result["occurrences_s"] < OCCURRENCES_S_MIN:
        missed.append(f"{AHEAD}: {result['occurrences_s']:,}/s, target {OCCURRENCES_S_MIN:,}/s")
    for model, figures in result["models"].items():
        if figures["ratio"] < RATIO_MIN:
            missed.append(f"{model}: {figures['ratio']} times SimPy, target {RATIO_MIN}")
    restless = [world["nodes"] for world in result["worlds"] if not world["is_quiet"]]
    return missed + [f"the world of {nodes:,} nodes did not come to rest" for nodes in restless]


def _show(result: Figures) -> None:
    table = Table(title=f"occurrences/s, best of {result['repeats']} runs of {result['occurrences']:,}")
    for column in ("model", "unisono", "SimPy, callbacks", "SimPy, processes", "ratio"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for model, figures in result["models"].items():
        speeds = [figures.get(f"{n}_occurrences_s") for n in ("unisono", "simpy", "simpy_processes")]
        table.add_row(model, *(f"{s:,}" if s else "" for s in speeds), str(figures["ratio"]))
    people.print(table)
    if result["worlds"]:
        _show_worlds(result)
    for line in result["missed"]:
        people.print(f"[bold red]missed[/]: {line}")


def _show_worlds(result: Figures) -> None:
    table = Table(title="exact worlds on a ring, 1 event/s for a minute")
    for column in ("nodes", "topics", "held by each", "deliveries", "seconds", "deliveries/s"):
        table.add_column(column, justify="right")
    for world in result["worlds"]:
        numbers = (world[k] for k in ("nodes", "topics", "topics_per_subscriber", "deliveries"))
        table.add_row(*(f"{n:,}" for n in numbers), f"{world['seconds']:.1f}", f"{world['deliveries_s']:,}")
    people.print(table)
