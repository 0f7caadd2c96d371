"""Planted violations are found, alone, in the right words; what is clean is held; what is broken is refused."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_kit import write_journal

from unisono.history import Kind, Record
from unisono.journal.schema import VERSION_KEY
from unisono.journal.segments import Label, write_segment
from unisono.model.errors import ConfigError, HistoryError
from unisono.pipeline.audit import audit
from unisono.pipeline.ingest import ingest
from unisono.pipeline.lake import Lake
from unisono.pipeline.segments import list_journal
from unisono.pipeline.session import explained, open_session
from unisono.pipeline.synth import PLANTS, synthesize
from unisono.pipeline.tasks import Here, OnSpark, pack

DELIVERIES = 200_000

# plant -> the promise it breaks first, words of the explanation, all promises it breaks
EXPECTED = {
    "swap": (
        "total_notification_order",
        "subscriber-000 saw {} before {}, subscriber-",
        {"total_notification_order", "acyclic_order", "tags"},
    ),
    "tag": (
        "tags",
        "subscriber-001 saw {} untagged, but it came too late",
        {"tags", "total_notification_order"},
    ),
    "duplicate": ("no_duplication", "subscriber-000 saw {} twice", {"no_duplication", "tags"}),
    "forge": ("stamps", "subscriber-000 saw {} with a stamp that says", {"stamps"}),
    "cause": ("causal_order", "saw {} before {}, but", {"causal_order"}),
    "gap": ("nothing_lost", "subscriber-000 never saw {}, owed since it joined", {"nothing_lost"}),
}


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean") / "journal"
    synthesize(folder, DELIVERIES)
    return folder


def test_a_clean_journal_is_held(spark, clean: Path) -> None:
    report = audit(clean, runner=OnSpark(spark))
    assert report.verdict == "held"
    assert not report.violations
    assert {j.verdict for j in report.promises if j.matters} == {"held"}
    assert {j.promise for j in report.promises if not j.matters} == {"deadline", "no_unjust_drop"}
    assert report.deliveries == sum(j.checked for j in report.promises if j.promise == "tags")


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_violation_is_found_alone(plant: str, tmp_path: Path) -> None:
    made = synthesize(tmp_path / "journal", DELIVERIES // 2, plant=plant)
    report = audit(tmp_path / "journal")
    promise, words, broken = EXPECTED[plant]
    assert report.verdict == "violated"
    (violation,) = report.violations
    assert violation.promise == promise
    for part in words.split("{}"):
        assert part in violation.explanation
    assert any(event in made.planted for event in violation.events)
    assert {j.promise for j in report.promises if j.verdict == "violated"} == broken
    assert {violation.promise, *(a["promise"] for a in violation.also)} == broken
    assert violation.rows


def test_spark_finds_what_this_process_finds(spark, tmp_path: Path) -> None:
    synthesize(tmp_path / "journal", 20_000, plant="swap", seed=5)
    here, there = (audit(tmp_path / "journal", runner=r) for r in (Here(), OnSpark(spark)))
    assert here.violations == there.violations
    assert here.promises == there.promises


def test_a_witness_is_found_where_clocks_are_wrong(tmp_path: Path) -> None:
    """The guess comes from clocks; where they lie, the order is found all the same."""
    journal = tmp_path / "journal"
    synthesize(journal, 20_000, subscribers=20, each=4, topics=8)
    rng = np.random.default_rng(3)
    for path in journal.rglob("*.parquet"):
        table = pq.read_table(path)
        metadata = pq.read_metadata(path).metadata
        wrong = pa.array(rng.random(len(table)))
        table = table.set_column(table.schema.get_field_index("at"), table.schema.field("at"), wrong)
        pq.write_table(table.replace_schema_metadata(metadata), path)
    report = audit(journal, mode="independent")
    assert report.verdict == "held"


def test_what_cannot_be_read_is_named_and_nothing_is_claimed(clean: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    subprocess.run(["cp", "-r", str(clean), str(journal)], check=True)
    life = journal / "subscriber-003" / "0"
    (life / "00000001.parquet").write_bytes(b"PAR1 this is not")
    (life / "00000002.parquet").write_bytes(b"")
    pq.write_table(pa.table({"x": [1]}), life / "foreign.parquet")
    (segment,) = life.glob("00000000.parquet")
    newer = pq.read_table(segment)
    newer = newer.replace_schema_metadata({**pq.read_metadata(segment).metadata, VERSION_KEY: b"99"})
    pq.write_table(newer, life / "00000004.parquet")
    (life / ".00000009.parquet.tmp").write_bytes(b"half")
    report = audit(journal)
    assert report.verdict == "unknown"
    reasons = sorted(r["reason"].split(":")[0] for r in report.refused)
    assert reasons == ["corrupt", "empty", "foreign", "newer"]
    assert not report.violations


def test_damage_inside_a_segment_is_named(clean: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    subprocess.run(["cp", "-r", str(clean), str(journal)], check=True)
    path = journal / "subscriber-003" / "0" / "00000000.parquet"
    data = bytearray(path.read_bytes())
    data[100:4000] = bytes(3900)
    path.write_bytes(bytes(data))
    report = audit(journal)
    assert report.verdict == "unknown"
    assert any("subscriber-003" in r["path"] for r in report.refused)


def test_a_hole_between_segments_ends_a_life(tmp_path: Path) -> None:
    records = [Record(Kind.SUBSCRIBED, "alice", i + 1, 0.0, topic=f"t{i}", order="total") for i in range(30)]
    journal = write_journal(tmp_path / "journal", records, segment_rows=10)
    (journal / "alice" / "0" / "00000001.parquet").unlink()
    listing = list_journal(journal)
    assert [len(life.segments) for life in listing.lives] == [1]
    assert "follows a hole" in listing.refused[0].reason


def test_a_life_without_an_end_is_not_accused_of_losing(tmp_path: Path) -> None:
    def record(kind: Kind, process: str, seq: int, **fields: object) -> Record:
        return Record(kind, process, seq, 0.0, **fields)  # type: ignore[arg-type]

    event = {"event": "p/0/1", "topic": "t", "number": 1, "stamp": {"t": 1}}
    records = [
        record(Kind.PUBLISHED, "p", 1, event="p/0/1", topic="t"),
        record(Kind.SEQUENCED, "node", 1, **event),
        record(Kind.SUBSCRIBED, "alice", 1, topic="t", order="total", on_gap="wait"),
        record(Kind.HEALED, "world", 1),
    ]
    for ended, verdict in ((True, "violated"), (False, "unknown")):
        report = audit(write_journal(tmp_path / str(ended), records, ended=ended))
        lost = {j.promise: j for j in report.promises}["nothing_lost"]
        assert lost.verdict == verdict


def test_a_last_segment_without_rows_only_says_that_it_is_the_last(tmp_path: Path) -> None:
    """A process that ends right after a segment was full has nothing more to write."""
    journal = tmp_path / "journal"
    synthesize(journal, 4000, topics=6, subscribers=4, each=3)
    (first,) = (journal / "subscriber-002" / "0").glob("*.parquet")
    whole = pq.read_table(first)
    write_segment(journal, Label("subscriber-002", "0", 0), whole)
    assert [life.name for life in list_journal(journal).lives if not life.is_whole] == ["subscriber-002/0"]
    write_segment(journal, Label("subscriber-002", "0", 1, is_last=True), whole.slice(0, 0))
    report = audit(journal)
    assert (report.verdict, report.refused) == ("held", [])
    lake = Lake(tmp_path / "lake").open()
    taken = ingest(journal, lake, Here())
    assert not taken.listing.refused
    assert taken.judgement.deliveries == report.deliveries
    assert taken.segments_new == sum(len(life.segments) for life in taken.listing.lives)


@pytest.mark.parametrize("kept", ["nothing", "a part", "no folder"])
def test_what_a_publisher_could_not_write_down_is_not_called_made_up(kept: str, tmp_path: Path) -> None:
    """A publisher that was killed loses the unflushed end of its journal; one that never kept any has none."""
    journal = tmp_path / "journal"
    synthesize(journal, 4000, topics=6, subscribers=4, each=3, publishers=3, segment_rows=200)
    life = journal / "publisher-01" / "0"
    segments = sorted(life.glob("*.parquet"))
    for segment in segments[1 if kept == "a part" else 0 :]:
        segment.unlink()
    if kept == "no folder":
        life.rmdir()
    report = audit(journal)
    created = {j.promise: j for j in report.promises}["no_creation"]
    if kept == "no folder":
        assert (report.verdict, created.verdict) == ("violated", "violated")
    else:
        assert (report.verdict, created.verdict) == ("unknown", "unknown")
        assert "the journal of publisher-01 has no end" in created.explanation
        assert not report.violations


def test_bad_input_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="is no folder"):
        audit(tmp_path / "nowhere")
    with pytest.raises(HistoryError, match="has no segments"):
        audit(tmp_path)
    with pytest.raises(ConfigError, match="no Spark master"):
        open_session("spark:/typo")
    with pytest.raises(ConfigError, match="nothing answers"):
        open_session("spark://127.0.0.1:1")
    with pytest.raises(ConfigError, match="Spark Connect URL"):
        open_session(remote="http://x")


def test_a_full_disk_is_explained() -> None:
    with pytest.raises(ConfigError, match="the disk is full; make room"), explained("the work stopped"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ConfigError, match="the disk is full"), explained("the work stopped"):
        raise RuntimeError("java.io.IOException: No space left on device\n\tat x.y(Z.java:1)")


def test_missing_java_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="install one"):
        open_session()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigError, match="JAVA_HOME"):
        open_session()


def test_the_command_speaks_json_and_exits_1_when_a_promise_was_broken(tmp_path: Path) -> None:
    synthesize(tmp_path / "journal", 20_000, plant="duplicate")
    command = [
        sys.executable,
        "-m",
        "unisono",
        "pipeline",
        "audit",
        "--journal",
        str(tmp_path / "journal"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=110)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "violated"
    assert {"deliveries", "verdict", "violations", "seconds"} <= set(document)
    assert document["violations"][0]["promise"] == "no_duplication"


def test_things_are_packed_evenly() -> None:
    bins = pack(list("abcdef"), [90, 10, 10, 10, 30, 20], 2)
    assert sorted(map(sorted, bins)) == [["a"], ["b", "c", "d", "e", "f"]]
    assert pack(["a"], [1], 8) == [["a"]]
