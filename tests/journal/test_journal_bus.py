"""A bus that keeps a journal: the same history as in a list, the same verdicts, and never in the way."""

import asyncio

import msgspec
import pytest
from journal_kit import happens

import unisono
from unisono.history import Kind, Outcome, Record, judge
from unisono.journal import read_journal, read_records, scan
from unisono.journal import writer as writers
from unisono.journal.options import Journal
from unisono.model.errors import ConfigError, JournalError
from unisono.runtime.recorder import JournalRecorder, ListRecorder


class Both:
    """Two recorders that are told the same."""

    def __init__(self, *recorders):
        self.recorders = recorders

    def __getattr__(self, name):
        def tell(*args, **fields):
            for recorder in self.recorders:
                getattr(recorder, name)(*args, **fields)

        return tell

    async def close(self):
        for recorder in self.recorders:
            await recorder.close()


async def life(bus, events=300):
    """Some of everything: batches and single events, several subscriptions, answers to what was delivered."""
    topics = ["a", "b", "c"]

    @bus.on("a", "b", order="total_causal")
    async def answer(event):
        if event.topic == "a":
            bus.publish_nowait("b", b"answer")

    async with bus:
        async with (
            bus.subscribe(*topics, order="total") as one,
            bus.subscribe("a", "c", order="total", queue=40, slow="drop") as slow,
            bus.subscribe("b", order="none") as plain,
        ):
            for start in range(0, events, 50):
                await bus.publish_many((topics[i % 3], b"%d" % i) for i in range(start, start + 50))
                await bus.publish("a", b"alone")
                async for _ in one:
                    if one.waiting == 0:
                        break
            async for batch in plain.batches(limit=7):
                if not plain.waiting or not batch:
                    break
            while slow.waiting:
                await slow.get_one(timeout=5)
        await bus.drain()


def without_times(records):
    return [msgspec.structs.replace(r, at=0.0) for r in records]


def test_a_journal_is_the_history_and_has_its_verdicts(tmp_path):
    listed: list[Record] = []
    bus = unisono.connect("memory://", name="me")
    bus._recorder = Both(ListRecorder("me", listed), JournalRecorder("me", tmp_path))
    asyncio.run(life(bus))
    read = read_records(tmp_path)
    assert scan(tmp_path).problems == []
    assert len(listed) > 1500
    assert without_times(read) == without_times(listed)
    assert {r.kind for r in read} >= {Kind.PUBLISHED, Kind.SEQUENCED, Kind.DELIVERED, Kind.DROPPED}
    assert all(abs(a.at - b.at) < 1.0 for a, b in zip(read, listed, strict=True))
    assert judge(read) == judge(listed)


def test_connect_takes_a_folder(tmp_path):
    asyncio.run(life(unisono.connect(name="me.too", journal=tmp_path / "journal")))
    contents = scan(tmp_path / "journal")
    assert contents.problems == []
    assert {segment.label.process for segment in contents.segments} == {"me.too"}
    assert all(verdict.outcome is not Outcome.VIOLATED for verdict in judge(read_records(contents)))
    for table in read_journal(contents):
        rows = table.select(["kind", "at", "published_at", "body"]).to_pylist()
        assert all((r["published_at"] is not None) == (r["kind"] == "delivered") for r in rows)
        assert all(r["at"] >= r["published_at"] for r in rows if r["published_at"] is not None)
        assert all(r["body"] is None for r in rows)


def test_connect_takes_a_journal_with_options(tmp_path):
    asyncio.run(life(unisono.connect(journal=Journal(tmp_path, rows_max=500, payloads=True, fsync=True))))
    contents = scan(tmp_path)
    assert contents.problems == []
    assert {segment.rows for segment in contents.segments[:-1]} == {500}
    bodies = {body for table in read_journal(contents) for body in table.column("body").to_pylist()}
    assert {b"alone", b"answer", b"0", None} <= bodies


def test_a_journal_is_read_while_the_bus_runs(tmp_path):
    async def scenario():
        async with unisono.connect(name="me", journal=Journal(tmp_path, seconds_max=0.05)) as bus:
            await bus.publish("t", b"x")
            await happens(lambda: scan(tmp_path).segments)
            assert next(r.kind for r in read_records(tmp_path)) is Kind.PUBLISHED
            assert [p.trouble for p in scan(tmp_path).problems] == ["tail"]

    asyncio.run(scenario())
    assert scan(tmp_path).problems == []


@pytest.mark.parametrize("journal", [7, "", b"folder"])
def test_a_journal_that_is_none_is_refused(journal):
    with pytest.raises(ConfigError, match="journal= takes a folder"):
        unisono.connect(journal=journal)


def test_record_and_journal_are_one_too_many(tmp_path):
    with pytest.raises(ConfigError, match="choose one"):
        unisono.connect(journal=tmp_path, record=[])


def test_a_folder_that_cannot_be_written_is_refused_when_the_bus_opens(tmp_path):
    (tmp_path / "file").write_text("")

    async def scenario():
        with pytest.raises(JournalError, match="cannot keep a journal"):
            async with unisono.connect(journal=tmp_path / "file"):
                pass

    asyncio.run(scenario())


def test_a_full_disk_is_reported_and_the_bus_goes_on(tmp_path, monkeypatch, caplog):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unisono.journal.spool.write_segment", full)
    monkeypatch.setattr(writers, "RETRY_S", 0.01)

    async def scenario():
        bus = unisono.connect(name="me", journal=Journal(tmp_path, rows_max=1))
        async with bus, bus.subscribe("t") as events:
            await bus.publish("t", b"x")
            await happens(lambda: bus.errors)
            await bus.publish("t", b"y")
            assert [(await events.get_one(timeout=5)).data for _ in range(2)] == [b"x", b"y"]
        return list(bus.errors)

    errors = asyncio.run(scenario())
    assert all(isinstance(error, JournalError) for error in errors)
    assert "No space left on device; make room there" in str(errors[0])
    assert "rows are lost" in str(errors[-1])
    assert "No space left" in caplog.text
