"""Takes the new segments of a journal into a lake: checks them, judges them, and puts them in view of the tables.

Each life has a state in the lake: how many of its segments were judged, and what is carried over. Only segments
beyond that are read. Killed anywhere, the next run goes on from the states that were kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from unisono.pipeline.audit import Judgement, certificate_of
from unisono.pipeline.certify import Witnessed
from unisono.pipeline.lake import Lake
from unisono.pipeline.segments import Life, Listing, list_journal
from unisono.pipeline.tally import Tally, all_together
from unisono.pipeline.tasks import Here, Runner

ROWS_HERE_MAX = 300_000  # below this, starting Spark would take longer than the work


class Progress(NamedTuple):
    """How far a life has been judged."""

    life: str
    segments: int
    rows_new: int
    broken: str


class Ingested(NamedTuple):
    """What a run took in."""

    listing: Listing
    segments_new: int
    rows_new: int
    quarantined: int  # that were not known before
    judgement: Judgement
    tally: Tally  # of all lives, whenever they were judged


def new_work(listing: Listing, lake: Lake) -> list[Life]:
    """The lives that have grown since the last run."""
    grown = []
    for life in listing.lives:
        state = lake.state(life.name)
        if state is None or (state.segments < len(life.segments) and not state.broken):
            grown.append(life)
    return grown


def rows_new(lives: Sequence[Life], lake: Lake) -> int:
    """How many rows have not been judged."""
    known = ((life, lake.state(life.name)) for life in lives)
    return sum(s.rows for life, state in known for s in life.segments[state.segments if state else 0 :])


def ingest(journal: str | Path, lake: Lake, runner: Runner) -> Ingested:
    """Take in all that is new, and judge everything by what is carried over."""
    listing = list_journal(journal)
    grown = new_work(listing, lake)
    weights = [life.rows for life in grown]
    done = runner.run("judging new segments", partial(advance, lake=lake.folder), grown, weights)
    fresh = 0
    for path, reason in listing.refused:
        fresh += lake.quarantine(path, reason, time.time())
    for progress in done:
        if progress.broken:
            fresh += lake.quarantine(progress.life, progress.broken, time.time())
    states = {life.name: lake.state(life.name) for life in listing.lives}
    landed = 0
    for life in listing.lives:
        state = states[life.name]
        # What could not be read to its end must not stop the tables.
        usable = 0 if state is None else state.whole_segments if state.broken else state.segments
        for segment in life.segments[:usable]:
            landed += lake.land(life.name, segment.number, segment.path)
    shown = [state for state in states.values() if state is not None]
    judgement = certificate_of(listing.lives, shown, runner)
    tally = all_together(state.tally for state in shown if state.tally is not None)
    return Ingested(listing, landed, sum(p.rows_new for p in done), fresh, judgement, tally)


def advance(life: Life, lake: str | Path) -> Progress:
    """Judge the segments of a life that its state does not cover, and keep the new state."""
    place = Lake(lake)
    state = place.state(life.name) or Witnessed(life.name, Tally())
    before = state.rows
    for segment in life.segments[state.segments :]:
        damage = _damage(segment.path)
        if damage:
            state.broken = state.broken or damage
        state.feed([segment])
        if state.broken:
            break
        state.whole_segments = state.segments
    place.keep_state(life.name, state)
    return Progress(life.name, state.segments, state.rows - before, state.broken)


def _damage(path: str) -> str:
    """Why a column that no judge reads cannot be read; empty if all can."""
    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(columns=["published_at", "body"]):
                pass
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"segment '{path}' cannot be read: {error}"
    return ""


def here_if_little(lives: Sequence[Life], lake: Lake) -> Runner | None:
    """This process, when there is too little to do to start Spark for it."""
    return Here() if rows_new(lives, lake) <= ROWS_HERE_MAX else None
