"""The independent audit of all lives: a catalogue, each life against it, and what does not fit looked at closer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.history import Outcome, Record
from unisono.history.checkers.deadlines import NOBODY, in_words
from unisono.model.errors import HistoryError
from unisono.pipeline import deadlines, witness
from unisono.pipeline.catalogue import Catalogue, Source, read_source
from unisono.pipeline.certificate import ORDERED, TOTAL
from unisono.pipeline.columns import Ints
from unisono.pipeline.explain import Told
from unisono.pipeline.findings import Doubt, Found, Row
from unisono.pipeline.independent import CAUSAL, Examined, examine
from unisono.pipeline.segments import Life
from unisono.pipeline.tasks import Runner

if TYPE_CHECKING:
    from unisono.pipeline.audit import Judgement

_NEEDS = {
    "no_creation": None,
    "no_duplication": None,
    "no_endless_wait": None,
    "publisher_fifo": ORDERED,
    "nothing_lost": ORDERED,
    "total_notification_order": TOTAL,
    "acyclic_order": ("total_causal",),
    "causal_order": CAUSAL,
}  # deadlines are judged where a subscription has one
_COUNTED = {
    "publisher_fifo": "fifo",
    "nothing_lost": "owed",
    "total_notification_order": "total",
    "acyclic_order": "acyclic",
    "causal_order": "causal",
}


def judge_independently(
    lives: Sequence[Life], runner: Runner, folder: Path, unended: Iterable[str] = ()
) -> Judgement:
    """Judge without trusting a stamp; `folder` is where tasks find what they share.

    `unended` names processes that may have published more than was written.
    """
    return _Audit(lives, runner, folder, unended).run()


class _Audit:
    """One run over one journal."""

    def __init__(self, lives: Sequence[Life], runner: Runner, folder: Path, unended: Iterable[str]) -> None:
        self.lives, self.runner, self.folder, self.unended = lives, runner, folder, frozenset(unended)
        self.weights = [life.rows for life in lives]
        self.versions = 0
        self.doubts: list[Doubt] = []
        self.found: list[Found] = []
        self.told: list[Told] = []

    def run(self) -> Judgement:
        from unisono.pipeline.audit import Judgement

        sources = self.runner.run("listing events", _source, self.lives, self.weights)
        broken = [(life.name, s) for life, s in zip(self.lives, sources, strict=True) if isinstance(s, str)]
        self.sources = [s for s in sources if not isinstance(s, str)]
        names = {s.life for s in self.sources}
        self.lives = [life for life in self.lives if life.name in names]
        self.weights = [life.rows for life in self.lives]
        examined, catalogue = self._examine()
        for one, _ in examined:
            self.found += one.found
        parts = [one for one, _ in examined]
        self._applies(parts, catalogue)
        self._order(catalogue, witness.merge(p.stretches for p in parts), causes=False)
        if any(p.orders.get(order) for p in parts for order in CAUSAL):
            self._order(catalogue, witness.merge(p.causes for p in parts), causes=True)
            self._unpublished(parts)
        checked_in_time, notes = self._judge_deadlines(catalogue)
        deliveries = sum(p.checked["deliveries"] for p in parts)
        checked = checked_in_time | {
            promise: sum(p.checked[_COUNTED.get(promise, "deliveries")] for p in parts) for promise in _NEEDS
        }
        worker = max((m for _, m in examined), default=0)
        return Judgement(deliveries, self.found, self.doubts, checked, self.told, worker, broken, notes)

    def _examine(self) -> tuple[list[tuple[Examined, int]], Catalogue]:
        catalogue = Catalogue(self.sources, (), self.unended)
        place = self._save(catalogue)
        examined = self.runner.run(
            "comparing orders", partial(_examine, folder=place), self.lives, self.weights
        )
        strangers = {s for one, _ in examined for s in one.strangers}
        if strangers:
            # What nobody recorded as published has an order too.
            catalogue = Catalogue(self.sources, sorted(strangers), self.unended)
            place = self._save(catalogue)
            examined = self.runner.run(
                "comparing orders", partial(_examine, folder=place), self.lives, self.weights
            )
            if any(one.strangers for one, _ in examined):
                words = "too many events were delivered that nobody recorded as published or sequenced"
                self.doubts += [Doubt(promise, words) for promise in _NEEDS if promise != "no_endless_wait"]
        return examined, catalogue

    def _save(self, catalogue: Catalogue) -> Path:
        self.versions += 1
        place = self.folder / f"catalogue-{self.versions}"
        catalogue.save(place)
        return place

    def _applies(self, parts: Sequence[Examined], catalogue: Catalogue) -> None:
        """Doubts about promises that nobody was given, or that the journal cannot tell about."""
        orders = {order for p in parts for order in p.orders if order}
        for promise, needed in _NEEDS.items():
            if not orders:
                self.doubts.append(Doubt(promise, "the journal has no subscription", matters=False))
            elif needed is not None and not orders & set(needed):
                words = f"no subscription was promised {' or '.join(needed)}"
                self.doubts.append(Doubt(promise, words, matters=False))
        deliveries = sum(p.checked["deliveries"] for p in parts)
        if deliveries and not catalogue.published.any():
            words = "the journal has no publications to compare deliveries with"
            self.doubts.append(Doubt("no_creation", words))
        excused = next((p.excused for p in parts if p.excused), "")
        if excused:
            words = f"the journal of {excused} has no end: what it published may only not have been written"
            self.doubts.append(Doubt("no_creation", words))
        if not catalogue.healed:
            words = "the journal has no 'healed' record: what is missing might still have come"
            self.doubts.append(Doubt("nothing_lost", words, matters=False))
        whole = {life.name for life in self.lives if life.is_whole}
        lost = [f for f in self.found if f.promise == "nothing_lost" and f.rows[0].life not in whole]
        if lost:
            self.found = [f for f in self.found if f not in lost]
            words = f"the journal of {lost[0].rows[0].life} has no end: what it lacks may only not have been written"
            self.doubts.append(Doubt("nothing_lost", words))

    def _order(self, catalogue: Catalogue, windows: Ints, *, causes: bool) -> None:
        """Look closer at the windows of the witness in which somebody's row goes down."""
        if not len(windows):
            return
        place = self._save(catalogue)
        work = partial(_edges, folder=place, windows=windows, causes=causes)
        edges = self.runner.run("sorting what does not fit", work, self.lives, self.weights)
        catalogue.rank = witness.better_rank(catalogue.rank, windows, edges)
        place = self._save(catalogue)
        work2 = partial(_descents, folder=place, causes=causes)
        windows = witness.merge(self.runner.run("comparing orders again", work2, self.lives, self.weights))
        if not len(windows):
            return
        each_max = max(1000, witness.RECORDS_MAX // max(1, len(self.lives)))
        work3 = partial(_tangle, folder=place, windows=windows, records_max=each_max)
        tangles = self.runner.run("naming the contradiction", work3, self.lives, self.weights)
        promises = ["causal_order"] if causes else ["total_notification_order", "acyclic_order"]
        if any(isinstance(t, int) for t in tangles):
            count = sum(t if isinstance(t, int) else len(t) for t in tangles)
            words = f"{count} records contradict each other, too many to compare one by one"
            self.doubts += [Doubt(promise, words) for promise in promises]
            return
        self._judge([pair for t in tangles if not isinstance(t, int) for pair in t], promises)

    def _judge(self, tangle: list[tuple[Row, Record]], promises: list[str]) -> None:
        for verdict, rows in witness.judge_tangle(tangle, promises):
            if verdict.outcome is Outcome.VIOLATED:
                self.told.append(Told(verdict.promise, verdict.explanation, rows, verdict.evidence))
            elif verdict.outcome is Outcome.UNKNOWN and not any(
                d.promise == verdict.promise for d in self.doubts
            ):
                self.doubts.append(
                    Doubt(verdict.promise, verdict.explanation.replace("{", "{{").replace("}", "}}"))
                )

    def _judge_deadlines(self, catalogue: Catalogue) -> tuple[dict[str, int], dict[str, str]]:
        """Deadlines, where a subscription has one; how much was looked at, and what was dropped."""
        by_life = {s.life: s for s in self.sources}
        receivers = [life for life in self.lives if by_life[life.name].is_patient]
        if not receivers:
            self.doubts += [Doubt(promise, NOBODY, matters=False) for promise in deadlines.PROMISES]
            return {}, {}
        tell = [life for life in self.lives if by_life[life.name].tells]
        told = self.runner.run("reading what follows what", deadlines.read_tellings, tell, _rows(tell))
        place = self.folder / "orders"
        deadlines.Orders(catalogue, told).save(place)
        work = partial(_timely, folder=self._save(catalogue), orders=place)
        parts = self.runner.run("comparing deadlines", work, receivers, _rows(receivers))
        reasons: Counter[str] = Counter()
        checked = dict.fromkeys(deadlines.PROMISES, 0)
        for part in parts:
            self.found += part.found
            self.doubts += part.doubts
            reasons.update(part.reasons)
            for promise, count in part.checked.items():
                checked[promise] += count
        return checked, {deadlines.DROPS: in_words(checked[deadlines.DROPS], reasons)}

    def _unpublished(self, parts: Sequence[Examined]) -> None:
        row = next((p.unpublished for p in parts if p.unpublished is not None), None)
        if row is not None and not any(t.promise == "causal_order" for t in self.told):
            self.doubts.append(Doubt("causal_order", "no record says when {0} was published", (row,)))


def _rows(lives: Sequence[Life]) -> list[int]:
    return [life.rows for life in lives]


@lru_cache(maxsize=1)
def _loaded_orders(place: str) -> deadlines.Orders:
    return deadlines.Orders.load(Path(place))


def _timely(life: Life, folder: Path, orders: Path) -> deadlines.Timely:
    return deadlines.judge_deadlines(life, _loaded(str(folder)), _loaded_orders(str(orders)))


@lru_cache(maxsize=1)
def _loaded(folder: str) -> Catalogue:
    return Catalogue.load(Path(folder))


def _source(life: Life) -> Source | str:
    try:
        return read_source(life)
    except HistoryError as error:
        return str(error)


def _examine(life: Life, folder: Path) -> tuple[Examined, int]:
    from unisono.pipeline.audit import memory_mib

    return examine(life, _loaded(str(folder))), memory_mib()


def _edges(life: Life, folder: Path, windows: Ints, causes: bool) -> Ints:
    return witness.edges(life, _loaded(str(folder)), windows, causes=causes)


def _descents(life: Life, folder: Path, causes: bool) -> Ints:
    return witness.descents(life, _loaded(str(folder)), causes=causes)


def _tangle(life: Life, folder: Path, windows: Ints, records_max: int) -> list[tuple[Row, Record]] | int:
    return witness.tangle(life, _loaded(str(folder)), windows, records_max)
