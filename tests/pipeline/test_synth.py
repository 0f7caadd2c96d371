"""Synthetic journals are what a correct run would have recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.history import Kind, Outcome, judge
from unisono.journal.records import records_of
from unisono.model.errors import ConfigError
from unisono.pipeline.rows import take_rows
from unisono.pipeline.segments import list_journal
from unisono.pipeline.synth import synthesize


def records(journal: Path) -> list:
    return [r for life in list_journal(journal).lives for r in records_of(take_rows(life, range(life.rows)))]


def test_the_judges_find_nothing_wrong(tmp_path: Path) -> None:
    made = synthesize(tmp_path / "journal", 5000, topics=6, subscribers=8, each=3, publishers=3)
    all_records = records(tmp_path / "journal")
    verdicts = {v.promise: v.outcome for v in judge(all_records)}
    untold = {verdicts.pop("deadline"), verdicts.pop("no_unjust_drop")}
    assert untold == {Outcome.UNKNOWN}  # nobody has deadlines here
    assert set(verdicts.values()) == {Outcome.HELD}
    delivered = [r for r in all_records if r.kind is Kind.DELIVERED]
    assert len(delivered) == made.deliveries
    assert abs(made.deliveries - 5000) < 500
    assert any(not r.in_order for r in delivered)


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        ("swap", "total_notification_order"),
        ("tag", "tags"),
        ("duplicate", "no_duplication"),
        ("cause", "causal_order"),
        ("gap", "nothing_lost"),
    ],
)
def test_the_judges_find_what_was_planted(plant: str, promise: str, tmp_path: Path) -> None:
    synthesize(tmp_path / "journal", 10_000, topics=6, subscribers=8, each=3, publishers=3, plant=plant)
    (verdict,) = judge(records(tmp_path / "journal"), [promise])
    assert verdict.outcome is Outcome.VIOLATED


def test_the_same_seed_makes_the_same_journal(tmp_path: Path) -> None:
    for name in ("a", "b"):
        synthesize(tmp_path / name, 2000, topics=4, subscribers=4, each=2, seed=9)
    assert records(tmp_path / "a") == records(tmp_path / "b")


def test_nonsense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be planted"):
        synthesize(tmp_path / "x", 10_000, plant="chaos")
    with pytest.raises(ConfigError, match="cannot hold"):
        synthesize(tmp_path / "x", 10_000, topics=3, each=4)
    with pytest.raises(ConfigError, match="too few"):
        synthesize(tmp_path / "x", 10)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigError, match="not empty"):
        synthesize(tmp_path / "full", 10_000)
