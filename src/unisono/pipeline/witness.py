"""Where a witness fails, and what is really wrong there.

With *any* order of all events at hand: a row that goes down in it does so over a stretch, and a cycle of rows can
leave no stretch, because it must come down again by as much as it goes up. So the union of the stretches, merged
into windows, holds every contradiction; outside, the order is proven. Inside, the windows are put into a better
order where there is one (a topological sort), and what then still goes down is given, as a small history of its own,
to the judges of `unisono.history`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import numpy as np

from unisono.history import Kind, Record, Verdict, judge
from unisono.journal.records import records_of
from unisono.pipeline.catalogue import Catalogue
from unisono.pipeline.certificate import TOTAL
from unisono.pipeline.columns import NONE, Bools, Ints
from unisono.pipeline.findings import Row
from unisono.pipeline.independent import CAUSAL, down, read_life, row_of
from unisono.pipeline.rows import take_rows
from unisono.pipeline.segments import Life

RECORDS_MAX = 1_000_000  # of a tangle that are compared one by one


def merge(stretches: Iterable[Ints]) -> Ints:
    """Windows (from, to) of the witness, ascending and apart, that cover all stretches."""
    parts = [s for s in stretches if len(s)]
    if not parts:
        return np.zeros((0, 2), dtype=np.int64)
    spans = np.concatenate(parts)
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reached = np.maximum.accumulate(spans[:, 1])
    starts = np.flatnonzero(np.concatenate(([True], spans[1:, 0] > reached[:-1])))
    ends = np.concatenate((starts[1:] - 1, [len(spans) - 1]))
    return np.stack([spans[starts, 0], reached[ends]], axis=1)


def inside(ranks: Ints, windows: Ints) -> Bools:
    """Which ranks lie in a window."""
    at = np.searchsorted(windows[:, 0], ranks, side="right") - 1
    found: Bools = (at >= 0) & (ranks <= windows[np.maximum(at, 0), 1])
    return found


def edges(life: Life, catalogue: Catalogue, windows: Ints, *, causes: bool) -> Ints:
    """(before, after) of events in the windows, as the rows of a life have them; with causes, as they must be."""
    told, steps, _ = read_life(life, catalogue)
    found: list[Ints] = [np.zeros((0, 2), dtype=np.int64)]
    for sub in told.values():
        if sub.order in (CAUSAL if causes else TOTAL):
            row = row_of(sub)
            row = row[inside(catalogue.rank[row], windows)]
            found.append(np.stack([row[:-1], row[1:]], axis=1))
    for parts in steps.values() if causes else ():
        events, published = (np.concatenate(c) for c in zip(*parts, strict=True))
        keep = inside(catalogue.rank[events], windows)
        events, published = events[keep], published[keep]
        nexts = np.flatnonzero(published)
        at = np.searchsorted(nexts, np.arange(len(events)), side="right")  # the publication after each step
        has_next = at < len(nexts)
        found.append(np.stack([events[has_next], events[nexts[at[has_next]]]], axis=1))
    return np.unique(np.concatenate(found), axis=0)


def better_rank(rank: Ints, windows: Ints, all_edges: Sequence[Ints]) -> Ints:
    """The witness with its windows sorted topologically; what lies on or between cycles is put in the middle."""
    pairs = np.unique(np.concatenate(all_edges), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    events = np.flatnonzero(inside(rank, windows))
    events = events[np.argsort(rank[events], kind="stable")]
    local = np.full(len(rank), NONE, dtype=np.int64)
    local[events] = np.arange(len(events))
    order = _sorted(local[pairs].tolist(), len(events))
    # Nothing leads from a later window to an earlier one: sorting by window keeps the order topological.
    window = np.searchsorted(windows[:, 0], rank[events], side="right")[order]
    order = order[np.argsort(window, kind="stable")]
    better = np.array(rank)
    better[events[order]] = np.sort(rank[events])
    return better


def _sorted(pairs: list[list[int]], count: int) -> Ints:
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for x, y in pairs:
        after[x].append(y)
        before[y].append(x)
    first = _peel(after, before, set())
    last = _peel(before, after, set(first))
    gone = set(first) | set(last)
    tangled = [e for e in range(count) if e not in gone]
    return np.array([*first, *tangled, *reversed(last)], dtype=np.int64)


def _peel(after: list[list[int]], before: list[list[int]], gone: set[int]) -> list[int]:
    """Events in an order in which nothing comes before what it waits for; without those that wait in a circle."""
    waits = [sum(x not in gone for x in mine) for mine in before]
    free = deque(e for e in range(len(after)) if not waits[e] and e not in gone)
    order: list[int] = []
    while free:
        event = free.popleft()
        order.append(event)
        for x in after[event]:
            waits[x] -= 1
            if not waits[x] and x not in gone:
                free.append(x)
    return order


def descents(life: Life, catalogue: Catalogue, *, causes: bool) -> Ints:
    """Where the rows of a life go down in the witness of the catalogue."""
    told, steps, _ = read_life(life, catalogue)
    orders = CAUSAL if causes else TOTAL
    found = [down(catalogue.rank[row_of(sub)]) for sub in told.values() if sub.order in orders]
    for parts in steps.values() if causes else ():
        events, published = (np.concatenate(c) for c in zip(*parts, strict=True))
        found.append(down(catalogue.rank[events], published))
    return np.concatenate([np.zeros((0, 2), dtype=np.int64), *found])


def tangle(
    life: Life, catalogue: Catalogue, windows: Ints, records_max: int
) -> list[tuple[Row, Record]] | int:
    """The records of a life about events in the windows, and its joins; only their number if they are too many."""
    told, _, _ = read_life(life, catalogue)
    rows = [row for sub in told.values() for kind, *_, row in sub.control if kind is Kind.SUBSCRIBED]
    for sub in told.values():
        for events, places in zip(sub.events, sub.rows, strict=True):
            known = events != NONE
            rows += places[known][inside(catalogue.rank[events[known]], windows)].tolist()
    me = catalogue.lives.find(life.name)
    published = np.flatnonzero((catalogue.published_life == me) & inside(catalogue.rank, windows))
    rows += catalogue.published_row[published].tolist()
    if len(rows) > records_max:
        return len(rows)
    rows.sort()
    records = records_of(take_rows(life, rows))
    return [(Row(life.name, at), record) for at, record in zip(rows, records, strict=True)]


def judge_tangle(
    found: Sequence[tuple[Row, Record]], promises: Sequence[str]
) -> list[tuple[Verdict, tuple[Row, ...]]]:
    """The verdicts over a small history, and the rows behind each."""
    lives: dict[str, set[str]] = defaultdict(set)
    for row, record in found:
        lives[record.process].add(row.life)
    places: dict[tuple[str, int], Row] = {}
    records: list[Record] = []
    for row, record in found:
        # Two lives of one process count from the beginning: they are two processes to a judge.
        if len(lives[record.process]) > 1:
            record = _renamed(record, f"{record.process} ({row.life})")
        places[record.process, record.seq] = row
        records.append(record)
    return [(v, tuple(places[r.process, r.seq] for r in v.evidence)) for v in judge(records, promises)]


def _renamed(record: Record, process: str) -> Record:
    fields = {name: getattr(record, name) for name in Record.__struct_fields__}
    return Record(**(fields | {"process": process}))
