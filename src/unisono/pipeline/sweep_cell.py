"""One cell of a sweep, as a Spark task runs it: simulate, and leave one whole file behind.

The file is named after the work and written aside, then renamed. A cell that was killed leaves nothing that
counts; one that is run twice leaves the same file twice in the same place. That is all there is to resuming.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unisono.lab.experiments import Experiment, find_experiment
from unisono.pipeline.sweep_spec import Cell

ERROR_CHARACTERS_MAX = 500
SUFFIX = ".parquet"


def cell_schema(experiment: Experiment) -> pa.Schema:
    """The columns of every table of a sweep: what was run, how it went, and its figures."""
    words = {name: bool(parameter.words) for name, parameter in experiment.parameters.items()}
    return pa.schema(
        [
            pa.field("cell", pa.string(), nullable=False),
            *(pa.field(name, pa.string() if is_word else pa.float64()) for name, is_word in words.items()),
            pa.field("seed", pa.int64(), nullable=False),
            pa.field("repeat", pa.int32(), nullable=False),
            pa.field("error", pa.string()),  # null: it went well
            pa.field("seconds", pa.float64(), nullable=False),
            *(pa.field(figure, pa.float64()) for figure in experiment.figures),
        ]
    )


def run_cell(experiment_name: str, cell: Cell, folder: str) -> int:
    """Run a cell and write its table; returns how many runs had an error."""
    experiment = find_experiment(experiment_name)
    rows = [
        _run(experiment, cell, seed, repeat)
        for seed in range(cell.seed_from, cell.seed_from + cell.seeds)
        for repeat in range(cell.repeats)
    ]
    table = pa.Table.from_pylist(rows, cell_schema(experiment))
    path = Path(folder) / (cell.key + SUFFIX)
    aside = path.with_name(f".{cell.key}.{os.getpid()}.part")
    pq.write_table(table, aside)
    aside.replace(path)
    return sum(row["error"] is not None for row in rows)


def _run(experiment: Experiment, cell: Cell, seed: int, repeat: int) -> dict[str, Any]:
    row: dict[str, Any] = {"cell": cell.key, **cell.parameters, "seed": seed, "repeat": repeat, "error": None}
    started = perf_counter()
    try:
        row |= experiment.run(cell.parameters, seed)
    except Exception as error:  # whatever a simulation does, the other cells go on
        row["error"] = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
    row["seconds"] = perf_counter() - started
    return row
