"""A journal judged segment by segment comes to what the audit says, with a state that does not grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_kit import write_journal

from unisono.history import Kind, Record
from unisono.journal.schema import SCHEMA
from unisono.journal.segments import Label, segment_path, write_segment
from unisono.pipeline import watched
from unisono.pipeline.audit import audit
from unisono.pipeline.explain import put_into_words, together
from unisono.pipeline.findings import Doubt, Found
from unisono.pipeline.segments import Life, Refused, list_journal
from unisono.pipeline.synth import synthesize
from unisono.pipeline.watched import Fed, Forgotten, Heard, LifeKernel, TopicKernel

SHAPE = {"topics": 6, "subscribers": 4, "each": 3, "publishers": 3, "segment_rows": 300}


class InMemory(dict[int, bytes]):
    """Blocks in a dictionary."""

    def put(self, at: int, data: bytes) -> None:
        self[at] = data

    def drop(self, at: int) -> None:
        del self[at]


class Watching:
    """All kernels of a journal, carried over as bytes after every segment."""

    def __init__(self) -> None:
        self.lives: dict[str, bytes] = {}
        self.topics: dict[str, bytes] = {}
        self.blocks: dict[str, InMemory] = {}

    def feed(self, life: str, number: int, path: str) -> Iterator[Heard]:
        kernel = LifeKernel(life, self.lives.get(life))
        by_topic: dict[str, list[Heard]] = {}
        for heard in kernel.feed([(number, path)]):
            by_topic.setdefault(heard.topic, []).append(heard)
        self.lives[life] = kernel.state()
        yield from by_topic.pop("", [])
        for topic, mine in by_topic.items():
            blocks = self.blocks.setdefault(topic, InMemory())
            topics = TopicKernel(topic, blocks, self.topics.get(topic))
            yield from topics.feed(mine)
            self.topics[topic] = topics.state()
            assert topics.held == blocks.keys()

    def sizes(self) -> tuple[int, int]:
        """Bytes of the lives that have not ended, and of topics with their blocks."""
        blocks = sum(len(data) for kept in self.blocks.values() for data in kept.values())
        return max(map(len, self.lives.values())), blocks + sum(map(len, self.topics.values()))


def in_turn(lives: tuple[Life, ...]) -> Iterator[tuple[str, int, str]]:
    """The segments as they would have been closed, all processes at about the same pace."""
    longest = max(len(life.segments) for life in lives)
    shares = [(s.number / len(life.segments), life.name, s) for life in lives for s in life.segments]
    assert longest > 1
    for _, name, segment in sorted(shares):
        yield name, segment.number, segment.path


def watch(journal: Path, watching: Watching | None = None) -> list[Heard]:
    watching = watching or Watching()
    return [h for turn in in_turn(list_journal(journal).lives) for h in watching.feed(*turn)]


@pytest.mark.parametrize("plant", ["", "swap", "duplicate", "tag", "forge"])
def test_segment_by_segment_comes_to_what_the_audit_says(plant: str, tmp_path: Path) -> None:
    made = synthesize(tmp_path, 8000, plant=plant, **SHAPE)
    report = audit(tmp_path, mode="certificate")
    heard = watch(tmp_path)
    told = together(
        put_into_words(list_journal(tmp_path).lives, [h.what for h in heard if isinstance(h.what, Found)])
    )
    assert told == report.violations
    assert len(told) == bool(plant)
    fed = {h.life: h.what.deliveries for h in heard if isinstance(h.what, Fed)}
    assert sum(fed.values()) == made.deliveries
    assert not [h for h in heard if isinstance(h.what, Doubt | Refused | Forgotten)]


def test_what_was_judged_is_not_judged_again(tmp_path: Path) -> None:
    synthesize(tmp_path, 4000, plant="duplicate", **SHAPE)
    (life,) = [life for life in list_journal(tmp_path).lives if life.name.startswith("subscriber-000/")]
    segments = [(s.number, s.path) for s in life.segments]
    kernel = LifeKernel(life.name)
    once = [*kernel.feed(segments[:-1])]
    assert any(isinstance(h.what, Found) for h in once)
    again = LifeKernel(life.name, kernel.state())
    assert [*again.feed(segments[:-1])] == []
    assert [h.what.number for h in again.feed(segments) if isinstance(h.what, Fed)] == [len(segments) - 1]
    ended = LifeKernel(life.name, again.state())
    assert ended.has_ended
    assert len(ended.state()) < 1000


def test_state_does_not_grow_with_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "N_KEPT", 4096)
    monkeypatch.setattr(watched, "BLOCKS_KEPT", 1)
    synthesize(tmp_path, 240_000, topics=2, subscribers=3, each=2, publishers=2, segment_rows=2000)
    watching, sizes = Watching(), []
    for turn in in_turn(list_journal(tmp_path).lives):
        assert not [h for h in watching.feed(*turn) if isinstance(h.what, Found | Forgotten)]
        sizes.append(watching.sizes())
    quarter = len(sizes) // 4
    for kernel in range(2):
        early = max(size[kernel] for size in sizes[quarter : 2 * quarter])
        assert max(size[kernel] for size in sizes[3 * quarter :]) < 1.2 * early
    assert all(len(blocks) <= 4 for blocks in watching.blocks.values())


def test_whoever_is_far_behind_is_not_waited_for_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "BLOCKS_MAX", 2)
    synthesize(tmp_path, 60_000, topics=1, subscribers=3, each=1, publishers=1, segment_rows=2000)
    watching, lives = Watching(), list_journal(tmp_path).lives
    slow = [life for life in lives if life.name.startswith("subscriber-002/")]
    quick = [life for life in lives if life not in slow]
    first = slow[0].segments[0]
    assert not [h for h in watching.feed(slow[0].name, 0, first.path) if isinstance(h.what, Forgotten)]
    for turn in in_turn(tuple(quick)):
        assert not [h for h in watching.feed(*turn) if isinstance(h.what, Found | Forgotten)]
    assert all(len(blocks) <= 2 for blocks in watching.blocks.values())
    late = [
        h.what.rows
        for s in slow[0].segments[1:]
        for h in watching.feed(slow[0].name, s.number, s.path)
        if isinstance(h.what, Forgotten)
    ]
    assert 0 < sum(late) < 20_000


def refused(heard: list[Heard]) -> list[str]:
    return [h.what.reason.split(":")[0] for h in heard if isinstance(h.what, Refused)]


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda path: path.write_bytes(b"no Parquet"), "corrupt"),
        (lambda path: path.unlink(), "out of line"),
        (lambda path: path.write_bytes(path.with_name("00000002.parquet").read_bytes()), "out of line"),
    ],
)
def test_a_life_is_judged_up_to_what_cannot_be_used(break_it: object, reason: str, tmp_path: Path) -> None:
    synthesize(tmp_path, 4000, plant="swap", **SHAPE)
    (life,) = [life for life in list_journal(tmp_path).lives if life.name.startswith("subscriber-000/")]
    break_it(Path(life.segments[1].path))  # type: ignore[operator]
    watching = Watching()
    heard = [h for s in life.segments for h in watching.feed(life.name, s.number, s.path)]
    assert refused(heard) == [reason]
    assert [h.what.number for h in heard if isinstance(h.what, Fed)] == [0]
    assert not [h for h in heard if isinstance(h.what, Found)]


def test_what_came_without_a_stamp_is_told_once(tmp_path: Path) -> None:
    records = [Record(Kind.SUBSCRIBED, "s", 1, 0.0, topic="a", order="total", on_gap="tag")]
    records += [Record(Kind.DELIVERED, "s", n, 0.0, f"p/1/{n}", "a", number=n) for n in range(2, 20)]
    write_journal(tmp_path, records)
    doubts = [h.what for h in watch(tmp_path) if isinstance(h.what, Doubt)]
    assert [doubt.promise for doubt in doubts] == ["tags"]


def test_an_ended_life_may_end_with_nothing(tmp_path: Path) -> None:
    label = Label("s", "0", 0, is_last=True)
    segment_path(tmp_path, label).parent.mkdir(parents=True)
    path = write_segment(tmp_path, label, SCHEMA.empty_table())
    kernel = LifeKernel("s/0")
    assert [h.what for h in kernel.feed([(0, str(path))])] == [Fed(0, 0, 0)]
    assert kernel.has_ended
