"""What is noted on a tape comes off it: same events, same stamps, same order as the records say."""

import pytest
from journal_kit import run_of

from unisono.history import Kind
from unisono.journal import records_of
from unisono.journal import tape as tapes
from unisono.journal.tape import Tape
from unisono.model.event import Event
from unisono.model.frames import Publication
from unisono.model.runs import bundle_of
from unisono.model.runs import run_of as open_bundle

TOGETHER = dict.fromkeys("abc", ("a", "b", "c"))
APART = {"a": ("a", "c"), "b": ("b",), "c": ("a", "c"), "d": ("d", "e")}


class Cut:
    def __init__(self, **options):
        self.parts = []
        self.tape = Tape("me", self.parts.append, clock=lambda: 50.0, **options)

    def table(self):
        self.tape.cut()
        return [part.to_table() for part in self.parts]

    def records(self):
        return [record for table in self.table() for record in records_of(table)]


def views(run):
    return [Event(p, run, i) for i, p in enumerate(run.publications)]


@pytest.mark.parametrize("groups", [TOGETHER, APART], ids=["together", "apart"])
@pytest.mark.parametrize("events", [1, 5, 23, 24, 300])
def test_the_stamps_of_a_run_are_the_ones_it_has(events, groups):
    run, cut = run_of(events, groups), Cut()
    cut.tape.sequenced(run)
    records = cut.records()
    assert [r.stamp for r in records] == [run.entries(i) for i in range(events)]
    assert [r.event for r in records] == [str(p.id) for p in run.publications]
    assert [r.number for r in records] == [run.entries(i)[p.topic] for i, p in enumerate(run.publications)]
    assert {r.epoch for r in records} == {3}


@pytest.mark.parametrize("events", [3, 200])
def test_deliveries_one_by_one_and_at_once_are_the_same(events):
    run, one, many = run_of(events, APART), Cut(), Cut()
    some = views(run)[::2]
    for event in some:
        one.tape.delivered("s", event)
    many.tape.delivered_many("s", some)
    assert one.records() == many.records()
    assert [r.stamp for r in one.records()] == [event.stamp for event in some]
    assert one.table()[0].column("published_at").to_pylist() == [event.published_at for event in some]


def test_the_order_of_a_process_is_the_order_in_which_it_happened():
    run, cut = run_of(30, TOGETHER), Cut()
    events, wanted = views(run), []
    for i, event in enumerate(events):
        cut.tape.delivered("s" if i % 3 else "r", event)
        wanted.append((Kind.DELIVERED, event.id))
        if i % 2:
            cut.tape.published(event._publication)
            wanted.append((Kind.PUBLISHED, event.id))
        if i % 7 == 0:
            cut.tape.note(Kind.DROPPED, "s", event=event.id, topic=event.topic, number=4, reason="slow")
            wanted.append((Kind.DROPPED, event.id))
    records = cut.records()
    assert [(r.kind, r.event) for r in records] == wanted
    assert [r.seq for r in records] == list(range(1, len(wanted) + 1))
    assert {r.reason for r in records if r.kind is Kind.DROPPED} == {"slow"}


def test_events_that_came_alone_keep_their_stamp_their_tag_and_their_epoch():
    """Without the epoch, one that came alone after a bundle of the same epoch looked like one of the past."""
    publication, cut = run_of(1, TOGETHER).publications[0], Cut()
    cut.tape.delivered("s", Event(publication, {"a": 5, "z": 9}, in_order=False, _epoch=3))
    cut.tape.delivered("s", Event(publication, None))
    tagged, plain = cut.records()
    assert (tagged.in_order, tagged.stamp, tagged.number) == (False, {"a": 5, "z": 9}, 5)
    assert (tagged.epoch, plain.epoch) == (3, 0)
    assert (plain.in_order, plain.stamp, plain.number) == (True, None, 0)


def test_a_tape_cuts_itself_before_it_is_long(monkeypatch):
    monkeypatch.setattr(tapes, "ROWS_MAX", 40)
    monkeypatch.setattr(tapes, "SPAN_MAX", 16)
    run, cut = run_of(30, TOGETHER), Cut()
    for event in views(run) * 10:
        cut.tape.delivered("s", event)
    assert [len(part.at) for part in cut.parts][:2]
    assert all(part.num_rows < 80 for part in cut.parts)
    records = cut.records()
    assert [r.stamp for r in records] == [run.entries(i) for i in range(30)] * 10
    assert [r.seq for r in records] == list(range(1, 301))


def test_publications_are_let_go_after_so_many(monkeypatch):
    monkeypatch.setattr(tapes, "EVENTS_MAX", 10)
    cut, run = Cut(), run_of(35, TOGETHER)
    for publication in run.publications:
        cut.tape.published(publication)
    assert [part.num_rows for part in cut.parts] == [10, 10, 10]
    assert [r.event for r in cut.records()] == [str(p.id) for p in run.publications]


@pytest.mark.parametrize("payloads", [False, True])
def test_payloads_are_recorded_once_and_only_if_asked_for(payloads):
    run, cut = run_of(2, TOGETHER), Cut(payloads=payloads)
    cut.tape.delivered("s", views(run)[0])
    cut.tape.published(run.publications[1])
    assert cut.table()[0].column("body").to_pylist() == [None, b"body" if payloads else None]


@pytest.mark.parametrize("events", [6, 300])
def test_the_stamps_of_a_part_of_a_bundle_count_the_other_parts(events):
    """Found by the demo's audit: two subscribers of different parts had different stamps of one event."""
    publications = [Publication("p", 1, n + 1, "ab"[n % 2], b"", 0, 1.0, n + 1) for n in range(events)]
    bundle = bundle_of(publications, 1, 1, {})
    whole = bundle.stamped(3, "n", 1, {"a": 4, "b": 9})
    stamps = {str(event.publication.id): event.entries for event in open_bundle(whole).events()}
    for piece in whole.pieces():
        run, cut = open_bundle(piece), Cut()
        cut.tape.delivered_many("s", views(run))
        records = [r for r in cut.records() if r.kind is Kind.DELIVERED]
        assert len(records) == events / 2
        assert all(r.stamp == stamps[r.event] for r in records)
