"""Live on Spark: buses that keep journals, a watch beside them; and frames of records judged by the same kernel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import unisono
from unisono.journal.options import Journal
from unisono.pipeline.audit import audit
from unisono.pipeline.frames import certify_frame
from unisono.pipeline.plan_journal import read_journal
from unisono.pipeline.session import open_session
from unisono.pipeline.synth import synthesize
from unisono.pipeline.watch import Watch, progress_of
from unisono.pipeline.watch_ledger import Ledger, Notice, Page
from unisono.testing.planted_bugs.journals import SwappedDeliveries

SHAPE = {"topics": 6, "subscribers": 4, "each": 3, "publishers": 3, "segment_rows": 300}
TOPICS = ("orders", "payments")
TOLD_S_MAX = 60.0  # a busy machine is no broken promise; `make watch-campaign` holds it to 10 s
BOUND_S = 120.0


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


@pytest.mark.parametrize("plant", ["", "swap"])
def test_groups_of_a_frame_are_judged_as_segments_are(plant: str, spark, tmp_path: Path) -> None:
    made = synthesize(tmp_path / "journal", 4000, plant=plant, **SHAPE)
    mixed = read_journal(spark, tmp_path / "journal").orderBy("n", "topic")  # as nobody recorded it
    result = certify_frame(mixed)
    expected = audit(tmp_path / "journal", mode="certificate")
    assert result.deliveries == made.deliveries
    assert {f.promise for f in result.found} == {
        j.promise for j in expected.promises if j.verdict == "violated"
    }
    assert result.checked["tags"] == next(j.checked for j in expected.promises if j.promise == "tags")


class Desk:
    """A publisher and three subscribers on one bus service, each with a journal; the last can be made to err."""

    def __init__(self, url: str, journal: Path) -> None:
        kept = Journal(journal, seconds_max=0.3)
        names = ("publisher", "alice", "bob", "carol")
        self.buses = {name: unisono.connect(url, name=name, journal=kept) for name in names}
        self.err = SwappedDeliveries(self.buses["carol"])
        self.published = 0

    async def run(self, until: asyncio.Event) -> None:
        """Publish and take until told to end."""
        async with asyncio.TaskGroup() as tasks:
            for name in ("alice", "bob", "carol"):
                await self.buses[name].__aenter__()
                subscription = self.buses[name].subscribe(*TOPICS)
                await subscription.open()
                tasks.create_task(self._take(subscription))
            async with self.buses["publisher"] as bus:
                while not until.is_set():
                    for topic in TOPICS:
                        await bus.publish(topic, {"n": self.published})
                        self.published += 1
                    await asyncio.sleep(0.002)
            for name in ("alice", "bob", "carol"):
                await self.buses[name].__aexit__(None, None, None)

    async def _take(self, subscription) -> None:
        async for _ in subscription:
            pass


@contextmanager
def watching(
    spark, folder: Path, told: list[tuple[float, Notice]], judged=lambda page: None
) -> Iterator[Watch]:
    with Ledger(folder / "checkpoint", folder / "journal").opened() as ledger:
        watch = Watch(spark, ledger, lambda n: told.append((time.time(), n)), judged)
        try:
            yield watch
        finally:
            watch.stop()


def judge(watch: Watch, done) -> None:
    end = time.monotonic() + BOUND_S
    watch.run(lambda: done() or time.monotonic() > end)
    assert done(), progress_of(watch.ledger.page)


def test_a_swap_in_a_live_run_is_told_within_seconds_and_once_over_a_restart(spark, tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    told: list[tuple[float, Notice]] = []
    fails = iter([True])

    def fail_once(page: Page) -> None:
        if next(fails, False):
            raise RuntimeError("a query that fails is begun again")

    async def scenario() -> None:
        desk, end = Desk(f"memory://{tmp_path.name}", tmp_path / "journal"), asyncio.Event()
        running = asyncio.create_task(desk.run(end))
        with watching(spark, tmp_path, told, fail_once) as watch:
            clean = lambda: progress_of(watch.ledger.page).deliveries > 1000  # noqa: E731
            await asyncio.to_thread(judge, watch, clean)
            assert not told
            desk.err.arm()
            await asyncio.to_thread(judge, watch, lambda: bool(told))
        with watching(spark, tmp_path, told) as watch:  # goes on from its checkpoint
            before = progress_of(watch.ledger.page).deliveries
            more = lambda: progress_of(watch.ledger.page).deliveries > before + 500  # noqa: E731
            await asyncio.to_thread(judge, watch, more)
            end.set()
            await running
            there = watch.there_now()
            await asyncio.to_thread(judge, watch, lambda: watch.has_judged(there))
            ended = progress_of(watch.ledger.page)
        assert (ended.verdict, ended.violations) == ("violated", 1)
        assert ended.deliveries == 3 * desk.published
        assert ended.forgotten == 0

    asyncio.run(scenario())
    ((when, violation),) = told
    assert violation.what == "violation"
    assert violation.promise == "tags"
    assert violation.subscription == "carol[carol.1]"
    happened = max(row["record"]["at"] for row in violation.rows)
    assert 0 < when - happened < TOLD_S_MAX
    expected = audit(tmp_path / "journal", mode="certificate").violations
    assert [violation.explanation] == [v.explanation for v in expected]
    assert [v.also for v in expected] == [violation.also]
