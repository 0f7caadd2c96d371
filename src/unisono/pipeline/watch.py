"""Watches a journal while it is written: a violation is told a few seconds after the delivery that made it.

The kernels are the audit's (`unisono.pipeline.watched`), the stream is Spark's (`unisono.pipeline.watch_stream`),
what was found is kept in a ledger (`unisono.pipeline.watch_ledger`), and the words are those of the audit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from unisono.model.errors import HistoryError
from unisono.pipeline.explain import Violation, doubt_in_words, put_into_words, together
from unisono.pipeline.findings import Doubt, Found
from unisono.pipeline.growing import Growth, Offset, segment_at
from unisono.pipeline.segments import Life, Refused, Segment
from unisono.pipeline.session import advice, explained
from unisono.pipeline.watch_ledger import Ledger, LifeSoFar, Notice, Page
from unisono.pipeline.watch_stream import SETTINGS, heard_from, unpack
from unisono.pipeline.watched import Fed, Forgotten, Heard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER_S = 1.0
POLL_S = 0.2
FAILURES_MAX = 5


class Progress(msgspec.Struct, frozen=True):
    """How much was judged so far."""

    what: str  # progress, or ended
    verdict: str
    violations: int
    deliveries: int
    rows: int
    segments: int
    lives: int
    forgotten: int
    batch: int


def progress_of(page: Page, what: str = "progress") -> Progress:
    """What a page adds up to: held means that nothing wrong was seen so far."""
    lives = page.lives.values()
    deliveries = sum(life.deliveries for life in lives)
    verdict = "held" if deliveries and not page.unsure else "unknown"
    return Progress(
        what,
        "violated" if page.violations else verdict,
        page.violations,
        deliveries,
        sum(life.rows for life in lives),
        sum(life.segments for life in lives),
        len(lives),
        page.forgotten,
        page.batch,
    )


class Watch:
    """One query over one journal; `tell` hears every notice once, `judged` of every batch, `again` of new beginnings."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: Ledger,
        tell: Callable[[Notice], None],
        judged: Callable[[Page], None] = lambda page: None,
        again: Callable[[str], None] = lambda words: None,
    ) -> None:
        self.ledger, self._tell, self._judged, self._again = ledger, tell, judged, again
        self._growth = Growth(ledger.journal)
        self._failures = 0  # since a batch was judged
        self._session = spark.newSession()
        for key, value in SETTINGS.items():
            self._session.conf.set(key, value)
        for notice in ledger.untold():
            tell(notice)
        self._query = self._start()

    def _start(self) -> StreamingQuery:
        return (
            heard_from(self._session, self.ledger.journal)
            .writeStream.foreachBatch(self._take_in)
            .option("checkpointLocation", str(self.ledger.spark))
            .trigger(processingTime=f"{TRIGGER_S:g} seconds")
            .start()
        )

    def run(self, until: Callable[[], bool]) -> None:
        """Return when `until` says so; ConfigError if Spark gives up again and again without a batch in between."""
        with explained("the watch stopped"):
            while not until():
                if not self._query.isActive:
                    self._begin_again()
                time.sleep(POLL_S)

    def _begin_again(self) -> None:
        """A worker that was killed, or that a busy machine gave no time, ends a query, not a watch."""
        failure = self._query.exception()
        self._failures += 1
        if failure is not None and self._failures > FAILURES_MAX:
            raise failure
        self._again(f"Spark gave up ({advice(str(failure))}); begun again from the checkpoint")
        self._query = self._start()

    def there_now(self) -> Offset:
        """What the journal holds at this moment."""
        return self._growth.since({})

    def has_judged(self, offset: Offset) -> bool:
        """Whether everything up to there has been judged, or refused."""
        lives = self.ledger.page.lives
        judged = ((lives.get(life, LifeSoFar()), segments) for life, segments in offset.items())
        return all(life.is_broken or life.segments >= segments for life, segments in judged)

    def stop(self) -> None:
        """End the query; a batch that it was in is begun again by the next watch."""
        with explained("the watch did not end"):
            self._query.stop()

    def _take_in(self, frame: DataFrame, batch: int) -> None:
        # Asked for also when it is done: only what is asked for is computed, and kept in Spark's state.
        heard = [unpack(data) for data in frame.toArrow().column("heard").to_pylist()]
        if self.ledger.has(batch):
            return
        page = msgspec.json.decode(msgspec.json.encode(self.ledger.page), type=Page)
        page.batch = batch
        self._count(page, heard)
        notices = self._notices(page, heard)
        self.ledger.write(page, notices)
        for notice in self.ledger.untold():
            self._tell(notice)
        self._failures = 0
        self._judged(page)

    def _count(self, page: Page, heard: Sequence[Heard]) -> None:
        for one in heard:
            if isinstance(one.what, Fed):
                life = page.lives.setdefault(one.life, LifeSoFar())
                life.segments = max(life.segments, one.what.number + 1)
                life.rows += one.what.rows
                life.deliveries = max(life.deliveries, one.what.deliveries)
                self.ledger.note_rows(one.life, one.what.number, one.what.rows)
            elif isinstance(one.what, Refused):
                page.lives.setdefault(one.life, LifeSoFar()).is_broken = True
            elif isinstance(one.what, Forgotten):
                page.forgotten += one.what.rows

    def _notices(self, page: Page, heard: Sequence[Heard]) -> list[Notice]:
        found = [one.what for one in heard if isinstance(one.what, Found)]
        now, notices = time.time(), list[Notice]()
        for violation in self._in_words(found):
            page.violations += 1
            youngest = max((row["record"]["at"] for row in violation.rows), default=now)
            told = {name: getattr(violation, name) for name in Violation.__struct_fields__}
            number = page.notices + len(notices) + 1
            delay_s = round(now - youngest, 3)
            notices.append(Notice(what="violation", number=number, at=now, delay_s=delay_s, **told))
        for one in heard:
            if isinstance(one.what, Doubt | Refused):
                number = page.notices + len(notices) + 1
                notices.append(self._unsure(one.what, number, now))
                page.unsure += 1
        page.notices += len(notices)
        return notices

    def _unsure(self, what: Doubt | Refused, number: int, now: float) -> Notice:
        if isinstance(what, Refused):
            words = f"not used from here on: {what.path}: {what.reason}"
            return Notice(what="refused", number=number, explanation=words, at=now)
        lives = [self._life(row.life) for row in what.rows]
        words = doubt_in_words(lives, what)
        return Notice(what="doubt", number=number, promise=what.promise, explanation=words, at=now)

    def _in_words(self, found: Sequence[Found]) -> list[Violation]:
        lives = [self._life(name) for name in sorted({row.life for one in found for row in one.rows})]
        try:
            return together(put_into_words(lives, found))
        except (HistoryError, OSError, LookupError, pa.ArrowException) as error:
            # Somebody has removed what it would have been told with: that it is so is told all the same.
            lost = f"the records that show it cannot be read any more ({error})"
            return [
                Violation(
                    one.promise, f"{one.how.replace('_', ' ')} in {one.rows[0].life}: {lost}", "", (), ()
                )
                for one in found
            ]

    def _life(self, name: str) -> Life:
        rows = enumerate(self.ledger.rows_of(name))
        paths = (
            Segment(str(segment_at(self.ledger.journal, name, number)), number, count, 0)
            for number, count in rows
        )
        return Life(name, tuple(paths), is_whole=False)
