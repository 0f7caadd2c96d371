"""`kill -9` at every kind of step, and again: the lake is as if nothing had happened.

Every step that counts ends in a rename. A run is halted right before or right after one, killed, and run again.
The tables themselves are Spark's (`test_pipeline_run.py`, `make kill-campaign`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from unisono.pipeline import run as running
from unisono.pipeline.lake import Lake
from unisono.pipeline.synth import synthesize

HALTING = """
import sys, time
from pathlib import Path
from unisono.pipeline import run as running

place, left, when, journal, lake = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
rename = Path.rename

def halting(self, target):
    global left
    left -= Path(target).relative_to(lake).parts[0] == place
    halts = not left and Path(target).relative_to(lake).parts[0] == place
    if when == "before" and halts:
        print("halted", flush=True)
        time.sleep(600)
    done = rename(self, target)
    if when == "after" and halts:
        print("halted", flush=True)
        time.sleep(600)
    return done

Path.rename = halting
running.run_tables = lambda *args, **options: None
running.run(journal, lake)
print("ended", flush=True)
"""
STEPS = [
    ("states", 1),
    ("states", 6),
    ("quarantined", 1),
    ("landed", 1),
    ("landed", 9),
    ("verdicts", 1),
    ("plan", 1),
    ("plan.json", 1),
    ("done.json", 1),
]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed") / "journal"
    synthesize(folder, 3000, topics=6, subscribers=4, each=3, publishers=3, segment_rows=250)
    (folder / "subscriber-003" / "0" / "00000002.parquet").write_bytes(b"nothing of the kind")
    return folder


@pytest.fixture(scope="module")
def undisturbed(journal: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed") / "lake"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "run_tables", lambda *args, **options: None)
        running.run(journal, folder)
    return contents(folder)


def contents(folder: Path) -> dict[str, object]:
    """All that tables are made from, and what the next run goes on from."""
    lake = Lake(folder)
    states = {p.name: lake.state(p.stem.replace("%2F", "/")) for p in lake.states.glob("*.pickle")}
    quarantined = pq.read_table(lake.quarantined, columns=["path", "reason"]).to_pylist()
    return {
        "landed": {p.name: p.read_bytes() for p in lake.landed.glob("*.parquet")},
        "judged": {name: (s.rows, s.segments, s.broken) for name, s in states.items() if s is not None},
        "quarantined": sorted((row["path"], row["reason"]) for row in quarantined),
        "verdicts": pq.read_table(lake.verdicts).to_pylist(),
        "plan": pq.read_table(lake.plan).to_pylist(),
        "done": (folder / "done.json").read_bytes(),
    }


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("place", "nth"), STEPS)
def test_a_run_killed_at_any_step_leaves_no_trace(
    place: str,
    nth: int,
    when: str,
    journal: Path,
    undisturbed: dict[str, object],
    tmp_path: Path,
    monkeypatch,
) -> None:
    lake = tmp_path / "lake"
    command = [sys.executable, "-c", HALTING, place, str(nth), when, str(journal), str(lake)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "halted\n"
        os.killpg(process.pid, signal.SIGKILL)
    monkeypatch.setattr(running, "run_tables", lambda *args, **options: None)
    running.run(journal, lake)
    assert contents(lake) == undisturbed
    assert running.run(journal, lake).rows_new == 0
