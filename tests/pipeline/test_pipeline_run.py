"""A lake is brought up to date with what is new only, whatever stopped the runs before."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from unisono.model.errors import ConfigError
from unisono.pipeline import ingest as ingesting
from unisono.pipeline.audit import audit
from unisono.pipeline.declarative import committed_files
from unisono.pipeline.ingest import advance, ingest
from unisono.pipeline.lake import Lake
from unisono.pipeline.run import run
from unisono.pipeline.segments import list_journal
from unisono.pipeline.synth import synthesize
from unisono.pipeline.tasks import Here

SHAPE = {"topics": 6, "subscribers": 8, "each": 3, "publishers": 3}


def grow(journal: Path, whole: Path, share: float) -> None:
    """Copy the first part of every life of `whole` that is not there yet."""
    for life in list_journal(whole).lives:
        for segment in life.segments[: max(1, round(len(life.segments) * share))]:
            place = journal / Path(segment.path).relative_to(whole)
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copyfile(segment.path, place)


def verdicts(taken: ingesting.Ingested) -> tuple[object, ...]:
    j = taken.judgement
    return j.deliveries, sorted(f.promise for f in j.found), sorted(d.promise for d in j.doubts), j.checked


@pytest.mark.parametrize("plant", ["", "swap", "duplicate", "forge", "gap"])
def test_what_is_judged_bit_by_bit_is_judged_as_at_once(plant: str, tmp_path: Path) -> None:
    whole, journal = tmp_path / "whole", tmp_path / "journal"
    synthesize(whole, 12_000, plant=plant, segment_rows=300, **SHAPE)
    lake = Lake(tmp_path / "lake").open()
    read = 0
    for share in (0.2, 0.5, 0.5, 0.9, 1.0):
        grow(journal, whole, share)
        taken = ingest(journal, lake, Here())
        read += taken.rows_new
    at_once = ingest(whole, Lake(tmp_path / "other").open(), Here())
    assert verdicts(taken) == verdicts(at_once)
    assert read == at_once.rows_new == sum(life.rows for life in list_journal(whole).lives)
    report = audit(whole, mode="certificate")
    assert {j.promise for j in report.promises if j.verdict == "violated"} == {
        f.promise for f in taken.judgement.found
    }


def test_a_kill_between_lives_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / "journal"
    synthesize(journal, 12_000, segment_rows=300, **SHAPE)
    lake = Lake(tmp_path / "lake").open()
    left = 5

    def killed(life, lake):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return advance(life, lake)

    monkeypatch.setattr(ingesting, "advance", killed)
    with pytest.raises(KeyboardInterrupt):
        ingest(journal, lake, Here())
    monkeypatch.undo()
    taken = ingest(journal, lake, Here())
    assert taken.judgement.deliveries == audit(journal, mode="certificate").deliveries
    assert 0 < taken.rows_new < sum(life.rows for life in list_journal(journal).lives)
    assert ingest(journal, lake, Here()).rows_new == 0


def test_damaged_segments_are_quarantined_once(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    synthesize(journal, 12_000, segment_rows=300, **SHAPE)
    life = journal / "subscriber-003" / "0"
    (life / "00000002.parquet").write_bytes(b"nothing of the kind")
    damaged = journal / "subscriber-005" / "0" / "00000001.parquet"
    data = bytearray(damaged.read_bytes())
    data[60:900] = bytes(840)
    damaged.write_bytes(bytes(data))
    lake = Lake(tmp_path / "lake").open()
    first, second = ingest(journal, lake, Here()), ingest(journal, lake, Here())
    assert first.quarantined >= 2
    assert second.quarantined == 0
    rows = pq.read_table(lake.quarantined).to_pylist()
    assert {r["reason"].split(":")[0] for r in rows} >= {"corrupt", "out of line"}
    landed = {p.name for p in lake.landed.iterdir()}
    assert any(name.startswith("subscriber-003%2F0-00000001") for name in landed)
    assert not any(name.startswith("subscriber-003%2F0-00000002") for name in landed)
    assert not any(name.startswith("subscriber-005%2F0-00000001") for name in landed)


def test_a_lake_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    synthesize(journal, 2000, **SHAPE)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="name a folder you may write to"):
        run(journal, tmp_path / "file" / "lake")
    lake = Lake(tmp_path / "lake").open()
    with lake.locked(), pytest.raises(ConfigError, match="another run"):
        run(journal, tmp_path / "lake")


def table(lake: Path, name: str, query: str) -> list[tuple[object, ...]]:
    """Ask a table of the lake; only files that the stream has committed count."""
    files = [str(path) for path in committed_files(lake / "warehouse" / name)]
    return duckdb.sql(query.format(f"read_parquet({files})")).fetchall()


def start(journal: Path, lake: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "unisono",
        "pipeline",
        "run",
        "--journal",
        str(journal),
        "--lake",
        str(lake),
    ]
    return subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.timeout(900)
def test_tables_killed_and_run_again_have_every_row_once(tmp_path: Path) -> None:
    whole, journal, lake = tmp_path / "whole", tmp_path / "journal", tmp_path / "lake"
    made = synthesize(whole, 30_000, segment_rows=1000, **SHAPE)
    grow(journal, whole, 0.6)
    for stage in ("raw", "facts"):
        process = start(journal, lake)
        deadline = time.monotonic() + 400
        while not list((lake / "warehouse" / stage).glob("*.parquet")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert process.poll() is None, "it ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    grow(journal, whole, 1.0)
    assert run(journal, lake).verdict == "held"
    assert table(lake, "raw", "select count(*), count(distinct (process, seq)) from {}") == [
        (made.records,) * 2
    ]
    assert table(lake, "clean", "select count(*), count(distinct (process, seq)) from {}") == [
        (made.records,) * 2
    ]
    assert table(lake, "facts", "select count(*), count(distinct (process, event)) from {}") == [
        (made.deliveries,) * 2
    ]
    assert ("held",) in table(lake, "verdicts", "select verdict from {}")
    planned = table(lake, "plan", "select topic, rank, rate from {} order by rank")
    assert sorted(topic for topic, _, _ in planned) == [f"topic.{i}" for i in range(6)]
    counts = table(lake, "raw", "select topic, count(*) from {} where kind = 'sequenced' group by all")
    seconds = dict(counts)["topic.0"] / {topic: rate for topic, _, rate in planned}["topic.0"]
    assert all(abs(count / seconds - {t: r for t, _, r in planned}[topic]) < 1e-3 for topic, count in counts)
    assert run(journal, lake).seconds_by_stage["tables"] < 5  # nothing new: Spark is not even started
