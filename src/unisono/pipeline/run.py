"""`unisono pipeline run`: new segments in, verdicts brought up to date, tables brought up to date.

Three stages, each of which can be killed and run again: states of lives are replaced at once, segments come into
view once, streams remember in the lake how far they have come.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from unisono.pipeline.audit import CERTIFICATE, Judged, check_input, summarize
from unisono.pipeline.declarative import run_tables
from unisono.pipeline.explain import Violation
from unisono.pipeline.ingest import Ingested, here_if_little, ingest, new_work
from unisono.pipeline.lake import Lake, replace_bytes, replace_table
from unisono.pipeline.plan import make_plan
from unisono.pipeline.segments import list_journal
from unisono.pipeline.session import check_address, explained, open_session
from unisono.pipeline.tasks import OnSpark, Tell

THRESHOLD = 2  # subscribers that two topics must share to be ordered, in the lake's own plan
LIGHT_ROWS_MAX = 1_000_000  # up to here starting Java costs more than what Java does
PLAN = pa.schema(
    [
        ("topic", pa.string()),
        ("rate", pa.float64()),
        ("subscribers", pa.int64()),
        ("rank", pa.int64()),
        ("group", pa.int64()),
        ("parent", pa.string()),
        ("host", pa.string()),
        ("stamp_entries", pa.int64()),
        ("stamp_entries_upward", pa.int64()),
        ("path_topics", pa.int64()),
        ("hops", pa.int64()),
    ]
)


class Ran(msgspec.Struct, frozen=True):
    """What `unisono pipeline run --json` prints."""

    segments_new: int
    rows_new: int
    deliveries: int
    verdict: str
    violations: list[Violation]
    promises: list[Judged]
    refused: list[dict[str, str]]
    seconds: float
    seconds_by_stage: dict[str, float]
    lake: str


def run(
    journal: str | Path,
    lake: str | Path,
    *,
    master: str = "local[*]",
    remote: str = "",
    tell: Tell = lambda title, done, of: None,
) -> Ran:
    """Bring a lake up to date with a journal."""
    check_input(journal, "certificate")
    check_address(master, remote)
    place = Lake(lake).open()
    watch = _Watch()
    with place.locked(), explained(f"the lake '{lake}' could not be brought up to date"):
        taken = _ingest(journal, place, master, remote, tell)
        watch.lap("judging")
        verdict, promises, violations, refused = summarize(taken.listing, [(CERTIFICATE, taken.judgement)])
        _keep_verdicts(place, promises)
        _keep_plan(place, taken)
        watch.lap("planning")
        if not _is_done(place):
            told = partial(_tell_table, tell)
            heavy = _rows_waiting(place, taken) > LIGHT_ROWS_MAX
            run_tables(place, master=master, remote=remote, tell=told, heavy=heavy)
            _note_done(place)
        watch.lap("tables")
    return Ran(
        taken.segments_new,
        taken.rows_new,
        taken.judgement.deliveries,
        verdict,
        violations,
        promises,
        refused,
        round(sum(watch.laps.values()), 3),
        watch.laps,
        str(place.folder),
    )


def _ingest(journal: str | Path, lake: Lake, master: str, remote: str, tell: Tell) -> Ingested:
    here = here_if_little(new_work(list_journal(journal), lake), lake)
    if here is not None:
        return ingest(journal, lake, here)
    spark = open_session(master, remote)
    try:
        return ingest(journal, lake, OnSpark(spark, tell))
    finally:
        spark.stop()


def _keep_verdicts(lake: Lake, promises: list[Judged]) -> None:
    rows = [
        {"promise": j.promise, "verdict": j.verdict, "explanation": j.explanation, "checked": j.checked}
        for j in promises
    ]
    schema = pa.schema(
        [
            ("promise", pa.string()),
            ("verdict", pa.string()),
            ("explanation", pa.string()),
            ("checked", pa.int64()),
        ]
    )
    replace_table(lake.verdicts / "promises.parquet", pa.Table.from_pylist(rows, schema))


def _keep_plan(lake: Lake, taken: Ingested) -> None:
    """The plan that follows from all that was ever taken in: made anew, for tallies are small."""
    place = lake.plan / "topics.parquet"
    if not taken.rows_new and place.exists():
        return
    document = make_plan(taken.tally.matrix(THRESHOLD), taken.tally.rates())
    rows = [msgspec.to_builtins(topic) for topic in document.topics]
    replace_table(place, pa.Table.from_pylist(rows, PLAN))
    replace_bytes(lake.folder / "plan.json", msgspec.json.encode(document))


def _tell_table(tell: Tell, table: str) -> None:
    tell(f"table {table} is up to date", 1, 1)


def _rows_waiting(lake: Lake, taken: Ingested) -> int:
    """About how many rows the tables lack: all of them, if they were never finished."""
    if not (lake.folder / "done.json").exists():
        return sum(life.rows for life in taken.listing.lives)
    return taken.rows_new


def _contents(lake: Lake) -> bytes:
    """What the tables are made from: when it is the same as last time, there is nothing to do."""
    names = [sorted(p.name for p in folder.glob("*.parquet")) for folder in (lake.landed, lake.quarantined)]
    return json.dumps([len(n) for n in names]).encode()


def _is_done(lake: Lake) -> bool:
    marker = lake.folder / "done.json"
    return marker.exists() and marker.read_bytes() == _contents(lake)


def _note_done(lake: Lake) -> None:
    replace_bytes(lake.folder / "done.json", _contents(lake))


class _Watch:
    """How long each stage took."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self.laps = clock, dict[str, float]()
        self.started = clock()

    def lap(self, name: str) -> None:
        now = self.clock()
        self.laps[name] = round(now - self.started, 3)
        self.started = now
