"""What a history may be: well-formed records, and files of JSON lines that say where they are wrong."""

from __future__ import annotations

import pytest
from history_builder import Run

from unisono.history import History, Kind, Record, judge, read_history, write_history
from unisono.model.errors import HistoryError


def run() -> Run:
    return Run().subscribe("alice", "T1").publish("a/0/1", "T1", 1, {"T1": 1}, epoch=2).see("alice", "a/0/1")


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "history.jsonl"
    write_history(path, run().records)
    assert read_history(path) == run().records
    assert path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"kind": "invented", "process": "p", "seq": 1, "at": 0}', '{"kind": "held"}', "\udcff"],
)
def test_an_unreadable_line_is_named(tmp_path, line):
    path = tmp_path / "history.jsonl"
    write_history(path, run().records)
    path.write_bytes(path.read_bytes() + b"\n" + line.encode("utf-8", "surrogateescape"))
    with pytest.raises(HistoryError, match=r"history\.jsonl, line 5: not a history record"):
        read_history(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(HistoryError, match=r"nowhere cannot be read"):
        read_history(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (Record(Kind.HELD, "alice", 2, 0.0), "process 'alice', seq 2: follows 2; seq must increase"),
        (Record("invented", "alice", 3, 0.0), "'invented' is not a kind"),
        (
            Record(Kind.DELIVERED, "bob", 1, 0.0, "a/0/1", "T1"),
            "process 'bob', seq 1: 'delivered' on topic 'T1'",
        ),
        (Record(Kind.UNSUBSCRIBED, "bob", 1, 0.0, topic="T1"), "never subscribed"),
        (Record(Kind.DELIVERED, "alice", 3, 0.0, "a1", "T1"), "event 'a1' is not publisher/incarnation/n"),
        (Record(Kind.SUBSCRIBED, "alice", 3, 0.0, topic="T2", order="fifo"), "a subscription has one order"),
        (Record(Kind.SUBSCRIBED, "bob", 1, 0.0, topic="T2", order="best"), "order 'best' is not one of none"),
    ],
)
def test_what_no_run_can_have_written_is_refused(record, fault):
    with pytest.raises(HistoryError, match=fault):
        History([*run().records, record])


def test_a_promise_that_does_not_exist_is_refused():
    with pytest.raises(HistoryError, match="'luck' is not a promise; the promises are no_creation"):
        judge([], ["luck"])


def test_promises_are_judged_in_the_order_asked():
    verdicts = judge(run().records, ["tags", "no_creation"])
    assert [v.promise for v in verdicts] == ["tags", "no_creation"]
