"""Where epochs begin in lanes: whoever finishes or adopts an epoch reads from there, and the past can be followed."""

from dataclasses import replace
from random import Random

from unisono.engines.effects import Append, Decide, Look, Read
from unisono.engines.inputs import Appended, Controlled, ReadBack, Received, Suspected
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.volumes import VOLUMES, Mark, Retention, Volume, move_marks, turn_volume
from unisono.engines.takeover.wire import decode_control, encode_control
from unisono.engines.topic_managers.node import ManagerNode
from unisono.model.frames import EpochNotice, Publication, Registration, Stamped
from unisono.model.lanes import EpochRecord, EventRecord, SealRecord
from unisono.model.runs import bundle_of

BOTH = (Registration("s", 1, ("A", "B")), Registration("r", 1, ("A", "B")))
PLAN = next_plan(Intent("line", ("A", "B")), BOTH, threshold=2, epoch=0)
FIRST = first_control(PLAN, {"A": "N1", "B": "N2"}, ["N1", "N2"])


class Lanes:
    """Answers what nodes ask of their lanes; counts the records it reads out."""

    def __init__(self):
        self.records = {}
        self.read = 0
        self.asked = []

    def answer(self, effect):
        match effect:
            case Append(lane, record, expected):
                records = self.records.setdefault(lane, [])
                assert expected in (None, len(records))
                records.append(record)
                return Appended(lane, record, len(records))
            case Read(lane, after):
                records = self.records.get(lane, [])
                self.read += len(records[after:])
                self.asked.append(effect)
                return ReadBack(lane, tuple(records[after:]), len(records), after)
            case Decide(control):
                return Controlled(control)

    def drive(self, node, input):
        """Hand in an input and everything that follows from it; returns the last control record."""
        todo, control = [input], None
        while todo:
            taken = todo.pop(0)
            control = taken.control if isinstance(taken, Controlled) else control
            answers = [self.answer(effect) for effect in node.handle(taken, 0.0)]
            todo += [answer for answer in answers if answer is not None]
        return control


def force(lanes, node, control):
    """The next epoch, forced by a node that does not own anything in it anew."""
    other = next(name for name in control.live if name != node.name)
    lanes.drive(node, Controlled(control))
    return lanes.drive(node, Suspected(other))


def epochs(lanes, count, kept=0, events=0, bundles_of=0, retained=False):
    """An only node goes through epochs, and stores events in each, or bundles of so many."""
    control = first_control(PLAN, dict.fromkeys("AB", "N1"), ["N1", "N2"], retained=retained)
    node, number = ManagerNode("N1", NodeSettings(lane_records_kept=kept)), 0
    for _ in range(count):
        lanes.drive(node, Controlled(control))
        for index in range(1, events + 1):
            if bundles_of:
                ns = range(number + 1, number + bundles_of + 1)
                bundle = bundle_of([Publication("p", 0, n, "A") for n in ns], index, 0, {})
                lanes.drive(node, Received("p", bundle))
                number += bundles_of
                continue
            number += 1
            event = Stamped(Publication("p", 0, number, "A"), control.epoch, {"A": number, "B": 0})
            lanes.records.setdefault("N1", []).append(EventRecord(control.epoch, index, event))
        sealing = control.sealing("N1", Intent("line", ("A", "B")))
        control = lanes.drive(node, Controlled(sealing))
    return control


def test_an_active_record_says_where_its_epoch_begins_and_the_sealing_one_keeps_it():
    lanes = Lanes()
    control = epochs(lanes, 1, events=3)
    assert control.state == "active"
    assert isinstance(lanes.records["N1"][control.begins["N1"] - 1], EpochRecord)
    assert control.sealing("N1", Intent("line", ("A", "B"))).begins == control.begins


def test_only_lanes_that_are_written_in_an_epoch_are_named():
    two, lanes = ManagerNode("N2", NodeSettings()), Lanes()
    control = force(lanes, two, FIRST)
    assert control.lanes == ("N2",)
    assert control.begins == {"N2": 2}
    assert lanes.records["N1"][-1] == lanes.records["N2"][-1]
    assert lanes.records["N1"][-1].before == {"N1": 1, "N2": 1}


def test_the_past_can_be_followed_from_epoch_to_epoch():
    lanes = Lanes()
    control = epochs(lanes, 5, events=2)
    begins, found = dict(control.begins), []
    while begins:
        record = lanes.records["N1"][begins["N1"] - 1]
        found.append(record.epoch)
        begins = record.before if isinstance(record, EpochRecord) else {}
    assert found == [5, 4, 3, 2, 1, 0]


def test_the_cost_of_an_epoch_does_not_grow_with_the_lane():
    reads = []
    for count in (10, 20):
        lanes = Lanes()
        epochs(lanes, count, kept=15, events=10)
        reads.append(lanes.read / count)
        assert len(lanes.records["N1"]) == 12 * count
    assert reads[1] < 1.2 * reads[0]
    assert max(reads) < 2 * (15 + 2 * 12) + 12


def test_what_is_recovered_does_not_depend_on_how_far_back_one_reads():
    lanes = Lanes()
    control = epochs(lanes, 6, events=4)
    (record,) = [r for r in lanes.records["N1"] if isinstance(r, EpochRecord) and r.epoch == control.epoch]
    assert record.notice.numbers == {"A": 24, "B": 0}
    assert record.notice.voids == {}
    assert len(record.seen) == 24


def test_a_finisher_takes_no_answer_to_a_smaller_question():
    """A writer reads what it wrote itself: the registrations with which the epoch began are not in that."""
    two = ManagerNode("N2", NodeSettings())
    lanes = Lanes()
    lanes.drive(two, Controlled(FIRST))
    (decide,) = two.handle(Suspected("N1"), 0.0)
    seals = two.handle(Controlled(decide.control), 0.0)
    for seal in seals:
        reads = two.handle(lanes.answer(seal), 0.0)
    two.handle(lanes.answer(reads[0]), 0.0)
    assert two.handle(ReadBack("N2", (SealRecord(1),), 6, after=5), 0.0) == [
        Look()
    ]  # the writer, too, hears it
    assert two.handle(ReadBack("N2", (SealRecord(1),), 1, rest=3), 0.0) == []
    assert [type(effect) for effect in two.handle(lanes.answer(reads[1]), 0.0)] == [Append, Append]


def test_a_node_adopts_nothing_from_an_answer_to_a_smaller_question():
    lanes = Lanes()
    control = epochs(lanes, 3, events=2)
    one = ManagerNode("N1", NodeSettings())
    (read,) = one.handle(Controlled(control), 0.0)
    assert read == Read("N1", control.reads_after("N1"))
    records, tail = lanes.records["N1"], len(lanes.records["N1"])
    one.handle(ReadBack("N1", tuple(records[-1:]), tail, tail - 1), 0.0)
    one.handle(ReadBack("N1", tuple(records[read.after : -1]), tail - 1, read.after, 1), 0.0)
    assert one.writer is None
    one.handle(lanes.answer(read), 0.0)
    assert one.writer is not None
    assert one.managers["A"].number == 6


def test_marks_follow_a_lane_and_keep_enough():
    """Behind the older mark are the epoch before, enough records, and not many more than that."""
    random = Random("marks")
    for _ in range(300):
        kept, begins, marks = random.randint(0, 40), [1], {}
        for _ in range(60):
            begins.append(begins[-1] + random.randint(2, 12))
            marks |= move_marks(marks, {"N": begins[-2]}, {"N": begins[-1]}, kept)
            older = marks["N"].older
            assert older in begins
            assert older <= begins[-2]
            assert begins[-1] - older >= min(kept, begins[-1] - 1)
            assert begins[-1] - older <= 2 * (kept + 12) + 12


def test_a_lane_that_comes_back_keeps_its_mark_and_a_record_of_old_knows_none():
    assert move_marks({"N": Mark(4, 9, 9)}, {"M": 7}, {"N": 10}, 5) == {"N": Mark(4, 9, 10)}
    assert move_marks({"N": Mark(4, 9, 9)}, {"M": 7}, {"N": 20}, 5) == {"N": Mark(9, 20, 20)}
    assert move_marks({}, {"M": 7}, {"N": 20}, 5) == {"N": Mark(20, 20, 20)}
    assert move_marks({}, {}, {"N": 20}, 50) == {"N": Mark(1, 1, 20)}


def test_a_bundle_counts_as_many_as_it_holds():
    """Marks and volumes move as they would if events were stored one by one, though there are few records."""
    lanes = Lanes()
    control = epochs(lanes, 3, kept=40, events=3, bundles_of=10)
    assert control.marks["N1"] == Mark(1, 10, 15, 27) == decode_control(encode_control(control)).marks["N1"]
    assert move_marks({"N": Mark(1, 1, 1)}, {"N": 1}, {"N": 5}, 9, {"N": 4})["N"] == Mark(1, 1, 5, 4)
    assert move_marks({"N": Mark(1, 1, 5, 4)}, {"N": 5}, {"N": 7}, 9, {"N": 0})["N"] == Mark(1, 7, 7)


def test_a_volume_counts_the_events_of_bundles():
    lanes = Lanes()
    control = epochs(lanes, 3, events=3, bundles_of=10, retained=True)
    begins = control.begins["N1"]
    assert control.volumes[0].records == begins - 1 + 3 * 3 * 9


# What is kept of the past.


def turned(sizes, retain, seconds_each=0.0):
    """The volumes after epochs of these sizes, in one lane, and where each epoch began."""
    volumes, begins, at = (Volume(0, 100.0, {"N": 1}),), [1], 100.0
    for epoch, size in enumerate(sizes, start=1):
        at += seconds_each
        begins.append(begins[-1] + size)
        volumes = turn_volume(volumes, Volume(epoch, at, {"N": begins[-1]}), size, retain)
    return volumes, begins


def test_the_past_is_kept_in_few_chapters_that_go_as_a_whole():
    random = Random("volumes")
    for _ in range(100):
        sizes, records = [random.randint(2, 30) for _ in range(200)], random.choice((1, 50, 500, 10_000))
        volumes, begins = turned(sizes, Retention(records))
        assert len(volumes) <= VOLUMES + 2
        assert all(volume.begins["N"] == begins[volume.epoch] for volume in volumes)
        kept = begins[-1] - volumes[0].begins["N"]
        assert min(records, sum(sizes)) <= kept <= records * (1 + 1 / VOLUMES) + 2 * 30


def test_what_is_too_old_goes_also_if_there_is_little_of_it():
    volumes, _ = turned([5] * 100, Retention(1_000_000, 160.0), seconds_each=10.0)
    assert volumes[-1].began_at == 1100.0
    assert 1100.0 - 160.0 - 2 * 10.0 <= volumes[0].began_at <= 1100.0 - 160.0
    assert len(volumes) <= VOLUMES + 2


def test_a_node_that_was_told_nothing_lets_nothing_go():
    volumes, _ = turned([50] * 100, Retention(), seconds_each=1e9)
    assert [volume.epoch for volume in volumes] == [0]


def test_a_clock_that_is_not_known_makes_nothing_old():
    unknown = (Volume(0, 0.0, {"N": 1}), Volume(4, 0.0, {"N": 9}, 3))
    (first, *_) = turn_volume(unknown, Volume(5, 1e9, {"N": 12}), 3, Retention(1000, 60.0))
    assert first.epoch == 0


def test_what_is_needed_to_go_on_or_to_be_read_is_not_cut():
    control = replace(
        FIRST,
        retained=True,
        marks={"N1": Mark(40, 60, 60), "N2": Mark(5, 5, 9)},
        volumes=(Volume(3, 0.0, {"N1": 21}), Volume(7, 0.0, {"N1": 50, "N2": 9})),
    )
    assert control.spare("N1") == 20
    assert control.spare("N2") == 4
    assert replace(control, volumes=control.volumes[1:]).spare("N1") == 39
    assert replace(control, retained=False, volumes=()).spare("N1") == 39


def test_a_lane_of_which_something_is_told_is_remembered_until_that_goes():
    """First it is read no more, then it is cut, then it is forgotten."""
    gone = Intent("line", ("A", "B"))
    marks = {"N1": Mark(2, 2, 2), "N9": Mark(3, 8, 12)}
    volumes = (Volume(0, 0.0, {"N9": 1}), Volume(4, 0.0, {"N1": 2}))
    control = replace(FIRST, archive=("N1", "N9"), marks=marks, retained=True, volumes=volumes)
    after = control.sealing("N1", gone, forget=("N9",))
    assert after.marks["N9"] == Mark(12, 12, 12)
    assert "N9" in after.archive
    assert after.spare("N9") == 0
    later = replace(after, state="active", volumes=volumes[1:])
    assert later.spare("N9") == 11
    assert "N9" not in later.sealing("N1", gone, forget=("N9",)).archive


def test_retained_systems_order_what_one_subscriber_holds():
    held = (Registration("s", 1, ("A", "B")),)
    began = EpochRecord(0, EpochNotice(0, {"A": 0, "B": 0}), held, ())
    for retained in (False, True):
        first = first_control(PLAN, dict.fromkeys("AB", "N1"), ["N1"], retained=retained)
        plan = next_plan(Intent("line", ("A", "B")), held, first.threshold(2), 0)
        node = ManagerNode("N1", NodeSettings())
        node.handle(Controlled(replace(first, plan=plan)), 0.0)
        node.handle(ReadBack("N1", (began,), 1), 0.0)
        assert ("A" in node.managers["B"].group) == retained


def test_an_epoch_says_when_it_was_decided_and_time_does_not_go_back():
    lanes, control = Lanes(), first_control(PLAN, dict.fromkeys("AB", "N1"), ["N1", "N2"], at=50.0)
    for wall_s, began_at in ((100.0, 100.0), (70.0, 100.0), (130.0, 130.0)):
        node = ManagerNode("N1", NodeSettings())
        node.tell_time(wall_s)
        control = force(lanes, node, replace(control, dead=()))
        assert control.began_at == lanes.records["N1"][-1].began_at == began_at
