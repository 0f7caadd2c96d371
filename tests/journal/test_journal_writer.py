"""Segments: full by rows, bytes or time; whole or not there; bounded in memory; honest about what is missing."""

import errno
import os
import re
import subprocess
import sys
import threading

import pyarrow.parquet as pq
import pytest
from journal_kit import deliveries, until

from unisono.journal import JournalWriter, read_journal, read_records, scan, spool, table_of
from unisono.journal.segments import folder_name
from unisono.journal.spool import Rotation, Spool
from unisono.model.errors import ClosedError, ConfigError, JournalError

CHUNK = table_of(deliveries(10))


def chunk(number, size=10):
    """The rows number * size + 1 and on of process p."""
    return table_of(deliveries(size, start=number * size + 1))


def spool_in(folder, **limits):
    made = Spool(folder, "p", "life", Rotation(**limits))
    made.open()
    return made


def rows_of_segments(folder):
    return [segment.rows for segment in scan(folder).segments]


def troubles(folder):
    return [problem.trouble for problem in scan(folder).problems]


# Rotation, with a clock that the test moves.


def test_a_segment_is_full_by_rows(tmp_path):
    it = spool_in(tmp_path, rows_max=25)
    it.add(chunk(0), 0.0)
    it.add(chunk(1), 0.0)
    assert not it.is_due(0.0)
    it.add(chunk(2), 0.0)
    assert it.is_due(0.0)
    it.cut()
    assert (it.rows, rows_of_segments(tmp_path)) == (5, [25])


def test_a_segment_is_full_by_bytes(tmp_path):
    it = spool_in(tmp_path, bytes_max=CHUNK.nbytes + 1)
    it.add(chunk(0), 0.0)
    assert not it.is_due(0.0)
    it.add(chunk(1), 0.0)
    assert it.is_due(0.0)
    it.cut()
    assert (it.rows, it.bytes, rows_of_segments(tmp_path)) == (0, 0, [20])


def test_a_segment_is_due_some_time_after_its_first_row(tmp_path):
    it = spool_in(tmp_path, seconds_max=5.0)
    assert not it.is_due(1e9)
    it.add(chunk(0), 100.0)
    it.add(chunk(1), 104.0)
    assert not it.is_due(104.9)
    assert it.due_at == 105.0
    assert it.is_due(105.0)


@pytest.mark.parametrize(
    "limits", [{"rows_max": 0}, {"bytes_max": -1}, {"seconds_max": 0.0}, {"rows_max": "9"}]
)
def test_a_limit_that_is_none_is_refused(limits):
    with pytest.raises(ConfigError, match="needs a limit above 0"):
        Rotation(**limits)


# The writer.


def test_everything_is_there_in_order_after_a_good_end(tmp_path):
    with JournalWriter(tmp_path, "p", rows_max=64) as writer:
        for i in range(50):
            assert writer.append(chunk(i))
    assert rows_of_segments(tmp_path) == [64] * 7 + [52]
    assert scan(tmp_path).problems == []
    assert [r.seq for r in read_records(tmp_path)] == list(range(1, 501))
    assert (writer.rows, writer.dropped, writer.error) == (500, 0, None)


def test_a_life_in_which_nothing_happened_says_so(tmp_path):
    JournalWriter(tmp_path, "p").close()
    assert rows_of_segments(tmp_path) == [0]
    assert scan(tmp_path).problems == []


def test_a_segment_describes_itself(tmp_path):
    with JournalWriter(tmp_path, "a/b", life="first") as writer:
        writer.append(CHUNK)
    (segment,) = scan(tmp_path).segments
    assert segment.path == tmp_path / "a%2Fb" / "first" / "00000000.parquet"
    metadata = {k: v for k, v in pq.read_metadata(segment.path).metadata.items() if k.startswith(b"unisono")}
    assert metadata == {
        b"unisono.journal.version": b"1",
        b"unisono.journal.process": b"a/b",
        b"unisono.journal.life": b"first",
        b"unisono.journal.segment": b"0",
        b"unisono.journal.last": b"1",
        b"unisono.journal.dropped": b"0",
    }


def test_a_journal_is_read_while_it_is_written(tmp_path):
    with JournalWriter(tmp_path, "p", rows_max=7, fsync=True) as writer:
        for i in range(5):
            writer.append(chunk(i))
            writer.flush()
            assert [r.seq for r in read_records(tmp_path)] == list(range(1, 10 * i + 11))
            (tail,) = scan(tmp_path).problems
            assert tail.trouble == "tail"
            assert f"still runs, or ended in a crash: what it did after seq {10 * i + 10} may" in tail.reason


def test_rows_come_into_view_by_themselves_after_a_while(tmp_path):
    with JournalWriter(tmp_path, "p", seconds_max=0.05) as writer:
        writer.append(CHUNK)
        until(lambda: rows_of_segments(tmp_path) == [10])


def test_payloads_are_left_out_unless_asked_for(tmp_path):
    with_body = CHUNK.set_column(
        CHUNK.num_columns - 1, CHUNK.schema.field("body"), [[b"secret"] * CHUNK.num_rows]
    )
    for process, payloads in (("quiet", False), ("chatty", True)):
        with JournalWriter(tmp_path, process, payloads=payloads) as writer:
            writer.append(with_body)
    chatty, quiet = (table.column("body").to_pylist() for table in read_journal(tmp_path))
    assert (quiet, chatty) == ([None] * 10, [b"secret"] * 10)


def test_a_life_is_lived_once(tmp_path):
    JournalWriter(tmp_path, "p", life="x").close()
    with pytest.raises(JournalError, match="already had a life 'x'"):
        JournalWriter(tmp_path, "p", life="x")


def test_a_closed_writer_takes_nothing(tmp_path):
    writer = JournalWriter(tmp_path, "p")
    writer.close()
    writer.close()
    with pytest.raises(ClosedError):
        writer.append(CHUNK)


# Slow disks, full disks, no disks.


@pytest.fixture
def disk(monkeypatch):
    """A disk that can be stopped, or filled."""

    class Disk:
        free = threading.Event()
        full = False
        write = staticmethod(spool.write_segment)

        def __call__(self, *args, **options):
            assert self.free.wait(60)
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.write(*args, **options)

    made = Disk()
    made.free = threading.Event()
    made.free.set()
    monkeypatch.setattr(spool, "write_segment", made)
    return made


def test_a_slow_disk_costs_rows_not_memory_and_the_reader_is_told(tmp_path, disk):
    disk.free.clear()
    limit = 4 * CHUNK.nbytes
    writer = JournalWriter(tmp_path, "p", rows_max=10, queue_bytes_max=limit)
    taken = []
    for i in range(100):
        taken.append(writer.append(chunk(i)))
        assert writer.waiting_bytes <= limit + CHUNK.nbytes
    assert 4 <= sum(taken) <= 7  # the queue, the spool, and what was under way
    assert writer.dropped == 10 * taken.count(False)
    disk.free.set()
    writer.flush()
    assert writer.append(chunk(100))
    writer.close()
    assert sum(rows_of_segments(tmp_path)) == 10 * (sum(taken) + 1) == writer.rows
    gaps = scan(tmp_path).problems
    assert {gap.trouble for gap in gaps} == {"gap"}
    assert all(gap.reason.endswith("the disk was too slow or full") for gap in gaps)
    lacking = [int(re.search(r"lacks (\d+) rows after seq", gap.reason)[1]) for gap in gaps]
    assert sum(lacking) == writer.dropped


def test_rows_dropped_at_the_very_end_are_missed_too(tmp_path, disk):
    disk.free.clear()
    writer = JournalWriter(tmp_path, "p", rows_max=10, queue_bytes_max=1)
    taken = [writer.append(chunk(i)) for i in range(20)]
    disk.free.set()
    writer.close()
    gaps = [problem.reason for problem in scan(tmp_path).problems]
    assert "lacks its last" in gaps[-1]
    assert sum(int(re.search(r"lacks (?:its last )?(\d+) rows", gap)[1]) for gap in gaps) == writer.dropped
    assert writer.dropped == 10 * taken.count(False) > 0


def test_who_can_wait_loses_nothing(tmp_path, disk):
    disk.free.clear()
    writer = JournalWriter(tmp_path, "p", rows_max=10, queue_bytes_max=1, wait=True)
    feeder = threading.Thread(target=lambda: [writer.append(chunk(i)) for i in range(20)])
    feeder.start()
    feeder.join(0.1)
    assert feeder.is_alive()
    disk.free.set()
    feeder.join(20)
    writer.close()
    assert (writer.rows, writer.dropped, troubles(tmp_path)) == (200, 0, [])


def test_a_full_disk_is_reported_once_and_used_again_when_there_is_room(tmp_path, disk, monkeypatch):
    monkeypatch.setattr("unisono.journal.writer.RETRY_S", 0.01)
    told = []
    disk.full = True
    writer = JournalWriter(tmp_path, "p", rows_max=10, on_error=told.append)
    writer.append(chunk(0))
    with pytest.raises(
        JournalError, match=r"cannot write the journal in .* No space left on device; make room"
    ):
        writer.flush()
    writer.append(chunk(1))
    disk.full = False
    until(lambda: writer.rows == 20)
    assert writer.error is None
    writer.close()
    assert len(told) == 1
    assert troubles(tmp_path) == []


def test_a_disk_that_stays_full_makes_closing_fail_by_name(tmp_path, disk):
    disk.full = True
    writer = JournalWriter(tmp_path, "p", on_error=lambda error: None)
    writer.append(chunk(0))
    with pytest.raises(JournalError, match="No space left on device"):
        writer.close()
    assert (writer.rows, writer.dropped) == (0, 10)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_really_full(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        writer = JournalWriter(small, "p", rows_max=10, on_error=lambda error: None)
        for i in range(200):
            writer.append(chunk(i))
        with pytest.raises(JournalError, match="No space left on device"):
            writer.close()
        assert list(small.rglob("*.tmp")) == []
        assert troubles(small) == ["tail"]
        assert [r.seq for r in read_records(small)] == list(range(1, writer.rows + 1))
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_folder_that_cannot_be_one_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match=r"cannot keep a journal in .*; choose another folder"):
        JournalWriter(tmp_path / "file", "p")
    with pytest.raises(JournalError, match="File name too long"):
        JournalWriter(tmp_path, "p" * 300)


KILLED = """
import os, signal, sys
from unisono.journal import JournalWriter, table_of
from journal_kit import deliveries
writer = JournalWriter(sys.argv[1], "p", rows_max=50)
for i in range(10_000):
    writer.append(table_of(deliveries(10, start=10 * i + 1)))
    if writer.rows >= 500:
        print(writer.rows, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_whole_segments_and_the_reader_says_what_may_be_missing(tmp_path):
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -9, done.stderr
    (tmp_path / folder_name("p") / "life" / "x").parent.mkdir()  # a life that had not begun to write
    records = read_records(tmp_path)
    assert len(records) >= int(done.stdout)
    assert [r.seq for r in records] == list(range(1, len(records) + 1))
    (tail,) = scan(tmp_path).problems
    assert tail.trouble == "tail"
    assert f"after seq {len(records)} may be missing" in tail.reason
