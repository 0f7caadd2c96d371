"""Journals of any size, as a correct run would have recorded them, with at most one thing wrong.

One order of all events is drawn; every subscription is told the part it holds, so that every promise is kept.
Half the subscriptions wait (`total_causal`), half are told at once (`total`, `on_gap="tag"`) and get one event
in five hundred late and tagged. `plant` then breaks exactly one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from unisono.history import Kind
from unisono.journal.schema import SCHEMA
from unisono.journal.segments import Label, segment_path, write_segment
from unisono.model.errors import ConfigError
from unisono.pipeline.columns import Bools, Ints

PLANTS = ("swap", "tag", "duplicate", "forge", "cause", "gap")
SEGMENT_ROWS = 1 << 18
BEGINS = 1_700_000_000.0
STEP_S = 1e-4
LATE_SHARE = 1 / 500
_LIFE = "0"


class Made(msgspec.Struct, frozen=True):
    """What was written, and what is wrong with it."""

    deliveries: int
    events: int
    records: int
    planted: str = ""


@dataclass
class World:
    """Who holds what, and the one order of all events."""

    topics: list[str]
    held: list[Ints]  # for each subscription its topics
    topic: Ints  # of each event
    publisher: Ints
    n: Ints
    counts: Ints  # events x topics: how many of each topic there were, this one included
    conflicts: Bools  # topics x topics: whether two subscriptions hold both
    rng: np.random.Generator

    def number(self, events: Ints) -> Ints:
        """The numbers of events on their own topics."""
        found: Ints = self.counts[events, self.topic[events]]
        return found


@dataclass
class Row:
    """What one subscription is told: events in order, which are untagged, and stamps that were tampered with."""

    events: Ints
    in_order: Bools
    forged: dict[int, tuple[int, int]]  # place -> topic, number


def synthesize(
    out: str | Path,
    deliveries: int,
    *,
    topics: int = 20,
    subscribers: int = 100,
    each: int = 10,
    publishers: int = 10,
    plant: str = "",
    seed: int = 1,
    segment_rows: int = SEGMENT_ROWS,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Made:
    """Write a journal of about `deliveries` deliveries to the folder `out`."""
    _check(out, deliveries, topics, subscribers, each, plant)
    world = _draw(deliveries, topics, subscribers, each, publishers, np.random.default_rng(seed))
    rows = [_told(world, s) for s in range(subscribers)]
    planted = _plant(world, rows, plant) if plant else ""
    written = _write_sources(
        Path(out), world, segment_rows, swapped=_cause(world) if plant == "cause" else None
    )
    if plant == "cause":
        planted = _cause_words(world)
    told = 0
    for s, row in enumerate(rows):
        written += _write_subscriber(Path(out), world, s, row, segment_rows)
        told += len(row.events)
        tell(s + 1, subscribers)
    return Made(told, len(world.topic), written, planted)


def _check(out: str | Path, deliveries: int, topics: int, subscribers: int, each: int, plant: str) -> None:
    if plant and plant not in PLANTS:
        raise ConfigError(f"'{plant}' cannot be planted; choose one of {', '.join(PLANTS)}")
    if each > topics:
        raise ConfigError(f"a subscriber cannot hold {each} of {topics} topics")
    if deliveries < subscribers * each * 2:
        raise ConfigError(
            f"{deliveries} deliveries are too few; {subscribers * each * 2} is the least for this shape"
        )
    if Path(out).exists() and any(Path(out).iterdir()):
        raise ConfigError(f"'{out}' is not empty; name a new folder")


def _draw(
    deliveries: int, topics: int, subscribers: int, each: int, publishers: int, rng: np.random.Generator
) -> World:
    events = max(1, round(deliveries * topics / (subscribers * each)))
    topic = rng.integers(0, topics, events)
    publisher = rng.integers(0, publishers, events)
    n = np.empty(events, dtype=np.int64)
    for p in range(publishers):
        mine = publisher == p
        n[mine] = np.arange(1, mine.sum() + 1)
    counts = np.zeros((events, topics), dtype=np.int64)
    counts[np.arange(events), topic] = 1
    np.cumsum(counts, axis=0, out=counts)
    held = [np.sort(rng.permutation(topics)[:each]) for _ in range(subscribers)]
    holds = np.zeros((subscribers, topics), dtype=np.int64)
    for s, mine in enumerate(held):
        holds[s, mine] = 1
    names = [f"topic.{t:0{len(str(topics - 1))}d}" for t in range(topics)]
    conflicts = (holds.T @ holds >= 2) | np.eye(topics, dtype=np.bool_)
    return World(names, held, topic, publisher, n, counts, conflicts, rng)


def _told(world: World, s: int) -> Row:
    holds = np.zeros(len(world.topics), dtype=np.bool_)
    holds[world.held[s]] = True
    events = np.flatnonzero(holds[world.topic])
    in_order = np.ones(len(events), dtype=np.bool_)
    if s % 2:
        late = np.flatnonzero(world.rng.random(len(events)) < LATE_SHARE)
        late = late if len(late) else np.array([len(events) // 2])  # somebody is always late
        after = _next_of_topic(world.topic[events], late)
        keep = (after >= 0) & ~np.isin(after, late)
        late, after = late[keep], after[keep]
        key = np.arange(len(events), dtype=np.float64)
        # Behind the next event of its own topic, an event is late whatever its stamp says about others.
        key[late] = after + 0.5
        in_order[late] = False
        order = np.argsort(key, kind="stable")
        events, in_order = events[order], in_order[order]
    return Row(events, in_order, {})


def _next_of_topic(topics: Ints, places: Ints) -> Ints:
    """For each place the next one with the same topic, -1 if there is none."""
    order = np.argsort(topics, kind="stable")
    following = np.full(len(topics), -1, dtype=np.int64)
    same = topics[order][1:] == topics[order][:-1]
    following[order[:-1][same]] = order[1:][same]
    found: Ints = following[places]
    return found


def _plant(world: World, rows: list[Row], plant: str) -> str:
    """Break one thing in the middle of one subscription's row."""
    s = 1 if plant == "tag" and len(rows) > 1 else 0
    row = rows[s]
    at = len(row.events) // 2
    if plant == "swap":
        at = _swappable(world, row, at)
        row.events[[at, at + 1]] = row.events[[at + 1, at]]
    elif plant == "tag":
        tagged = np.flatnonzero(~row.in_order)
        if not len(tagged):
            raise ConfigError("nothing is tagged in a journal this small; ask for more deliveries")
        at = int(tagged[len(tagged) // 2])
        row.in_order[at] = True
    elif plant == "duplicate":
        row.events = np.insert(row.events, at + 5, row.events[at])
        row.in_order = np.insert(row.in_order, at + 5, True)
    elif plant == "gap":
        event = row.events[at]
        row.events, row.in_order = np.delete(row.events, at), np.delete(row.in_order, at)
        return f"{_name(s)} does not get {_event(world, int(event))}"
    elif plant == "forge":
        own = world.topic[row.events[at]]
        others = [t for t in np.flatnonzero(world.conflicts[own]) if t not in world.held[s]]
        t = int(others[0]) if others else int(own)
        row.forged[at] = (t, int(world.counts[row.events[at], t]) + 1)
    return "" if plant == "cause" else f"{plant} at {_name(s)}, {_event(world, int(row.events[at]))}"


def _swappable(world: World, row: Row, at: int) -> int:
    """A place whose event and the next are of two topics that others hold together."""
    for i in range(at, len(row.events) - 1):
        x, y = world.topic[row.events[i]], world.topic[row.events[i + 1]]
        if x != y and world.conflicts[x, y]:
            return i
    raise ConfigError(
        "no two topics are shared by two subscribers here: nothing to swap that anybody could see"
    )


def _cause(world: World) -> tuple[int, int]:
    """Two events of one publisher, next to each other in the order, of topics that a causal subscription holds."""
    causal = [set(held.tolist()) for held in world.held[::2]]
    for i in range(len(world.topic) // 2, len(world.topic) - 1):
        x, y = int(world.topic[i]), int(world.topic[i + 1])
        if world.publisher[i] == world.publisher[i + 1] and x != y and any({x, y} <= held for held in causal):
            return i, i + 1
    raise ConfigError("no cause can be broken in a journal this small; ask for more deliveries")


def _cause_words(world: World) -> str:
    first, second = _cause(world)
    return f"{_event(world, second)} was published before {_event(world, first)}, which everybody sees first"


def _write_sources(out: Path, world: World, rows_max: int, swapped: tuple[int, int] | None) -> int:
    """What publishers, the sequencer and the world recorded."""
    written = 0
    when = BEGINS + STEP_S * np.arange(len(world.topic))
    for p in range(int(world.publisher.max()) + 1):
        events = np.flatnonzero(world.publisher == p)
        if swapped is not None and world.publisher[swapped[0]] == p:
            # Published the other way round: the effect is now the older one.
            first = int(np.searchsorted(events, swapped[0]))
            events[[first, first + 1]] = events[[first + 1, first]]
        at = np.sort(when[events]) - 1e-3
        written += _write(out, _publisher(p), world, events, Kind.PUBLISHED, at, rows_max, stamps=False)
    written += _write(out, "node-0", world, np.arange(len(world.topic)), Kind.SEQUENCED, when, rows_max)
    healed = _columns("world", Kind.HEALED, 1, float(when[-1]) + 1)
    return written + _write_tables(out, "world", [pa.table(healed, schema=SCHEMA)], rows_max)


def _write_subscriber(out: Path, world: World, s: int, row: Row, rows_max: int) -> int:
    name, held = _name(s), world.held[s]
    joined = _columns(name, Kind.SUBSCRIBED, len(held), BEGINS - 1)
    joined["topic"] = _words(held, world.topics)
    joined["order"] = _word("total" if s % 2 else "total_causal", len(held))
    joined["on_gap"] = _word("tag" if s % 2 else "wait", len(held))
    tables = [pa.table(joined, schema=SCHEMA)]
    at = BEGINS + STEP_S * (row.events + 10)
    np.maximum.accumulate(at, out=at)
    return _write(out, name, world, row.events, Kind.DELIVERED, at, rows_max, row=row, before=tables)


def _write(
    out: Path,
    process: str,
    world: World,
    events: Ints,
    kind: Kind,
    at: np.ndarray[Any, Any],
    rows_max: int,
    *,
    stamps: bool = True,
    row: Row | None = None,
    before: list[pa.Table] | None = None,
) -> int:
    tables = before or []
    seq = sum(len(t) for t in tables)
    for start in range(0, len(events), rows_max):
        part = slice(start, start + rows_max)
        columns = _columns(process, kind, len(events[part]), 0.0, seq=seq + start)
        columns |= _event_columns(world, events[part], stamps, row, start)
        columns["at"] = pa.array(at[part])
        if row is not None:
            columns["in_order"] = pa.array(row.in_order[part])
            columns["published_at"] = pa.array(BEGINS + STEP_S * events[part] - 1e-3)
        tables.append(pa.table(columns, schema=SCHEMA))
    return _write_tables(out, process, tables, rows_max)


def _event_columns(
    world: World, events: Ints, stamps: bool, row: Row | None, start: int
) -> dict[str, pa.Array]:
    topic = world.topic[events]
    publishers = [_publisher(p) for p in range(int(world.publisher.max()) + 1)]
    columns = {
        "publisher": _words(world.publisher[events], publishers),
        "incarnation": pa.array(np.zeros(len(events), dtype=np.int64)),
        "n": pa.array(world.n[events]),
        "topic": _words(topic, world.topics),
    }
    if not stamps:
        return columns
    columns["number"] = pa.array(world.number(events))
    matrix = world.counts[events]
    for place, (t, number) in row.forged.items() if row else ():
        if start <= place < start + len(events):
            matrix[place - start, t] = number
    named = world.conflicts[topic]
    offsets = np.concatenate(([0], np.cumsum(named.sum(axis=1)))).astype(np.int32)
    layouts = [" ".join(world.topics[x] for x in np.flatnonzero(mine)) for mine in world.conflicts]
    columns["layout"] = _words(topic, layouts)
    columns["stamp"] = pa.ListArray.from_arrays(offsets, matrix[named])
    return columns


def _write_tables(out: Path, process: str, tables: list[pa.Table], rows_max: int) -> int:
    """One segment for each table but the first, which is short and goes with the second."""
    if len(tables) > 1 and len(tables[0]) < rows_max // 8:
        tables = [pa.concat_tables(tables[:2]).unify_dictionaries().combine_chunks(), *tables[2:]]
    for index, table in enumerate(tables):
        label = Label(process, _LIFE, index, index == len(tables) - 1)
        segment_path(out, label).parent.mkdir(parents=True, exist_ok=True)
        write_segment(out, label, table)
    return sum(len(t) for t in tables)


def _columns(process: str, kind: Kind, rows: int, at: float, seq: int = 0) -> dict[str, pa.Array]:
    """All columns, for rows about no event."""
    columns = {f.name: pa.nulls(rows, f.type) for f in SCHEMA}
    columns["kind"] = _word(kind.value, rows)
    columns["process"] = _word(process, rows)
    columns["subscription"] = _word("", rows)
    columns["seq"] = pa.array(np.arange(seq + 1, seq + 1 + rows))
    columns["at"] = pa.array(np.full(rows, at))
    columns["number"] = pa.array(np.zeros(rows, dtype=np.int64))
    columns["epoch"] = pa.array(np.zeros(rows, dtype=np.int32))
    columns["in_order"] = pa.array(np.ones(rows, dtype=np.bool_))
    return columns


def _word(word: str, rows: int) -> pa.DictionaryArray:
    return _words(np.zeros(rows, dtype=np.int64), [word])


def _words(codes: Ints, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words, pa.string()))


def _event(world: World, e: int) -> str:
    number = int(world.number(np.array([e]))[0])
    return f"{_publisher(int(world.publisher[e]))}/0/{world.n[e]} ({world.topics[world.topic[e]]} #{number})"


def _publisher(p: int) -> str:
    return f"publisher-{p:02d}"


def _name(s: int) -> str:
    return f"subscriber-{s:03d}"
