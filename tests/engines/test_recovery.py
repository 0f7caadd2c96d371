"""From sealed lanes to the next epoch."""

from unisono.engines.plan import check_plan
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.recovery import recover, valid_records
from unisono.model.codec import encode_record
from unisono.model.frames import EpochNotice, Publication, Registration, Sequenced, Stamped
from unisono.model.ids import EventId
from unisono.model.lanes import BundleRecord, EpochRecord, EventRecord, JoinRecord, SealRecord
from unisono.model.runs import bundle_of


def event(index, topic, entries, n=None, epoch=0, publisher="p"):
    publication = Publication(publisher, 0, n or index, topic)
    return EventRecord(epoch, index, Stamped(publication, epoch, entries))


def join(index, subscriber, topics, reached, version=1, epoch=0):
    return JoinRecord(epoch, index, Registration(subscriber, version, topics), reached)


def test_copies_and_what_a_sealed_writer_still_stored_do_not_count():
    first, second = event(1, "T", {"T": 1}), event(2, "T", {"T": 2})
    late = event(3, "T", {"T": 3})
    lane = [first, first, second, SealRecord(1), late]
    assert list(valid_records(lane, 1)) == [first, second]
    assert list(valid_records(lane, 2)) == [first, second]


def test_a_record_behind_a_hole_does_not_count():
    assert list(valid_records([event(1, "T", {"T": 1}), event(3, "T", {"T": 3})], 1)) == [
        event(1, "T", {"T": 1})
    ]


def test_how_far_a_topic_went_is_the_largest_number_any_record_names():
    """T2 #1 died with its node, but a stamp on T1 names it: it is void, and nobody waits for it."""
    lanes = {"N1": [event(1, "T1", {"T1": 1, "T2": 1}), SealRecord(1)], "N2": [SealRecord(1)]}
    notice = recover(lanes, 1, ("T1", "T2")).notice
    assert notice.numbers == {"T1": 1, "T2": 1}
    assert notice.voids == {"T2": ((1, 1),)}


def test_a_join_counts_as_far_as_it_reached():
    lanes = {"N1": [join(1, "s", ("T1", "T2"), {"T1": 4, "T2": 2}), SealRecord(1)]}
    recovery = recover(lanes, 1, ("T1", "T2"))
    assert recovery.notice.numbers == {"T1": 4, "T2": 2}
    assert recovery.notice.voids == {"T1": ((1, 4),), "T2": ((1, 2),)}
    assert recovery.registrations == (Registration("s", 1, ("T1", "T2")),)


def test_registrations_are_sticky_within_an_epoch():
    lanes = {
        "N1": [join(1, "s", ("T1",), {"T1": 0}, version=1), SealRecord(1)],
        "N2": [join(1, "s", ("T2",), {"T2": 0}, version=2), SealRecord(1)],
    }
    assert recover(lanes, 1, ("T1", "T2")).registrations == (Registration("s", 2, ("T1", "T2")),)


def test_a_report_replaces_what_is_not_newer_than_it():
    lanes = {
        "N1": [join(1, "s", ("T1", "T2"), {}, version=2), join(2, "r", ("T1",), {}, version=5), SealRecord(1)]
    }
    reports = (Registration("s", 2, ("T1",)), Registration("r", 4, ()))
    assert recover(lanes, 1, ("T1", "T2"), reports).registrations == (
        Registration("r", 5, ("T1",)),
        Registration("s", 2, ("T1",)),
    )


def test_who_is_gone_is_no_longer_registered():
    lanes = {"N1": [join(1, "s", ("T1",), {}), SealRecord(1)]}
    assert recover(lanes, 1, ("T1",), (Registration("s", 1, ()),)).registrations == ()


def test_it_goes_on_from_the_record_that_began_the_epoch():
    done = Sequenced("T1", EventId("p", 0, 1), 0, {"T1": 1})
    began = EpochRecord(
        1, EpochNotice(1, {"T1": 5}, {"T1": ((2, 5),)}), (Registration("s", 1, ("T1",)),), (done,)
    )
    lanes = {
        "N1": [
            event(1, "T1", {"T1": 1}),
            SealRecord(1),
            began,
            event(1, "T1", {"T1": 6}, n=2, epoch=1),
            SealRecord(2),
        ]
    }
    recovery = recover(lanes, 2, ("T1",))
    assert recovery.notice == EpochNotice(2, {"T1": 6}, {})
    assert recovery.registrations == began.registrations
    assert [s.id.n for s in recovery.seen] == [1, 2]


def test_everybody_who_reads_the_same_lanes_computes_the_same():
    lanes = {
        "N2": [event(1, "T2", {"T2": 1, "T1": 0}), SealRecord(1)],
        "N1": [event(1, "T1", {"T1": 1}), SealRecord(1)],
    }
    again = {"N1": lanes["N1"], "N2": lanes["N2"]}
    assert recover(lanes, 1, ("T1", "T2")) == recover(again, 1, ("T2", "T1"))


def test_a_forest_puts_everything_one_subscriber_holds_on_one_path():
    held = (Registration("s", 1, ("A", "B")), Registration("r", 1, ("B", "C")))
    intent = Intent("forest", ("A", "B", "C", "D"), wants=(("C", "D"),))
    plan = next_plan(intent, held, threshold=2, epoch=3)
    check_plan(plan)
    assert plan.epoch == 3
    control = first_control(plan, dict.fromkeys("ABCD", "N1"), ["N1"])
    for topics in ("AB", "BC", "CD"):
        assert control.is_light(topics)
    assert plan.group["A"] == {"A"}  # one subscriber alone orders nothing at threshold 2


def test_a_line_accepts_any_join():
    plan = next_plan(Intent("line", ("A", "B", "C")), (), threshold=2, epoch=0)
    control = first_control(plan, dict.fromkeys("ABC", "N1"), ["N1"])
    assert control.join_path(("A", "C")) == ("C", "B", "A")
    assert control.join_path(("B",)) == ("B",)
    assert control.join_path(("X",)) is None


def test_the_topics_of_the_dead_are_shared_out_among_the_living():
    plan = next_plan(Intent("line", ("A", "B", "C")), (), threshold=2, epoch=0)
    control = first_control(plan, {"A": "N1", "B": "N1", "C": "N2"}, ["N1", "N2", "N3"])
    decided = control.sealing("N2", Intent("line", plan.rank), dead=("N1",))
    assert decided.owner == {"A": "N2", "B": "N3", "C": "N2"}
    assert (decided.version, decided.epoch, decided.state) == (2, 1, "sealing")
    assert decided.sealed == ("N1", "N2")
    assert decided.lanes == ("N2", "N3")
    back = decided.active(plan).sealing("N2", Intent("line", plan.rank), alive=("N1",))
    assert back.dead == ()
    assert back.archive == ("N1", "N2", "N3")


def test_who_holds_only_a_pattern_of_topics_to_come_is_not_gone():
    lanes = {"N1": [join(1, "s", ("T1",), {}), SealRecord(1)]}
    report, pattern = Registration("s", 2, ()), Registration("s", 1, ("new.*",))
    assert recover(lanes, 1, ("T1",), (report,)).notice.gone == ("s",)
    recovery = recover(lanes, 1, ("T1",), (report,), (pattern,))
    assert recovery.notice.gone == ()
    assert recovery.registrations == ()


def test_what_many_topics_have_in_common_is_counted_once_so_that_none_of_them_is_forgotten():
    """Else a takeover forgets events without an answer: asked for again, they would have second places."""
    topics, n, lane = [f"topic.{i:03}" for i in range(256)], 0, []
    clock = dict.fromkeys(topics, 0)
    for index in range(1, 21):
        events = []
        for i in range(1024):
            n += 1
            events.append(Publication("p", 0, n, topics[i % 256], b"x", 0, 0.0, index * 4 + i // 256))
        lane.append(
            BundleRecord(0, index, bundle_of(events, index, 1, {}).stamped(0, "N1", index, dict(clock)))
        )
        clock = {topic: number + 4 for topic, number in clock.items()}
    recovery = recover({"N1": [*lane, SealRecord(1)]}, 1, tuple(topics))
    newest = [bundle for bundle in recovery.bundles if bundle.index == 20]
    assert {part.topic for bundle in newest for part in bundle.parts} == set(topics)
    assert len(recovery.bundles) == 20
    assert len(encode_record(recovery.record(clock))) < 1 << 20
