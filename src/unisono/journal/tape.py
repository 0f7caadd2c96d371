"""Rows in the making: what happens to a process, noted for next to nothing and made into columns later.

A row is three numbers: what happened to which subscription (its *lane*), to which event (its *fact*), and when.
All rows about the events of one run share that run's facts, so a run that was sequenced once and delivered to
many subscriptions is taken apart only once.

Events published or delivered one by one are at first only put in a list: a *span*, of one publisher or one
subscription. It is made into rows when something else happens, so that the order of a process is kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import groupby
from time import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unisono.history.record import Kind
from unisono.journal.columns import Fact, Facts, Rows
from unisono.model.event import Event
from unisono.model.frames import Publication, Run

ROWS_MAX = 32_768
EVENTS_MAX = 32_768  # of runs and of publications: until the cut they keep their payloads in memory
SPAN_MAX = 4096
_FEW = 24  # events of a shorter run are noted one by one: that is faster; so are those of parts of a bundle
_RUN, _SINGLE = 1 << 40, 1 << 41  # facts from here on are of runs, and of events that came alone
_NOBODY, _PUBLISHER = object(), object()  # whose span it can be; else a subscription's name


class Tape:
    """What happened to one process since the last cut, in order; what is cut off goes to `sink`."""

    def __init__(
        self,
        process: str,
        sink: Callable[[Rows], object],
        *,
        payloads: bool = False,
        clock: Callable[[], float] = time,
    ) -> None:
        self.process = process
        self.seq = 0  # of the last row that was cut off
        self._sink = sink
        self._payloads = payloads
        self._clock = clock
        self._whose: object = _NOBODY
        self._taken: list[Event[Any]] = []
        self._taken_at: list[float] = []
        self._clear()

    def _clear(self) -> None:
        self._lanes: dict[tuple[Kind, str], int] = {}
        self._lane, self._fact, self._at = array("i"), array("q"), array("d")
        self._publications: list[Publication] = []
        self._settled = 0  # so many of them have their rows
        self._singles: list[Fact] = []
        self._runs: dict[Run, int] = {}  # and where their facts begin
        self._few: dict[Run, int] = {}  # the same, of short ones
        self._run_events = 0
        self._tagged: list[int] = []  # rows of deliveries out of order
        self._words: dict[int, tuple[str, str, str]] = {}  # row -> order, on_gap, reason

    # Noting.

    def published(self, publication: Publication) -> None:
        """The application handed over an event, just now."""
        if self._whose is not _PUBLISHER:
            self._begin(_PUBLISHER)
        self._publications.append(publication)
        if len(self._publications) >= EVENTS_MAX:
            self.cut()

    def sequenced(self, run: Run) -> None:
        """All events of a run have their places."""
        self._begin(_NOBODY)
        base = self._base_of(run)
        facts = np.arange(base, base + len(run))
        self._add_many(self._lane_of(Kind.SEQUENCED, ""), facts, [self._clock()] * len(facts))

    def delivered(self, subscription: str, event: Event[Any]) -> None:
        """The application was handed an event."""
        if self._whose is not subscription:
            self._begin(subscription)
        self._taken.append(event)
        self._taken_at.append(self._clock())
        if len(self._taken) >= SPAN_MAX:
            self._settle()

    def delivered_many(self, subscription: str, events: list[Event[Any]]) -> None:
        """The application was handed these events at once."""
        self._begin(_NOBODY)
        self._add_delivered(subscription, events, [self._clock()] * len(events))

    def note(
        self,
        kind: Kind,
        subscription: str = "",
        *,
        event: str = "",
        topic: str = "",
        number: int = 0,
        stamp: dict[str, int] | None = None,
        deadline: float | None = None,
        order: str = "",
        on_gap: str = "",
        reason: str = "",
    ) -> None:
        """Anything else that happened."""
        self._begin(_NOBODY)
        if order or on_gap or reason:
            self._words[len(self._at)] = order, on_gap, reason
        publisher, incarnation, n = event.rsplit("/", 2) if event else (None, 0, 0)
        fact = Fact(publisher, int(incarnation), int(n), topic or None, number, 0, stamp, 0.0, deadline)
        self._add(self._lane_of(kind, subscription), fact, self._clock())

    # Spans.

    def _begin(self, whose: object) -> None:
        """What follows is somebody else's."""
        self._settle()
        self._whose = whose
        self._make_room()

    def _settle(self) -> None:
        """Make the span that is open into rows."""
        taken, self._taken = self._taken, []
        taken_at, self._taken_at = self._taken_at, []
        if taken:
            assert isinstance(self._whose, str)
            self._add_delivered(self._whose, taken, taken_at)
        start, self._settled = self._settled, len(self._publications)
        if start < self._settled:
            at = [p.published_at for p in self._publications[start:]]
            self._add_many(self._lane_of(Kind.PUBLISHED, ""), np.arange(start, self._settled), at)

    # Rows.

    def _add_delivered(self, subscription: str, events: list[Event[Any]], at: list[float]) -> None:
        start = 0
        for source, some in groupby([event._source for event in events]):
            end = start + len(list(some))
            self._make_room()
            lane, mine = self._lane_of(Kind.DELIVERED, subscription), events[start:end]
            if isinstance(source, Run):
                places = np.fromiter([event._place for event in mine], np.int64, end - start)
                self._add_many(lane, places + self._base_of(source), at[start:end])
            else:
                for event, moment in zip(mine, at[start:end], strict=True):
                    self._add_single(lane, event, source or None, moment)
            start = end

    def _add_single(self, lane: int, event: Event[Any], stamp: dict[str, int] | None, at: float) -> None:
        """A delivery of an event that came alone, with a stamp of its own or none."""
        if not event.in_order:  # those of a run always are
            self._tagged.append(len(self._at))
        self._add(lane, _fact_of(event._publication, stamp, event._epoch, event.deadline), at)

    def _add(self, lane: int, fact: Fact, at: float) -> None:
        self._lane.append(lane)
        self._fact.append(_SINGLE + len(self._singles))
        self._at.append(at)
        self._singles.append(fact)

    def _add_many(self, lane: int, facts: NDArray[np.int64], at: list[float]) -> None:
        self._lane.extend(array("i", [lane]) * len(facts))
        self._fact.frombytes(facts.tobytes())
        self._at.fromlist(at)

    def _lane_of(self, kind: Kind, subscription: str) -> int:
        return self._lanes.setdefault((kind, subscription), len(self._lanes))

    def _base_of(self, run: Run) -> int:
        """Where the facts of a run begin."""
        base = self._runs.get(run) or self._few.get(run)
        if base is not None:
            return base
        if len(run) < _FEW or not run.is_whole:
            self._few[run] = base = _SINGLE + len(self._singles)
            self._singles += [
                _fact_of(publication, run.entries(place), run.epoch)
                for place, publication in enumerate(run.publications)
            ]
            return base
        self._runs[run] = base = _RUN + self._run_events
        self._run_events += len(run)
        return base

    # Cutting.

    def _make_room(self) -> None:
        if len(self._at) >= ROWS_MAX or self._run_events >= EVENTS_MAX:
            self._cut_off()

    def cut(self) -> None:
        """Hand over everything that has happened so far."""
        self._begin(_NOBODY)
        self._cut_off()

    def _cut_off(self) -> None:
        """Hand over the rows; no span is open."""
        if not self._at:
            return
        publications = self._publications
        fact = np.array(self._fact, np.int64)
        fact[fact >= _SINGLE] += len(publications) + self._run_events - _SINGLE
        fact[fact >= _RUN] += len(publications) - _RUN
        rows = Rows(
            self.process,
            self.seq + 1,
            list(self._lanes),
            self._lane,
            fact,
            self._at,
            Facts(publications, list(self._runs), self._singles),
            self._tagged,
            self._words,
            [p.body for p in publications] if self._payloads else None,
        )
        self.seq += len(self._at)
        self._clear()
        self._sink(rows)


def _fact_of(
    publication: Publication,
    stamp: dict[str, int] | None,
    epoch: int = 0,
    deadline: float | None = None,
) -> Fact:
    number = 0 if stamp is None else stamp.get(publication.topic, 0)
    return Fact(
        publication.publisher,
        publication.incarnation,
        publication.n,
        publication.topic,
        number,
        epoch,
        stamp,
        publication.published_at,
        deadline or publication.deadline,
    )
