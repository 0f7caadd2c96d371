"""Records become columns and come back the same."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from journal_kit import histories

from unisono.history import Kind, Record
from unisono.journal import read_records, records_of, table_of, write_records
from unisono.journal.schema import SCHEMA, layout_of, topics_of
from unisono.journal.segments import folder_name, process_name
from unisono.model.errors import HistoryError, JournalError


@settings(deadline=None)  # the first conversion loads libraries
@given(histories())
def test_a_history_survives_the_columns(records):
    table = table_of(records)
    assert table.schema == SCHEMA
    assert records_of(table) == records


@pytest.mark.parametrize("event", ["x", "x/1", "x/01/2", "x/1/two", "/", "x/1/ 2"])
def test_an_id_that_is_none_is_refused_by_name(event):
    with pytest.raises(HistoryError, match=r"process 'p', seq 4: event .* is not publisher/incarnation/n"):
        table_of([Record(Kind.PUBLISHED, "p", 4, 0.0, event)])


@pytest.mark.parametrize("topics", [{"a b": 1}, {"": 1}])
def test_a_stamp_that_the_layout_cannot_hold_is_refused(topics):
    with pytest.raises(HistoryError, match="no topic is empty or has a space"):
        table_of([Record(Kind.SEQUENCED, "p", 1, 0.0, "x/1/1", "a", 1, topics)])


def test_a_number_that_is_too_big_is_refused():
    with pytest.raises(HistoryError, match="no column holds"):
        table_of([Record(Kind.LOST, "p", 1, 0.0, topic="a", number=2**63)])


def test_a_row_that_is_no_record_is_named():
    table = table_of([Record(Kind.LOST, "p", 9, 0.0, topic="a", number=1)])
    broken = table.set_column(0, SCHEMA.field(0), pa.array(["sung"], SCHEMA.field(0).type))
    with pytest.raises(HistoryError, match="process 'p', seq 9: not a record"):
        records_of(broken)


def test_only_deliveries_know_when_they_were_published():
    records = [Record(kind, "p", i + 1, 5.0, "x/1/1", "a") for i, kind in enumerate(Kind)]
    table = table_of(records, {"x/1/1": 4.5})
    times = dict(zip(table.column("kind").to_pylist(), table.column("published_at").to_pylist(), strict=True))
    assert times.pop("delivered") == 4.5
    assert set(times.values()) == {None}


def test_deadlines_and_causes_survive_the_columns():
    records = [
        Record(Kind.SUBSCRIBED, "p", 1, 0.0, topic="a", order="causal", on_gap="skip", deadline=0.5),
        Record(Kind.PUBLISHED, "p", 2, 5.0, "p/1/1", "a", deadline=5.5),
        Record(Kind.TOLD, "p", 3, 5.0, "p/1/1", "a", 9, {"p-1/a": 7, "q-2/b": 8}, deadline=5.5),
        Record(Kind.DROPPED, "p", 4, 5.6, "q/1/1", "a", reason="too late", deadline=5.5),
    ]
    assert records_of(table_of(records)) == records


def test_segments_of_older_releases_know_no_deadlines(tmp_path):
    write_records(tmp_path, [Record(Kind.PUBLISHED, "p", 1, 5.0, "p/1/1", "a", deadline=5.5)])
    path = next(tmp_path.rglob("*.parquet"))
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["deadline"]), path)
    problems = []
    assert [record.deadline for record in read_records(tmp_path, problems=problems)] == [None]
    assert not problems


@pytest.mark.parametrize("topics", [[], ["a"], ["b", "a,c"], ["x.y", "x"]])
def test_a_layout_names_its_topics(topics):
    assert topics_of(layout_of(topics)) == sorted(topics)


@pytest.mark.parametrize("name", ["p", "a/b", "..", ".hidden", "_spark", "a=b", "ü %2F", "C:\\x"])
def test_every_process_has_a_folder_of_its_own(name):
    folder = folder_name(name)
    assert process_name(folder) == name
    assert folder[0] not in "._"
    assert not set(folder) & set("/\\=: ")


def test_a_process_without_a_name_is_refused():
    with pytest.raises(JournalError, match="without a name"):
        folder_name("")
    with pytest.raises(JournalError, match="not text"):
        folder_name("\ud800")
