"""The same kernel judges segments, groups of a batch, and a stream."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unisono.pipeline.audit import audit
from unisono.pipeline.live import ARROW, STATE_STORE, Kernel, certify_frame, watch
from unisono.pipeline.plan_journal import read_journal
from unisono.pipeline.segments import list_journal
from unisono.pipeline.session import open_session
from unisono.pipeline.synth import synthesize

SHAPE = {"topics": 6, "subscribers": 4, "each": 3, "publishers": 3, "segment_rows": 300}


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


def records(journal: Path, process: str) -> list[pa.Table]:
    """The records of a process, a table for each segment."""
    (life,) = [life for life in list_journal(journal).lives if life.name.startswith(f"{process}/")]
    tables = [pq.read_table(segment.path, columns=ARROW.names) for segment in life.segments]
    return [table.cast(ARROW) for table in tables]


@pytest.mark.parametrize("plant", ["", "swap", "duplicate", "tag"])
def test_the_kernel_goes_on_from_its_state_and_tells_each_thing_once(plant: str, tmp_path: Path) -> None:
    synthesize(tmp_path / "journal", 4000, plant=plant, **SHAPE)
    expected = audit(tmp_path / "journal", mode="certificate")
    process = "subscriber-001" if plant == "tag" else "subscriber-000"
    state, told, deliveries = None, [], 0
    for table in records(tmp_path / "journal", process):
        kernel = Kernel(process, state)
        told += kernel.feed(table)
        assert not kernel.feed(table), "the same rows again are passed over"
        deliveries = sum(c.deliveries for c in kernel.witnessed.certificates.values())
        state = kernel.state()
    assert deliveries == sum(
        t["kind"].to_pylist().count("delivered") for t in records(tmp_path / "journal", process)
    )
    broken = {v.promise for v in expected.promises if v.verdict == "violated"}
    assert {n.promise for n in told} == broken
    assert len(told) == len(broken)
    assert all(n.process == process for n in told)
    if plant:
        rows = {r["row"] for v in expected.violations for r in v.rows} | {n.record for n in told}
        assert told[0].record in rows


@pytest.mark.parametrize("plant", ["", "swap"])
def test_groups_of_a_frame_are_judged_as_segments_are(plant: str, spark, tmp_path: Path) -> None:
    made = synthesize(tmp_path / "journal", 4000, plant=plant, **SHAPE)
    mixed = read_journal(spark, tmp_path / "journal").orderBy(
        "n", "topic"
    )  # in no order that anybody recorded
    result = certify_frame(mixed)
    expected = audit(tmp_path / "journal", mode="certificate")
    assert result.deliveries == made.deliveries
    assert {f.promise for f in result.found} == {
        j.promise for j in expected.promises if j.verdict == "violated"
    }
    assert result.checked["tags"] == next(j.checked for j in expected.promises if j.promise == "tags")


def test_a_stream_is_judged_by_the_same_kernel_across_restarts(spark, tmp_path: Path) -> None:
    journal, seen, out = tmp_path / "journal", tmp_path / "seen", tmp_path / "out"
    synthesize(journal, 4000, plant="duplicate", **SHAPE)
    seen.mkdir()
    for key, value in STATE_STORE.items():
        spark.conf.set(key, value)
    schema = read_journal(spark, journal).schema
    segments = [(life.name, s) for life in list_journal(journal).lives for s in life.segments]
    counts = []
    for first in (True, False):
        for name, segment in segments:
            if (segment.number < 1) == first:  # what is wrong is in the middle of a life, after the restart
                shutil.copyfile(segment.path, seen / f"{name.replace('/', '-')}-{segment.number}.parquet")
        news = watch(spark.readStream.schema(schema).parquet(str(seen)))
        query = (
            news.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out))
        )
        query.awaitTermination()
        counts.append(spark.read.schema(news.schema).parquet(str(out)).collect())
    assert counts[0] == []
    assert {(row.process, row.promise) for row in counts[1]} == {
        ("subscriber-000", "no_duplication"),
        ("subscriber-000", "tags"),
    }
    assert len(counts[1]) == 2
