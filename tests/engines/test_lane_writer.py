"""The one writer of a lane: pipelined, confirmed in order, stopped by a seal."""

from random import Random

from unisono.engines.effects import Append, Read
from unisono.engines.inputs import ReadBack
from unisono.engines.takeover.writer import LaneWriter
from unisono.model.frames import EpochNotice, Publication, Stamped
from unisono.model.lanes import EpochRecord, EventRecord, SealRecord


def event(index, epoch=0):
    return EventRecord(epoch, index, Stamped(Publication("p", 0, index, "T"), epoch, {"T": index}))


def append(writer, count, now=0.0):
    return [
        effect for _ in range(count) for effect in writer.append(event(writer.made + 1, writer.epoch), now)
    ]


def test_appends_go_out_at_once_each_predicting_its_place():
    writer = LaneWriter("N1", 0, tail=7)
    assert append(writer, 3) == [Append("N1", event(i), 6 + i) for i in (1, 2, 3)]


def test_a_record_is_confirmed_only_behind_the_one_before_it():
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 3)
    assert writer.answered(event(2), 2, 0.0) == ([], [])
    assert writer.answered(event(1), 1, 0.0) == ([event(1), event(2)], [])
    assert writer.answered(event(3), 3, 0.0) == ([event(3)], [])
    assert writer.waits_since is None


def test_after_a_refusal_it_waits_for_what_is_on_the_way_and_then_reads():
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 2)
    assert writer.answered(event(1), None, 0.0) == ([], [])
    assert writer.answered(event(2), None, 0.0) == ([], [Read("N1")])


def test_a_zombies_second_append_is_stored_after_the_seal_and_confirmed_by_nobody():
    """The seal takes the place the first append had predicted; the second is accepted behind it."""
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 2)
    assert writer.answered(event(1), None, 0.0) == ([], [])
    assert writer.answered(event(2), 2, 0.0) == ([], [Read("N1")])
    assert writer.read_back(ReadBack("N1", (SealRecord(1), event(2)), 2), 0.0) == ([], [])
    assert writer.state == "stopped"
    assert append(writer, 1) == []


def test_where_nothing_is_sealed_it_goes_back_and_appends_the_same_again():
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 2)
    writer.answered(event(1), 1, 0.0)
    writer.answered(event(2), None, 0.0)
    late = append(writer, 1)
    assert late == []  # while it reads, nothing goes out
    again = writer.read_back(ReadBack("N1", (event(1), event(9, epoch=0)), 2), 0.0)
    assert again == ([], [Append("N1", event(2), 2)])
    assert writer.answered(event(2), 3, 0.0) == ([event(2)], [Append("N1", event(3), 3)])
    assert writer.answered(event(3), 4, 0.0)[0] == [event(3)]


def test_silence_is_met_by_looking_with_growing_patience():
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 1, now=1.0)
    assert writer.waits_since == 1.0
    assert writer.give_up_waiting(2.0) == [Read("N1")]
    assert writer.patience == 2
    assert writer.read_back(ReadBack("N1", (), 0), 2.1) == ([], [Append("N1", event(1), 0)])
    writer.answered(event(1), 1, 2.2)
    assert writer.patience == 1


def test_what_a_reader_counts_is_stored_though_no_answer_came():
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 3, now=1.0)
    writer.give_up_waiting(2.0)
    confirmed, effects = writer.read_back(ReadBack("N1", (event(1), event(3), event(2)), 3), 2.1)
    assert confirmed == [event(1), event(2)]
    assert effects == [Append("N1", event(3), 3)]


def test_two_attempts_do_not_take_each_others_places_for_ever():
    """Found by the simulator: five records, appended again and again, each attempt in the way of the next."""
    random = Random("two attempts")
    for _ in range(300):
        writer, lane, way = LaneWriter("N1", 0, tail=0), [], []
        way += append(writer, 5)
        for step in range(400):
            if not writer.unconfirmed:
                break
            if not way or (step < 40 and random.random() < 0.2):
                way += writer.give_up_waiting(float(step))  # though everything is still on its way
            request = way.pop(0)
            if isinstance(request, Read):
                way += writer.read_back(ReadBack("N1", tuple(lane), len(lane)), float(step))[1]
            elif request.expected == len(lane):
                lane.append(request.record)
                way += writer.answered(request.record, len(lane), float(step))[1]
            else:
                way += writer.answered(request.record, None, float(step))[1]
        assert not writer.unconfirmed


def test_an_answer_of_another_epoch_means_nothing():
    writer = LaneWriter("N1", 3, tail=0)
    append(writer, 1)
    assert writer.answered(event(1, epoch=2), 1, 0.0) == ([], [])
    assert list(writer.unconfirmed) == [1]


def test_the_beginning_of_a_later_epoch_stops_it_like_a_seal():
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 1)
    writer.give_up_waiting(1.0)
    writer.read_back(ReadBack("N1", (EpochRecord(1, EpochNotice(1, {}), (), ()),), 1), 1.0)
    assert writer.state == "stopped"
    assert writer.unconfirmed == {}


def test_a_twin_is_independent():
    writer = LaneWriter("N1", 0, tail=0)
    append(writer, 1)
    twin = writer.copy()
    assert twin.state_of() == writer.state_of()
    twin.answered(event(1), 1, 0.0)
    assert twin.state_of() != writer.state_of()
