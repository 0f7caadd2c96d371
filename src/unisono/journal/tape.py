"""Rows in the making: what happens to a process, noted for next to nothing and made into columns later.

A row is three numbers: what happened to which subscription (its *lane*), to which event (its *fact*), and when.
All rows about the events of one run share that run's facts, so a run that was sequenced once and delivered to
many subscriptions is taken apart only once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from time import time
from typing import Any

import numpy as np

from unisono.history.record import Kind
from unisono.journal.columns import Fact, Facts, Rows
from unisono.model.event import Event
from unisono.model.frames import Publication, Run

ROWS_MAX = 32_768
EVENTS_MAX = 32_768  # of runs: until the cut they keep their payloads in memory
_SINGLE, _RUN = 1 << 40, 1 << 41  # facts from here on are of events that came alone, and of runs
_source_of = attrgetter("_source")
_place_of = attrgetter("_place")


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
        self._clear()

    def _clear(self) -> None:
        self._lanes: dict[tuple[Kind, str], int] = {}
        self._delivering: dict[str, int] = {}  # the lanes of deliveries, by subscription
        self._publishing = self._lane_of(Kind.PUBLISHED, "")
        self._lane, self._fact, self._at = array("i"), array("q"), array("d")
        self._publications: list[Publication] = []
        self._singles: list[Fact] = []
        self._runs: dict[Run, int] = {}  # and where its facts begin
        self._run_events = 0
        self._run: object = self  # the run that was met last; none yet
        self._base = 0  # and where its facts begin
        self._tagged: list[int] = []  # rows of deliveries out of order
        self._words: dict[int, tuple[str, str, str]] = {}  # row -> order, on_gap, reason

    def __len__(self) -> int:
        return len(self._at)

    # Noting.

    def published(self, publication: Publication) -> None:
        """The application handed over an event, just now."""
        if len(self._at) >= ROWS_MAX:
            self.cut()
        self._lane.append(self._publishing)
        self._fact.append(len(self._publications))
        self._at.append(publication.published_at)
        self._publications.append(publication)

    def sequenced(self, run: Run) -> None:
        """All events of a run have their places."""
        self._turn_to(run)
        count = len(run.publications)
        self._add_many(self._lane_of(Kind.SEQUENCED, ""), range(self._base, self._base + count), count)

    def delivered(self, subscription: str, event: Event[Any]) -> None:
        """The application was handed an event."""
        source = event._source
        if source is not self._run:
            if not isinstance(source, Run):
                self._deliver_single(subscription, event, source)
                return
            self._turn_to(source)
        try:
            self._lane.append(self._delivering[subscription])
        except KeyError:
            self._lane.append(self._lane_of(Kind.DELIVERED, subscription))
        self._fact.append(self._base + event._place)
        self._at.append(self._clock())

    def delivered_many(self, subscription: str, events: Iterable[Event[Any]]) -> None:
        """The application was handed these events at once."""
        for source, some in groupby(events, _source_of):
            if isinstance(source, Run):
                self._turn_to(source)
                facts = list(map(self._base.__add__, map(_place_of, some)))
                self._add_many(self._lane_of(Kind.DELIVERED, subscription), facts, len(facts))
            else:
                for event in some:
                    self.delivered(subscription, event)

    def note(
        self,
        kind: Kind,
        subscription: str = "",
        *,
        event: str = "",
        topic: str = "",
        number: int = 0,
        order: str = "",
        on_gap: str = "",
        reason: str = "",
    ) -> None:
        """Anything else that happened."""
        if len(self._at) >= ROWS_MAX:
            self.cut()
        publisher, incarnation, n = event.rsplit("/", 2) if event else (None, 0, 0)
        if order or on_gap or reason:
            self._words[len(self._at)] = order, on_gap, reason
        self._add(
            self._lane_of(kind, subscription),
            Fact(publisher, int(incarnation), int(n), topic or None, number),
        )

    def _deliver_single(
        self, subscription: str, event: Event[Any], entries: Mapping[str, int] | None
    ) -> None:
        """Events that came alone, with a stamp of their own or none."""
        if len(self._at) >= ROWS_MAX:
            self.cut()
        if not event.in_order:  # those of a run always are
            self._tagged.append(len(self._at))
        p, stamp = event._publication, entries or None
        number = 0 if stamp is None else stamp.get(p.topic, 0)
        self._add(
            self._lane_of(Kind.DELIVERED, subscription),
            Fact(p.publisher, p.incarnation, p.n, p.topic, number, stamp, p.published_at),
        )

    def _add(self, lane: int, fact: Fact) -> None:
        self._lane.append(lane)
        self._fact.append(_SINGLE + len(self._singles))
        self._at.append(self._clock())
        self._singles.append(fact)

    def _add_many(self, lane: int, facts: Iterable[int], count: int) -> None:
        self._lane.extend(array("i", [lane]) * count)
        self._fact.extend(facts)
        self._at.extend(array("d", [self._clock()]) * count)

    def _turn_to(self, run: Run) -> None:
        """The rows to come are about events of this run."""
        if len(self._at) >= ROWS_MAX or self._run_events >= EVENTS_MAX:
            self.cut()
        base = self._runs.get(run)
        if base is None:
            base = self._runs[run] = _RUN + self._run_events
            self._run_events += len(run.publications)
        self._run, self._base = run, base

    def _lane_of(self, kind: Kind, subscription: str) -> int:
        lane = self._lanes.setdefault((kind, subscription), len(self._lanes))
        if kind is Kind.DELIVERED:
            self._delivering[subscription] = lane
        return lane

    # Cutting.

    def cut(self) -> None:
        """Hand over the rows so far."""
        if not self._at:
            return
        facts = Facts()
        facts.add_publications(self._publications)
        singles = len(facts)
        facts.add_singles(self._singles)
        runs = len(facts)
        for run in self._runs:
            facts.add_run(run)
        fact = np.array(self._fact, np.int64)
        fact[fact >= _RUN] += runs - _RUN
        fact[fact >= _SINGLE] += singles - _SINGLE
        rows = Rows(
            self.process,
            self.seq + 1,
            list(self._lanes),
            self._lane,
            fact,
            self._at,
            facts,
            self._tagged,
            self._words,
            [p.body for p in self._publications] if self._payloads else None,
        )
        self.seq += len(self._at)
        self._clear()
        self._sink(rows)
