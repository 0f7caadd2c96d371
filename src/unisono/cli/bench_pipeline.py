"""`unisono bench pipeline`: how fast journals are audited on Spark, beside the same audit in DuckDB."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from unisono.cli.output import Json, finish, people, print_json
from unisono.cli.pipeline import needs_spark
from unisono.model.errors import ConfigError

CERTIFICATE_PER_S_MIN = 800_000
INDEPENDENT_PER_S_MIN = 400_000
GROWTH_MAX = 1.25
BYTES_PER_DELIVERY = 40  # of disk, with room to spare
CONTRACT = ("deliveries", "certificate_per_s", "independent_per_s", "reference_per_s")
Figures = dict[str, Any]


def pipeline(
    sizes: Annotated[str, typer.Option(help="Millions of deliveries, with commas between.")] = "2,10,50",
    cores: Annotated[int, typer.Option(min=1, help="How many cores Spark may use.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of which the fastest counts.")] = 2,
    reference: Annotated[bool, typer.Option(help="Also run the audit in DuckDB.")] = True,
    json: Json = False,
) -> None:
    """Audits of 2, 10 and 50 million deliveries: 20 topics, 100 subscribers of 10 each; Spark's start not counted."""
    with needs_spark():
        from unisono.pipeline.session import open_session
        from unisono.pipeline.tasks import OnSpark
    wanted = _sizes(sizes)
    room = shutil.disk_usage(tempfile.gettempdir()).free
    if room < max(wanted) * BYTES_PER_DELIVERY:
        raise ConfigError(
            f"{max(wanted):,} deliveries need {max(wanted) * BYTES_PER_DELIVERY >> 20} MiB; set TMPDIR"
        )
    with people.status("starting Spark") as status:
        spark = open_session(f"local[{cores}]")
        runner = OnSpark(spark)
        results = []
        try:
            _measure(20_000, runner, cores, 2, reference=False)  # warms up Java, and Python's imports
            for deliveries in wanted:
                status.update(f"auditing {deliveries:,} deliveries")
                results.append(_measure(deliveries, runner, cores, repeats, reference))
        finally:
            spark.stop()
    missed = _missed(results)
    _show(results)
    if json:
        print_json([{key: r[key] for key in CONTRACT} for r in results])
    for words in missed:
        people.print(f"[bold red]missed[/]: {words}")
    finish(held=not missed)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [round(float(part) * 1_000_000) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"'{text}' is no list of sizes; write 2,10,50 for millions of deliveries") from None
    if min(sizes) < 10_000:
        raise ConfigError("0.01 million deliveries is the smallest size")
    return sizes


def _measure(deliveries: int, runner: Any, cores: int, repeats: int, reference: bool) -> Figures:
    from unisono.pipeline.audit import audit
    from unisono.pipeline.reference import audit_in_duckdb
    from unisono.pipeline.synth import synthesize

    with tempfile.TemporaryDirectory(prefix="unisono-bench-") as folder:
        journal = Path(folder) / "journal"
        # In processes of their own: their memory is not the audit's.
        made = _elsewhere(synthesize, journal, deliveries)
        result: Figures = {"deliveries": made.deliveries}
        memory: dict[str, int] = {}
        began = time.perf_counter()
        for mode in ("certificate", "independent"):
            reports = [audit(journal, mode=mode, runner=runner) for _ in range(repeats)]
            if any(r.verdict != "held" for r in reports):
                raise ConfigError(f"the {mode} audit does not hold a clean journal: a bug, please report it")
            result[f"{mode}_per_s"] = round(made.deliveries / min(r.seconds for r in reports))
            for report in reports:
                memory = {who: max(mib, memory.get(who, 0)) for who, mib in report.memory_mib.items()}
        result["reference_per_s"] = None
        if reference:
            started = time.perf_counter()  # starting Python is a small part of it
            wrong = _elsewhere(audit_in_duckdb, journal, threads=cores)
            result["reference_per_s"] = round(made.deliveries / (time.perf_counter() - started))
            result["ratio"] = round(result["independent_per_s"] / result["reference_per_s"], 2)
            if any(wrong.values()):
                raise ConfigError(f"the reference finds {wrong} in a clean journal: a bug, please report it")
        result["memory_mib"] = {**memory, "java": _java_mib()}
        result["seconds"] = time.perf_counter() - began
    return result


def _java_mib() -> int:
    """The most memory that a Java started by this process has used so far; 0 where the system does not tell."""
    most = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, ValueError):
            said = dict(line.split(":", 1) for line in status.read_text().splitlines())
            if said["Name"].strip() == "java" and int(said["PPid"]) == os.getpid():
                most = max(most, int(said["VmHWM"].split()[0]) >> 10)
    return most


def _elsewhere(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **options).result()


def _missed(results: list[Figures]) -> list[str]:
    missed = []
    for mode, least in (("certificate", CERTIFICATE_PER_S_MIN), ("independent", INDEPENDENT_PER_S_MIN)):
        missed += [
            f"{mode} at {r[f'{mode}_per_s']:,}/s over {r['deliveries']:,}, target {least:,}"
            for r in results
            if r[f"{mode}_per_s"] < least
        ]
        small, large = results[0], results[-1]
        growth = small[f"{mode}_per_s"] / large[f"{mode}_per_s"]
        if large["deliveries"] > small["deliveries"] and growth > GROWTH_MAX:
            missed.append(f"{mode} costs {growth:.2f} times as much per delivery at {large['deliveries']:,}")
    return missed


def _show(results: list[Figures]) -> None:
    table = Table(
        title="audits on Spark: deliveries per second, memory in MiB, seconds in all",
        box=None,
        padding=(0, 1),
    )
    for title in (
        "deliveries",
        "certificate",
        "indep.",
        "DuckDB",
        "ratio",
        "driver",
        "worker",
        "Java",
        "s",
    ):
        table.add_column(title, justify="right")
    for r in results:
        speeds = [r["deliveries"], r["certificate_per_s"], r["independent_per_s"], r["reference_per_s"] or 0]
        memory = (str(r["memory_mib"][k]) for k in ("driver", "worker", "java"))
        table.add_row(*(f"{s:,}" for s in speeds), f"{r.get('ratio', 0):.2f}", *memory, f"{r['seconds']:.0f}")
    people.print(table)
