"""How a journal that is being written is handed to Spark, and how a ledger outlives whoever is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unisono.model.errors import ConfigError
from unisono.pipeline.growing import HOLE_S, GrowingReader, Growth
from unisono.pipeline.watch_ledger import Ledger, LifeSoFar, Notice, Page


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def segment(journal: Path, life: str, number: int, size: int = 100) -> Path:
    path = journal / life / f"{number:08d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def test_each_life_is_handed_out_in_order_as_it_grows(tmp_path: Path) -> None:
    growth = Growth(tmp_path)
    assert growth.since({}) == {}
    segment(tmp_path, "a/1", 0)
    segment(tmp_path, "a/1", 1)
    segment(tmp_path, "b/1", 0)
    (tmp_path / "b" / "1" / ".00000001.parquet.tmp").touch()
    (tmp_path / ".trash" / "x").mkdir(parents=True)
    first = growth.since({})
    assert first == {"a/1": 2, "b/1": 1}
    assert growth.since(first) == first
    segment(tmp_path, "a/2", 0)
    assert growth.since(first) == first | {"a/2": 1}


def test_a_batch_takes_from_each_life_in_turn_and_never_nothing(tmp_path: Path) -> None:
    for number in range(5):
        segment(tmp_path, "a/1", number)
        segment(tmp_path, "b/1", number)
    growth = Growth(tmp_path)
    assert growth.since({}, bytes_max=1) == {"a/1": 1}
    assert growth.since({}, bytes_max=400) == {"a/1": 2, "b/1": 2}
    reached, batches = {}, 0
    while (more := growth.since(reached, bytes_max=250)) != reached:
        reached, batches = more, batches + 1
    assert reached == {"a/1": 5, "b/1": 5}
    assert batches == 4


def test_a_hole_is_handed_out_once_nobody_can_fill_it(tmp_path: Path) -> None:
    clock = Clock()
    growth = Growth(tmp_path, clock)
    segment(tmp_path, "a/1", 0)
    segment(tmp_path, "a/1", 2)
    segment(tmp_path, "b/1", 0)
    assert growth.since({}) == {"a/1": 1, "b/1": 1}
    clock.now += HOLE_S / 2
    assert growth.since({"a/1": 1, "b/1": 1}) == {"a/1": 1, "b/1": 1}
    clock.now += HOLE_S
    assert growth.since({"a/1": 1, "b/1": 1}) == {"a/1": 3, "b/1": 1}
    clock.now += 100 * HOLE_S
    assert growth.since({"a/1": 3, "b/1": 1}) == {"a/1": 3, "b/1": 1}


def test_the_same_offsets_give_the_same_rows_whatever_was_written_since(tmp_path: Path) -> None:
    reader = GrowingReader(str(tmp_path), 1000)
    start, end = {"a/1": 1}, {"a/1": 3, "b/1": 1}
    (partition,) = reader.partitions(start, end)
    rows = [(life, number) for life, number, _ in reader.read(partition)]
    assert rows == [("a/1", 1), ("a/1", 2), ("b/1", 0)]
    assert reader.partitions(end, end) == []


def notice(number: int) -> Notice:
    return Notice(what="violation", number=number, promise="tags", explanation="it came too late")


def ledger(folder: Path) -> Ledger:
    return Ledger(folder / "checkpoint", folder / "journal")


def test_what_was_written_and_not_told_is_told_by_the_next(tmp_path: Path) -> None:
    with ledger(tmp_path).opened() as first:
        first.write(Page(batch=0, notices=1), [notice(1)])
        assert [n.number for n in first.untold()] == [1]
        first.write(Page(batch=1, notices=1), [])
        first.write(Page(batch=2, notices=3, lives={"a/1": LifeSoFar(1, 2, 3)}), [notice(2), notice(3)])
    with ledger(tmp_path).opened() as second:  # killed before it could tell
        assert second.has(2)
        assert not second.has(3)
        assert second.page.lives["a/1"].deliveries == 3
        assert [n.number for n in second.untold()] == [2, 3]
        assert [*second.untold()] == []
        assert [n.number for n in second.notices()] == [1, 2, 3]


def test_what_was_found_in_a_batch_that_is_not_done_is_not_told(tmp_path: Path) -> None:
    with ledger(tmp_path).opened() as first:
        first.write(Page(batch=0, notices=1), [notice(1)])
        (first.folder / "page.json").write_bytes(b'{"batch":-1}')  # killed between the two writes
    with ledger(tmp_path).opened() as second:
        assert [*second.untold()] == []
        second.write(Page(batch=0, notices=1), [notice(1)])  # Spark runs the batch again
        assert [n.number for n in second.untold()] == [1]


def test_rows_of_segments_are_found_by_their_numbers(tmp_path: Path) -> None:
    with ledger(tmp_path).opened() as one:
        for number, rows in ((0, 7), (1, 9), (1, 9), (2, 1)):
            one.note_rows("a b/1", number, rows)
        assert one.rows_of("a b/1") == [7, 9, 1]


def test_a_checkpoint_serves_one_watch_of_one_journal(tmp_path: Path) -> None:
    with (
        ledger(tmp_path).opened(),
        pytest.raises(ConfigError, match="another watch"),
        ledger(tmp_path).opened(),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="is of the journal"),
        Ledger(tmp_path / "checkpoint", tmp_path / "other").opened(),
    ):
        pass
    belongs = tmp_path / "checkpoint" / "watch.json"
    belongs.write_text(json.dumps(json.loads(belongs.read_text()) | {"version": 99}))
    with pytest.raises(ConfigError, match="another version"), ledger(tmp_path).opened():
        pass
    belongs.write_text("{")
    with pytest.raises(ConfigError, match="is damaged"), ledger(tmp_path).opened():
        pass
    belongs.unlink()
    (tmp_path / "checkpoint" / "spark").mkdir()
    with pytest.raises(ConfigError, match="is not one of a watch"), ledger(tmp_path).opened():
        pass
