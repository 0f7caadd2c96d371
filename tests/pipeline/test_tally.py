"""What is carried over for a planner is what the whole journal says, whatever was read when."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from audit_kit import write_journal

from unisono.history import Kind, Record
from unisono.pipeline import certify
from unisono.pipeline.ingest import ingest
from unisono.pipeline.lake import Lake
from unisono.pipeline.plan_inputs import journal_rates, journal_subscriptions
from unisono.pipeline.plan_overlaps import Matrix, count_overlaps
from unisono.pipeline.session import open_session
from unisono.pipeline.tally import all_together
from unisono.pipeline.tasks import Here


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


def history(seed: int) -> list[Record]:
    """Processes that come and go, and publish."""
    rng = random.Random(seed)
    records: list[Record] = []
    seq: dict[str, int] = {}
    for i in range(200):
        who = rng.choice(["alice", "bob", "carol", "dave"])
        seq[who] = seq.get(who, 0) + 1
        kind = rng.choice(
            [Kind.SUBSCRIBED, Kind.SUBSCRIBED, Kind.UNSUBSCRIBED, Kind.PUBLISHED, Kind.SEQUENCED]
        )
        topic = rng.choice(["t1", "t2", "t3", "t4", "t5"])
        fields: dict[str, object] = {"topic": topic}
        if kind is Kind.SUBSCRIBED:
            fields["order"] = rng.choice(["total", "total", "total_causal", "fifo"])
        if kind in (Kind.PUBLISHED, Kind.SEQUENCED):
            fields["event"] = f"{who}/1/{i}"
        if kind in (Kind.SUBSCRIBED, Kind.UNSUBSCRIBED):
            fields["subscription"] = rng.choice(["", "second"])
        records.append(Record(kind, who, seq[who], 1000.0 + i / 7, **fields))  # type: ignore[arg-type]
    return records


def same(one: Matrix, other: Matrix) -> bool:
    return (one.topics, one.subscriptions, one.distinct, one.threshold) == (
        other.topics,
        other.subscriptions,
        other.distinct,
        other.threshold,
    ) and all(
        np.array_equal(getattr(one, n), getattr(other, n)) for n in ("holders", "low", "high", "shared")
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_a_lake_plans_from_what_spark_counts_in_the_whole_journal(seed: int, spark, tmp_path: Path) -> None:
    records, lake = history(seed), Lake(tmp_path / "lake").open()
    for share in (0.3, 0.8, 1.0):
        part = records[: round(len(records) * share)]
        journal = write_journal(tmp_path / f"journal-{share}", part, segment_rows=9, ended=share == 1.0)
        if share < 1.0:  # what is not full yet is not in view
            for life in journal.glob("*/*"):
                sorted(life.glob("*.parquet"))[-1].unlink()
        taken = ingest(journal, lake, Here())
    tally = all_together(lake.tallies())
    for current in (False, True):
        counted = count_overlaps(journal_subscriptions(spark, journal, 2, current=current), 2)
        assert same(tally.matrix(2, current=current), counted)
        assert same(taken.tally.matrix(2, current=current), counted)
    assert tally.rates() == pytest.approx(journal_rates(spark, journal))


def test_no_segment_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, lake = (
        write_journal(tmp_path / "journal", history(3), segment_rows=9),
        Lake(tmp_path / "lake").open(),
    )
    read: list[str] = []
    real = certify.read_chunks

    def counting(segments, *args, **options):
        read.extend(s.path for s in segments)
        return real(segments, *args, **options)

    monkeypatch.setattr(certify, "read_chunks", counting)
    first = ingest(journal, lake, Here())
    assert len(read) == len(set(read)) == first.segments_new
    read.clear()
    again = ingest(journal, lake, Here())
    assert read == []
    assert again.tally.rates() == first.tally.rates()


def test_patterns_are_no_topics_of_a_plan(tmp_path: Path) -> None:
    records = [
        Record(Kind.SUBSCRIBED, who, i + 1, float(i), topic=topic, order="total")
        for who in ("alice", "bob")
        for i, topic in enumerate(("orders.*", "orders.eu", "payments"))
    ]
    lake = Lake(tmp_path / "lake").open()
    tally = ingest(write_journal(tmp_path / "journal", records), lake, Here()).tally
    matrix = tally.matrix(2)
    assert matrix.topics == ("orders.eu", "payments")
    assert matrix.shared.tolist() == [2]
