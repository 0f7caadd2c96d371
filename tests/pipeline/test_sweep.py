"""Sweeps: bad specs name their key, errors stay in their cell, finished work is never done again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from unisono.lab.experiments import EXPERIMENTS, Parameter, run_fuzz_world
from unisono.model.errors import ConfigError, UnisonoError
from unisono.pipeline.session import open_session
from unisono.pipeline.sweep import run_sweep
from unisono.pipeline.sweep_cell import run_cell
from unisono.pipeline.sweep_spec import Spec, load_spec, make_spec

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly on a busy machine
ROOT = Path(__file__).resolve().parents[2]
SMALL = {"experiment": "fuzz", "seeds": 4, "seeds_per_cell": 2, "grid": {"loss": [0.0, 0.2]}}


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


def without_times(path):
    return pq.read_table(path).drop_columns(["seconds"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sedes": 3}, "'sedes' is not a key of a sweep; the keys are"),
        ({"experiment": "fuss"}, "experiment 'fuss' is not known; there are: fuzz"),
        ({"experiment": 3}, "'experiment' is a word, not 3"),
        ({"grid": {}}, "'grid' is empty"),
        ({"grid": {"loss": []}}, "'grid.loss' has no values"),
        ({"grid": {"loss": [-0.1]}}, "'grid.loss' is between 0 and 0.9, not -0.1"),
        ({"grid": {"loss": ["much"]}}, "'grid.loss' is a number, not 'much'"),
        ({"grid": {"loss": [0.1, 0.1]}}, "'grid.loss' has a value twice"),
        ({"grid": {"gain": [1]}}, "'grid.gain' is not a parameter of 'fuzz'"),
        ({"grid": {"on_gap": ["hope"]}}, "'grid.on_gap' is one of wait, tag, skip, fail, not 'hope'"),
        ({"seeds": -4}, "'seeds' is at least 1, not -4"),
        ({"seeds": 2.5}, "'seeds' is a whole number, not 2.5"),
        ({"seeds": True}, "'seeds' is a whole number, not True"),
        ({"seed_from": -1}, "'seed_from' is at least 0, not -1"),
        ({"repeats": 0}, "'repeats' is at least 1, not 0"),
        ({"seeds": 10**9}, "'grid' with 'seeds' and 'repeats' makes"),
    ],
)
def test_a_bad_spec_is_one_line_with_the_key(change, message):
    with pytest.raises(ConfigError) as caught:
        make_spec(SMALL | change)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["experiment", "seeds", "grid"])
def test_a_missing_key_is_named(key):
    with pytest.raises(ConfigError, match=f"'{key}' is missing"):
        make_spec({name: value for name, value in SMALL.items() if name != key})


def test_a_spec_that_is_no_toml_or_no_file_is_named(tmp_path):
    (tmp_path / "odd.toml").write_text("seeds = = 3")
    with pytest.raises(ConfigError, match=r"odd.toml is not TOML"):
        load_spec(tmp_path / "odd.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_spec(tmp_path / "none.toml")


def test_the_example_is_a_spec():
    assert len(load_spec(ROOT / "examples" / "sweeps" / "loss.toml").cells()) == 30


def test_cells_cover_every_point_and_seed_once():
    spec = make_spec(
        SMALL | {"seeds": 5, "seed_from": 7, "grid": {"loss": [0.0, 0.2], "plan": ["line", "forest"]}}
    )
    work = [
        (*sorted(cell.parameters.items()), seed)
        for cell in spec.cells()
        for seed in range(cell.seed_from, cell.seed_from + cell.seeds)
    ]
    assert len(work) == len(set(work)) == 4 * 5
    assert {seed for *_, seed in work} == set(range(7, 12))
    assert len({cell.key for cell in spec.cells()}) == len(spec.cells())


@pytest.mark.parametrize("on_gap", ["wait", "tag", "skip", "fail"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_worlds_keep_their_promises_whatever_the_parameters(on_gap, loss):
    for seed in range(6):
        figures = run_fuzz_world({"loss": loss, "on_gap": on_gap, "plan": "line"}, seed)
        assert figures["violations"] == figures["stuck"] == 0
        assert set(figures) == set(EXPERIMENTS["fuzz"].figures)


def test_an_error_stays_in_its_run(tmp_path, monkeypatch):
    def fails_at_three(parameters, seed):
        if seed == 3:
            raise ValueError("three is too many")
        return dict.fromkeys(EXPERIMENTS["fuzz"].figures, 1.0)

    experiment = EXPERIMENTS["fuzz"]
    broken = type(experiment)("fuzz", "", {"loss": Parameter("")}, experiment.figures, fails_at_three)
    monkeypatch.setitem(EXPERIMENTS, "fuzz", broken)
    spec = make_spec(SMALL | {"seeds_per_cell": 4})
    assert [run_cell("fuzz", cell, str(tmp_path)) for cell in spec.cells()] == [1, 1]
    rows = pq.read_table(tmp_path / f"{spec.cells()[0].key}.parquet").to_pylist()
    assert [row["error"] for row in rows] == [None, None, None, "ValueError: three is too many"]
    assert [row["steps"] for row in rows] == [1.0, 1.0, 1.0, None]


def test_a_sweep_is_resumed_where_it_stopped(spark, tmp_path):
    spec, seen = make_spec(SMALL | {"repeats": 2}), []
    first = run_sweep(lambda: spark, spec, tmp_path, progress=lambda done, of: seen.append((done, of)))
    assert (first.cells, first.resumed, first.runs, first.errors) == (4, 0, 16, 0)
    assert first.held
    assert seen[0] == (0, 4)
    table = without_times(tmp_path / "runs.parquet")
    assert sorted(set(table["seed"].to_pylist())) == [0, 1, 2, 3]

    lost = tmp_path / "cells" / f"{spec.cells()[1].key}.parquet"
    lost.unlink()
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cells").glob("*.parquet")}
    second = run_sweep(lambda: spark, spec, tmp_path)
    assert second.resumed == 3
    assert without_times(tmp_path / "runs.parquet").equals(table)
    assert all((tmp_path / "cells" / name).stat().st_mtime_ns == at for name, at in kept.items())

    def no_spark():
        raise AssertionError("nothing is left to run")

    assert run_sweep(no_spark, spec, tmp_path).resumed == 4


def test_errors_are_recorded_and_retried_on_demand(spark, tmp_path):
    grid = {"on_gap": ("wait", "no such thing")}  # past the check, as a bug in an experiment would be
    spec = Spec("odd", "fuzz", grid, seeds=2)
    result = run_sweep(lambda: spark, spec, tmp_path)
    assert (result.runs, result.errors, result.held) == (4, 2, False)
    assert result.first_error.startswith("on_gap=no such thing, seed 0: RuntimeError: ")
    good = next(point for point in result.points if point["on_gap"] == "wait")
    assert good["errors"] == 0
    assert good["delivered"] > 0
    assert run_sweep(lambda: spark, spec, tmp_path).resumed == 2
    assert run_sweep(lambda: spark, spec, tmp_path, retry=True).resumed == 1


def test_two_sweeps_do_not_mix(spark, tmp_path):
    run_sweep(lambda: spark, make_spec(SMALL | {"seeds": 1}), tmp_path)
    with pytest.raises(ConfigError, match="holds another sweep"):
        run_sweep(lambda: spark, make_spec(SMALL), tmp_path)


def test_a_task_that_cannot_write_says_so_in_one_line(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.pipeline.sweep._claim", lambda spec, out: out / "gone")
    with pytest.raises(
        UnisonoError, match=r"a task of the sweep failed; finished cells are kept.*No such file"
    ):
        run_sweep(lambda: spark, make_spec(SMALL | {"seeds": 1}), tmp_path)


def test_a_folder_that_cannot_be_used_is_named(spark, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--out .*file cannot be used"):
        run_sweep(lambda: spark, make_spec(SMALL), tmp_path / "file")


def test_a_killed_sweep_goes_on(tmp_path):
    """A real process, killed with no chance to tidy up, then run again: nothing lost, nothing doubled."""
    spec = tmp_path / "spec.toml"
    spec.write_text('experiment = "fuzz"\nseeds = 60\nseeds_per_cell = 6\n[grid]\nloss = [0.3]\n')
    command = [
        sys.executable,
        "-m",
        "unisono",
        "pipeline",
        "sweep",
        str(spec),
        "--out",
        str(tmp_path / "out"),
    ]
    cells = tmp_path / "out" / "cells"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 240
        while (
            not list(cells.glob("[!.]*.parquet")) and process.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    before = len(list(cells.glob("[!.]*.parquet")))
    assert before > 0
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    runs = pq.read_table(tmp_path / "out" / "runs.parquet")
    assert sorted(runs["seed"].to_pylist()) == list(range(60))
