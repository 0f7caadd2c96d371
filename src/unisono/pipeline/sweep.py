"""Sweeps: a grid of simulations as Spark tasks, results in tables, safe to kill and start again.

    DIR/sweep.json        what is run, so that two sweeps never mix
    DIR/cells/*.parquet   one file for each finished cell: this is what resuming looks at
    DIR/runs.parquet      every run, one row each, seeds included
    DIR/summary.parquet   one row for each point of the grid

Tasks write to DIR/cells themselves, so on a cluster DIR is a folder that all workers see.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from unisono.lab.experiments import find_experiment
from unisono.model.errors import ConfigError
from unisono.pipeline.session import explained
from unisono.pipeline.sweep_cell import SUFFIX, cell_schema, run_cell
from unisono.pipeline.sweep_spec import Cell, Spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress: TypeAlias = Callable[[int, int], None]

WATCH_S = 0.3  # how often finished cells are counted
PASSED_OVER = ("cell", "seed", "repeat", "error", "seconds")


class SweepResult(msgspec.Struct, frozen=True):
    """What came of a sweep; `points` has the means of the figures for each point of the grid."""

    name: str
    experiment: str
    cells: int
    resumed: int  # cells that were finished before
    runs: int
    errors: int
    first_error: str
    diverged: int  # seeds whose repeats gave different figures
    violations: int  # runs in which a promise was broken or something never came
    seconds: float
    tables: dict[str, str]
    points: list[dict[str, Any]]

    @property
    def held(self) -> bool:
        """Whether every run went well and kept its promises."""
        return not (self.errors or self.diverged or self.violations)


def run_sweep(
    spark: Callable[[], SparkSession],
    spec: Spec,
    out: Path,
    *,
    retry: bool = False,
    progress: Progress | None = None,
) -> SweepResult:
    """Run what is not finished yet; Spark is started only if there is something to run."""
    started = perf_counter()
    folder = _claim(spec, out)
    cells = spec.cells()
    if retry:
        _forget_errors(cells, folder)
    finished = _finished(cells, folder)
    todo = [cell for cell in cells if cell.key not in finished]
    tell = progress or (lambda done, of: None)
    tell(len(finished), len(cells))
    if todo:
        with _Watch(cells, folder, tell):
            _run_on_spark(spark(), spec, todo, folder)
    return _collect(spec, cells, folder, out, len(finished), started)


def _claim(spec: Spec, out: Path) -> Path:
    """Make the folder this sweep's; refuse one that belongs to another sweep."""
    note, mine = out / "sweep.json", msgspec.json.encode(spec)
    try:
        folder = out / "cells"
        folder.mkdir(parents=True, exist_ok=True)
        if not note.exists():
            note.write_bytes(mine)
        elif note.read_bytes() != mine:
            raise ConfigError(
                f"{out} holds another sweep (see {note}); name another --out, or remove that one"
            )
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be used: {error.strerror}") from None
    return folder


def _finished(cells: list[Cell], folder: Path) -> set[str]:
    there = {path.name.removesuffix(SUFFIX) for path in folder.glob("[!.]*" + SUFFIX)}
    return {cell.key for cell in cells} & there


def _forget_errors(cells: list[Cell], folder: Path) -> None:
    for key in _finished(cells, folder):
        path = folder / (key + SUFFIX)
        if pq.read_table(path, columns=["error"]).column(0).null_count < pq.read_metadata(path).num_rows:
            path.unlink()


def _run_on_spark(spark: SparkSession, spec: Spec, todo: list[Cell], folder: Path) -> None:
    work = [(msgspec.json.encode(cell).decode(),) for cell in todo]
    frame = spark.createDataFrame(work, "cell string").repartition(len(todo))
    tasks = frame.mapInArrow(_Task(spec.experiment, str(folder.resolve())), "errors bigint")
    with explained(
        "a task of the sweep failed; finished cells are kept, run it again once this is put right"
    ):
        tasks.agg({"errors": "sum"}).collect()


class _Task:
    """What a Spark task does with its cells."""

    def __init__(self, experiment: str, folder: str) -> None:
        self.experiment = experiment
        self.folder = folder

    def __call__(self, batches: Any) -> Any:
        for batch in batches:
            cells = [msgspec.json.decode(text, type=Cell) for text in batch.column(0).to_pylist()]
            errors = [run_cell(self.experiment, cell, self.folder) for cell in cells]
            yield pa.RecordBatch.from_arrays([pa.array(errors, pa.int64())], ["errors"])


class _Watch:
    """Tells how many cells are finished while Spark works: every finished cell is a file."""

    def __init__(self, cells: list[Cell], folder: Path, tell: Progress) -> None:
        self._done = Event()
        self._thread = Thread(target=self._watch, args=(cells, folder, tell), daemon=True)

    def _watch(self, cells: list[Cell], folder: Path, tell: Progress) -> None:
        while not self._done.wait(WATCH_S):
            tell(len(_finished(cells, folder)), len(cells))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _collect(
    spec: Spec, cells: list[Cell], folder: Path, out: Path, resumed: int, started: float
) -> SweepResult:
    schema = cell_schema(find_experiment(spec.experiment))
    names = [folder / (cell.key + SUFFIX) for cell in cells]
    runs = pa.concat_tables([pq.read_table(name, schema=schema) for name in names])
    keys = list(spec.grid)
    runs = runs.sort_by([(name, "ascending") for name in (*keys, "seed", "repeat")])
    summary = _summary(runs, keys)
    tables = {"runs": out / "runs.parquet", "summary": out / "summary.parquet"}
    _write(runs, tables["runs"])
    _write(summary, tables["summary"])
    failed = runs.filter(pc.is_valid(runs["error"]))
    return SweepResult(
        name=spec.name,
        experiment=spec.experiment,
        cells=len(cells),
        resumed=resumed,
        runs=runs.num_rows,
        errors=failed.num_rows,
        first_error=_first_error(failed, keys),
        diverged=_diverged(runs, keys),
        violations=_broken(runs),
        seconds=round(perf_counter() - started, 3),
        tables={name: str(path) for name, path in tables.items()},
        points=summary.to_pylist(),
    )


def _summary(runs: pa.Table, keys: list[str]) -> pa.Table:
    figures = [name for name in runs.column_names if name not in (*PASSED_OVER, *keys)]
    figures = [name for name in figures if pa.types.is_floating(runs.schema.field(name).type)]
    figures = [name for name in figures if runs[name].null_count < runs.num_rows]
    asked = [
        ("seed", "count"),
        ("error", "count"),
        ("seconds", "mean"),
        *((name, "mean") for name in figures),
    ]
    table = runs.group_by(keys, use_threads=False).aggregate(asked)
    renamed = {"seed_count": "runs", "error_count": "errors", "seconds_mean": "seconds"}
    renamed |= {f"{name}_mean": name for name in figures}
    table = table.rename_columns([renamed.get(name, name) for name in table.column_names])
    return table.sort_by([(name, "ascending") for name in keys])


def _broken(runs: pa.Table) -> int:
    bad = [runs[name] for name in ("violations", "stuck") if name in runs.column_names]
    if not bad:
        return 0
    broken = [pc.fill_null(pc.greater(column, 0), False) for column in bad]
    either = broken[0] if len(broken) == 1 else pc.or_(*broken)
    return int(pc.sum(either).as_py() or 0)


def _diverged(runs: pa.Table, keys: list[str]) -> int:
    figures = [n for n in runs.column_names if n not in (*PASSED_OVER, *keys)]
    numbers = [n for n in figures if pa.types.is_floating(runs.schema.field(n).type)]
    ends = [(name, end) for name in numbers for end in ("min", "max")]
    table = runs.group_by([*keys, "seed"], use_threads=False).aggregate(ends)
    differs = [False] * table.num_rows
    for name in numbers:
        low, high = table[f"{name}_min"].to_pylist(), table[f"{name}_max"].to_pylist()
        differs = [was or a != b for was, a, b in zip(differs, low, high, strict=True)]
    return sum(differs)


def _first_error(failed: pa.Table, keys: list[str]) -> str:
    if not failed.num_rows:
        return ""
    row = failed.slice(0, 1).to_pylist()[0]
    where = ", ".join(f"{key}={row[key]}" for key in keys)
    return f"{where}, seed {row['seed']}: {row['error']}"


def _write(table: pa.Table, path: Path) -> None:
    aside = path.with_name(f".{path.name}.part")
    pq.write_table(table, aside)
    aside.replace(path)
