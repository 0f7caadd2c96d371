"""Whatever lies in a journal's folder is read or named, with a reason; nothing makes a reader stumble."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from journal_kit import deliveries, histories

from unisono.history import History, Kind, Record, judge
from unisono.journal import JournalWriter, Problem, read_journal, read_records, scan, table_of, write_records
from unisono.journal.schema import SCHEMA
from unisono.journal.segments import folder_name
from unisono.model.errors import JournalError


@pytest.fixture
def journal(tmp_path):
    """Five segments of 20 rows."""
    write_records(tmp_path, deliveries(100), rows_max=20)
    return tmp_path


def segment(folder, number):
    return folder / "p" / "0" / f"{number:08d}.parquet"


def the_problem(folder, trouble):
    (found,) = [p for p in scan(folder).problems if p.trouble == trouble]
    return found


def rewrite(path, metadata=None, **changes):
    table = pq.read_table(path, partitioning=None)
    for name in changes:
        table = table.drop_columns([name])
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **(metadata or {})}), path)


def test_nothing_is_wrong_with_a_whole_journal(journal):
    contents = scan(journal)
    assert contents.problems == []
    assert [(s.label.number, s.rows, s.first_seq, s.last_seq) for s in contents.segments] == [
        (i, 20, 20 * i + 1, 20 * i + 20) for i in range(5)
    ]
    assert [s.label.is_last for s in contents.segments] == [False] * 4 + [True]
    assert read_records(journal) == deliveries(100)


def test_there_must_be_a_folder(tmp_path):
    with pytest.raises(JournalError, match="there is no journal in"):
        scan(tmp_path / "nowhere")
    assert scan(tmp_path).segments == scan(tmp_path).problems == []


def test_an_empty_file_is_left_out(journal):
    segment(journal, 4).write_bytes(b"")
    assert the_problem(journal, "empty").reason == "00000004.parquet is left out: it has no bytes"
    assert the_problem(journal, "tail")


@pytest.mark.parametrize(
    "harm", [lambda b: b[:-100], lambda b: b"PAR1" + b[4:-4] + b"xxxx", lambda b: b"hello"]
)
def test_a_broken_file_is_left_out_and_missed(journal, harm):
    path = segment(journal, 2)
    path.write_bytes(harm(path.read_bytes()))
    assert "not a whole Parquet file" in the_problem(journal, "corrupt").reason
    gap = the_problem(journal, "gap").reason
    assert gap.endswith("lacks segment 2: what it did after seq 40 and before seq 61 is missing")
    assert len(read_records(journal)) == 80


def test_damage_between_the_ends_of_a_file_is_found_while_reading(journal):
    path = segment(journal, 1)
    body = bytearray(path.read_bytes())
    body[4:600] = bytes(596)
    path.write_bytes(body)
    problems = []
    assert len(read_records(journal, problems=problems)) == 80
    assert [(p.trouble, p.path) for p in problems] == [("corrupt", path)]
    assert "its rows cannot be read" in problems[0].reason


def test_a_foreign_file_is_left_out(journal):
    pq.write_table(pa.table({"x": [1]}), journal / "p" / "stranger.parquet")
    assert "no journal wrote it" in the_problem(journal, "foreign").reason
    assert len(read_records(journal)) == 100


def test_a_file_without_a_column_is_left_out(journal):
    rewrite(segment(journal, 0), number=None)
    assert "lacks the column 'number'" in the_problem(journal, "foreign").reason


def test_a_newer_schema_is_left_out(journal):
    rewrite(segment(journal, 0), {b"unisono.journal.version": b"2"})
    assert "version 2 and this reader knows 1; upgrade" in the_problem(journal, "newer").reason


def test_metadata_that_is_nonsense_is_foreign(journal):
    rewrite(segment(journal, 0), {b"unisono.journal.segment": b"first"})
    assert the_problem(journal, "foreign")


def test_a_copy_is_read_once(journal):
    (journal / "copy.parquet").write_bytes(segment(journal, 3).read_bytes())
    assert "same segment as" in the_problem(journal, "copy").reason
    assert len(read_records(journal)) == 100


def test_missing_segments_are_a_gap(journal):
    segment(journal, 1).unlink()
    segment(journal, 2).unlink()
    reason = the_problem(journal, "gap").reason
    assert reason.endswith("lacks the segments 1 to 2: what it did after seq 20 and before seq 61 is missing")


def test_what_is_hidden_is_not_looked_at(journal):
    (journal / "p" / "0" / ".00000005.parquet.tmp").write_bytes(b"half")
    (journal / "_spark_metadata").mkdir()
    (journal / "_spark_metadata" / "x.parquet").write_bytes(b"")
    assert scan(journal).problems == []


def test_plain_strings_from_another_writer_are_read_too(journal):
    for number in range(5):
        path = segment(journal, number)
        table = pq.read_table(path, partitioning=None)
        plain = pa.schema([f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in SCHEMA])
        pq.write_table(
            table.cast(plain).replace_schema_metadata(table.schema.metadata),
            path,
            write_statistics=False,
        )
    assert scan(journal).problems == []
    assert read_records(journal) == deliveries(100)


def test_some_columns_are_enough(journal):
    (first, *_) = read_journal(journal, columns=["seq", "kind"])
    assert first.schema.names == ["seq", "kind"]


def test_a_second_life_goes_on_counting(tmp_path):
    for life in ("1", "2", "3"):
        with JournalWriter(tmp_path, "p", life=life) as writer:
            writer.append(table_of(deliveries(10)))
    records = read_records(tmp_path)
    assert [r.seq for r in records] == list(range(1, 31))
    assert History(records).processes.keys() == {"p"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(histories())
def test_any_history_survives_the_disk(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("journal")
    write_records(folder, records, rows_max=3)
    problems: list[Problem] = []
    found = read_records(folder, problems=problems)
    by_process = {r.process: [x for x in records if x.process == r.process] for r in records}
    assert found == [r for process in sorted(by_process) for r in by_process[process]]
    assert {p.trouble for p in problems} <= {"gap"}  # the histories are not dense


def test_deliveries_of_a_simulated_run_know_when_their_event_was_published(tmp_path):
    records = [
        Record(Kind.PUBLISHED, "x", 1, 3.5, "x/1/1", "t"),
        *deliveries(2),
    ]
    write_records(tmp_path, records)
    published = [t.column("published_at").to_pylist() for t in read_journal(tmp_path)]
    assert published == [[None, 3.5], [None]]
    assert {segment.label.process for segment in scan(tmp_path).segments} == {"p", "x"}
    assert folder_name("p") in {path.name for path in tmp_path.iterdir()}
    assert judge(read_records(tmp_path)) == judge(sorted(records, key=lambda r: r.process))
