"""A node: what is stored before what is told, and how it goes from one epoch to the next."""

from dataclasses import replace

from unisono.engines.effects import Announce, Append, Decide, Look, Read, Send
from unisono.engines.inputs import Appended, Controlled, Lost, ReadBack, Received, Suspected, Tick
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.recovery import recover
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.topic_managers.node import ManagerNode
from unisono.model.bundles import SequencedBundle
from unisono.model.frames import (
    Create,
    Done,
    EpochNotice,
    Fill,
    Join,
    Joined,
    Nack,
    Prepare,
    Prepared,
    Publication,
    Registration,
    Replan,
    Routed,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId
from unisono.model.lanes import EpochRecord, EventRecord, JoinRecord, SealRecord, events_of
from unisono.model.runs import bundle_of

BOTH = (Registration("s", 1, ("A", "B")), Registration("r", 1, ("A", "B")))
PLAN = next_plan(Intent("line", ("A", "B")), BOTH, threshold=2, epoch=0)
TOGETHER = first_control(PLAN, {"A": "N1", "B": "N1"}, ["N1", "N2"])
APART = first_control(PLAN, {"A": "N1", "B": "N2"}, ["N1", "N2", "N3"])


def node(name="N1", control=TOGETHER):
    """A node that serves epoch 0, its lanes empty."""
    made = ManagerNode(name, NodeSettings())
    for effect in made.handle(Controlled(control), 0.0):
        assert made.handle(ReadBack(effect.lane, (), 0), 0.0) == []
    made.check()
    return made


def publication(topic, n=1):
    return Publication("p", 0, n, topic)


def create(topic, n=1):
    return Received("p", Routed(topic, Create(publication(topic, n))))


def stored(one, effect, sequence):
    return one.handle(Appended(effect.lane, effect.record, sequence), 0.0)


def test_a_chain_on_one_node_is_a_function_call():
    (append,) = node().handle(create("B"), 0.0)
    assert append == Append("N1", EventRecord(0, 1, Stamped(publication("B"), 0, {"B": 1, "A": 0})), 0)


def test_nothing_is_told_before_it_is_stored():
    one = node()
    (append,) = one.handle(create("B"), 0.0)
    event = append.record.event
    assert stored(one, append, 1) == [
        Announce(("B",), event),
        Send("p", Sequenced("B", event.publication.id, 0, event.entries)),
    ]


def test_a_repair_never_shows_what_is_not_stored():
    one = node()
    (append,) = one.handle(create("B"), 0.0)
    (answer,) = one.handle(Received("s", Routed("B", Nack("B", "s", (1,)))), 0.0)
    assert answer.message.events == ()
    stored(one, append, 1)
    (answer,) = one.handle(Received("s", Routed("B", Nack("B", "s", (1,)))), 0.0)
    assert answer.message.events == (append.record.event,)


def test_a_manager_elsewhere_is_reached_through_its_node():
    low = node("N2", APART)
    (send,) = low.handle(create("B"), 0.0)
    assert send == Send("N1", Routed("A", Fill(publication("B"), 0, {"B": 1}, ("A",), ())))
    top = node("N1", APART)
    (append,) = top.handle(Received("N2", send.message), 0.0)
    event = append.record.event
    assert stored(top, append, 1)[-1] == Send("N2", Routed("B", Done(event)))


def test_a_join_is_stored_before_it_is_answered():
    one = node()
    registration = Registration("t", 1, ("A", "B"))
    join = Join(registration, ("A", "B"), 0, {}, ("A",))
    (append,) = one.handle(Received("t", Routed("B", join)), 0.0)
    assert append.record == JoinRecord(0, 1, registration, {"A": 0, "B": 0})
    assert one.handle(Received("t", Routed("B", join)), 0.0) == []  # sent again meanwhile
    (answer,) = stored(one, append, 1)
    assert answer == Send("t", Joined(1, ("A", "B"), 0, {"A": 0, "B": 0}))


def test_a_join_makes_topics_conflict_from_then_on():
    plan = next_plan(Intent("line", ("A", "B")), (), threshold=2, epoch=0)
    one = node(control=first_control(plan, {"A": "N1", "B": "N1"}, ["N1"]))
    (append,) = one.handle(create("B"), 0.0)
    assert append.record.event.entries == {"B": 1}
    for name in ("s", "t"):
        join = Join(Registration(name, 1, ("A", "B")), ("A", "B"), 0, {}, ("A",))
        one.handle(Received(name, Routed("B", join)), 0.0)
    (append,) = one.handle(create("A", 2), 0.0)
    assert append.record.event.entries == {"A": 1, "B": 1}


def test_what_belongs_to_a_later_epoch_waits_and_what_belongs_to_an_earlier_one_is_dropped():
    one = node("N1", APART)
    later = Fill(publication("B"), 1, {"B": 1}, ("A",), ())
    assert one.handle(Received("N2", Routed("A", later)), 0.0) == [Look()]
    began = take_over(one, APART, 1)
    assert any(isinstance(e, Append) and e.record.epoch == 1 for e in began)
    earlier = Fill(publication("B", 2), 0, {"B": 2}, ("A",), ())
    assert one.handle(Received("N2", Routed("A", earlier)), 0.0) == []


def take_over(one, control, epoch, records=()):
    """Let another node decide on and finish the next epoch; returns what adopting it causes."""
    sealing = control.sealing("N3", Intent("line", control.plan.rank), dead=())
    one.handle(Controlled(sealing), 0.0)
    plan = next_plan(sealing.intent, BOTH, 2, epoch)
    began = EpochRecord(epoch, EpochNotice(epoch, {"A": 3, "B": 2}), BOTH, ())
    effects = one.handle(Controlled(sealing.active(plan)), 0.0)
    result = []
    for read in effects:
        result = one.handle(ReadBack(read.lane, (*records, SealRecord(epoch), began), 2 + len(records)), 0.0)
    return result


def test_a_survivor_starts_afresh_too():
    one = node()
    one.handle(create("B"), 0.0)  # never stored: it did not happen
    take_over(one, TOGETHER, 1)
    (append,) = one.handle(create("B"), 0.0)
    assert append == Append("N1", EventRecord(1, 1, Stamped(publication("B"), 1, {"B": 3, "A": 3})), 2)


def test_an_event_of_an_earlier_epoch_is_answered_again_and_not_numbered_again():
    one = node()
    event = Stamped(publication("B"), 0, {"B": 1, "A": 0})
    sealing = TOGETHER.sealing("N2", Intent("line", PLAN.rank))
    done = Sequenced("B", event.publication.id, 0, event.entries)
    began = EpochRecord(1, EpochNotice(1, {"A": 0, "B": 1}), BOTH, (done,))
    one.handle(Controlled(sealing), 0.0)
    (read,) = one.handle(Controlled(sealing.active(next_plan(sealing.intent, BOTH, 2, 1))), 0.0)
    one.handle(ReadBack(read.lane, (EventRecord(0, 1, event), SealRecord(1), began), 3), 0.0)
    assert one.handle(create("B"), 0.0) == [Send("p", done)]


def test_events_of_a_bundle_of_an_earlier_epoch_are_answered_again_and_not_numbered_again():
    """The record that begins an epoch says so in outlines."""
    one, two = node(), node("N2")
    bundle = bundle_of([publication("B", 1), publication("A", 2), publication("B", 3)], 1, 0, {})
    (append,) = one.handle(Received("p", bundle), 0.0)
    sealing = TOGETHER.sealing("N2", Intent("line", PLAN.rank))
    lane = (append.record, SealRecord(1))
    began = recover({"N1": lane}, 1, PLAN.rank).record({})
    assert began.seen == ()
    two.handle(Controlled(replace(sealing, owner=dict.fromkeys("AB", "N2"), lanes=("N2",))), 0.0)
    active = replace(sealing, owner=dict.fromkeys("AB", "N2"), lanes=("N2",)).active(PLAN)
    for read in two.handle(Controlled(active), 0.0):
        two.handle(ReadBack(read.lane, (*lane, began) if read.lane == "N1" else (began,), 3), 0.0)
    assert two.handle(Received("p", bundle), 0.0) == [
        Send("p", SequencedBundle(0, 1, 0, {"A": 0, "B": 0}, ()))
    ]
    for n, topic, entries in (
        (1, "B", {"B": 1, "A": 0}),
        (2, "A", {"B": 1, "A": 1}),
        (3, "B", {"B": 2, "A": 1}),
    ):
        answer = Sequenced(topic, EventId("p", 0, n), 0, entries)
        assert two.handle(create(topic, n), 0.0) == [Send("p", answer)]
    (append,) = two.handle(create("B", 4), 0.0)
    assert append.record.event.number == 3


def test_a_suspicion_leads_to_a_decision_and_its_decider_carries_it_through():
    two = node("N2", APART)
    (decide,) = two.handle(Suspected("N1"), 0.0)
    assert isinstance(decide, Decide)
    assert decide.control.owner == {"A": "N2", "B": "N2"}
    seals = two.handle(Controlled(decide.control), 0.0)
    assert seals == [Append("N1", SealRecord(1), None), Append("N2", SealRecord(1), None)]
    assert two.handle(Appended("N1", SealRecord(1), 1), 0.0) == []
    assert two.handle(Appended("N2", SealRecord(1), 1), 0.0) == [Read("N1"), Read("N2")]
    two.handle(ReadBack("N1", (SealRecord(1),), 1), 0.0)
    # Reading its own lane it also learns that its writer is sealed.
    begins = [e for e in two.handle(ReadBack("N2", (SealRecord(1),), 1), 0.0) if isinstance(e, Append)]
    assert [(b.lane, b.record.epoch) for b in begins] == [("N1", 1), ("N2", 1)]
    two.handle(Appended("N1", begins[0].record, 2), 0.0)
    notice, activate = two.handle(Appended("N2", begins[1].record, 2), 0.0)
    assert isinstance(notice, Announce)
    assert activate.control.state == "active"
    assert activate.control.plan.epoch == 1


def test_an_epoch_that_its_decider_does_not_finish_is_finished_by_another():
    two = node("N2", APART)
    sealing = APART.sealing("N3", Intent("line", PLAN.rank), dead=("N1",))
    assert two.handle(Controlled(sealing), 0.0) == []
    effects = two.handle(Tick(), two.settings.finish_s)
    assert Append("N1", SealRecord(1), None) in effects


def test_a_sealed_writer_falls_silent_for_ever():
    one = node("N1", APART)
    (append,) = one.handle(create("A"), 0.0)
    (read,) = stored(one, append, None)
    assert one.handle(ReadBack(read.lane, (SealRecord(1),), 1), 0.0) == [Look()]
    assert one.handle(create("A", 2), 0.0) == []


def test_who_is_declared_dead_and_is_not_asks_to_come_back():
    one = node("N1", APART)
    sealing = APART.sealing("N2", Intent("line", PLAN.rank), dead=("N1",))
    active = sealing.active(next_plan(sealing.intent, BOTH, 2, 1))
    assert one.handle(Controlled(active), 0.0) == [Send("N2", Replan(1, alive="N1"))]
    assert one.handle(create("A"), 0.0) == []


def test_a_planned_epoch_lets_what_is_under_way_finish():
    one = node()
    (append,) = one.handle(create("B"), 0.0)
    assert one.handle(Received("N2", Prepare(1, "N2")), 0.0) == []
    assert one.handle(create("B", 2), 0.0) == []  # waits
    assert stored(one, append, 1)[-1] == Send("N2", Prepared(1, "N1"))


def test_what_comes_while_an_epoch_ends_is_numbered_in_the_next():
    """Whoever sent it would take a while to notice that it was dropped, and send everything again."""
    one, control = node(), replace(TOGETHER, lanes=("N1",))
    one.handle(Received("N1", Prepare(1, "N1")), 0.0)
    one.handle(create("B", 1), 0.0)
    sealing = control.sealing("N1", Intent("line", PLAN.rank))
    (seal,) = one.handle(Controlled(sealing), 0.0)
    one.handle(create("B", 2), 0.0)
    (read,) = stored(one, seal, 1)
    one.handle(create("B", 3), 0.0)
    _, begin = one.handle(ReadBack(read.lane, (SealRecord(1),), 1), 0.0)
    assert one.handle(create("B", 4), 0.0) == []  # nobody serves now: the old epoch is over
    _, decide = stored(one, begin, 2)
    assert (
        one.handle(Received("p", bundle_of([publication("B", 5), publication("A", 6)], 1, 0, {})), 0.0) == []
    )
    one.handle(Controlled(decide.control), 0.0)
    assert one.handle(create("B", 7), 0.0) == []
    effects = one.handle(ReadBack("N1", (SealRecord(1), begin.record), 2), 0.0)
    records = [effect.record for effect in effects if isinstance(effect, Append)]
    assert [e.publication.n for record in records for e in events_of(record)] == [1, 2, 3, 4, 5, 6, 7]
    assert one.kept_bytes == 0


def test_who_serves_no_more_keeps_nothing_that_has_waited():
    one = node("N1", APART)
    sealing = APART.sealing("N2", Intent("line", PLAN.rank), dead=("N1",))
    one.handle(Controlled(sealing), 0.0)
    one.handle(create("A"), 0.0)
    assert one.kept_bytes > 0
    one.handle(Controlled(sealing.active(next_plan(sealing.intent, BOTH, 2, 1))), 0.0)
    assert (one.waiting, one.kept_bytes) == ([], 0)


def test_a_prepared_epoch_that_never_comes_is_forgotten():
    one = node()
    one.handle(Received("N2", Prepare(1, "N2")), 0.0)
    one.handle(create("B"), 0.0)
    effects = one.handle(Tick(), one.settings.frozen_s)
    assert [e.record.index for e in effects if isinstance(e, Append)] == [1]


def test_the_leader_plans_and_decides_when_all_are_prepared():
    one = node("N1", APART)
    effects = one.handle(Received("N2", Replan(0, rank=("B", "A"))), 0.0)
    assert effects[0] == Send("N1", Prepare(1, "N1"))
    assert Send("N2", Prepare(1, "N1")) in effects
    assert one.handle(Received("N1", Prepared(1, "N1")), 0.0) == []
    (decide,) = one.handle(Received("N2", Prepared(1, "N2")), 0.0)
    assert decide.control.intent.rank == ("B", "A")


def test_the_leader_does_not_wait_for_ever_for_a_node_that_does_not_answer():
    one = node("N1", APART)
    one.handle(Received("N2", Replan(0, rank=("B", "A"))), 0.0)
    effects = one.handle(Tick(), one.settings.prepare_s)
    assert any(isinstance(e, Decide) for e in effects)


def test_a_request_of_an_epoch_that_is_over_is_dropped():
    one = node("N1", APART)
    assert one.handle(Received("N2", Replan(7, rank=("B", "A"))), 0.0) == []
    assert one.planner.stale == 1


def test_requests_are_passed_on_to_the_leader():
    assert node("N2", APART).handle(Received("s", Replan(0, ("A", "B"))), 0.0) == [
        Send("N1", Replan(0, ("A", "B"), asks="s"))
    ]


def test_a_restarted_node_never_resumes_the_epoch_it_finds():
    """Its earlier life has given out numbers that no lane of ours need show: they may be under way elsewhere."""
    one = ManagerNode("N1", NodeSettings(), restarted=True)
    (decide,) = one.handle(Controlled(TOGETHER), 0.0)
    assert decide.control.epoch == 1
    assert one.handle(create("A"), 0.0) == []
    assert decide in one.handle(Tick(), one.next_timer()), "asked for again until it is done"
    active = decide.control.active(PLAN)
    reads = one.handle(Controlled(active), 2.0)
    assert [type(read) for read in reads] == [Read]


def test_a_restarted_node_serves_an_epoch_that_began_after_it_did():
    one = ManagerNode("N1", NodeSettings(), restarted=True)
    sealing = TOGETHER.sealing("N2", Intent("line", ("A", "B")))
    one.handle(Controlled(sealing), 0.0)
    assert one.handle(Controlled(sealing.active(PLAN)), 0.0) == [Read("N1")]


def test_a_node_without_a_control_record_drops_what_its_former_life_was_told():
    one = ManagerNode("N1", NodeSettings(), restarted=True)
    assert one.handle(Received("N2", Prepared(1, "N2")), 0.0) == []
    assert one.handle(Received("s", Replan(0, ("A",))), 0.0) == []


def test_what_another_node_never_heard_ends_the_epoch():
    """A hole in a chain can only be closed by the next epoch, and nothing may pass it by meanwhile."""
    one = node("N2", APART)
    (send,) = one.handle(create("B"), 0.0)
    assert isinstance(send.message.message, Fill)
    (decide,) = one.handle(Lost("N1", (send.message,)), 0.0)
    assert decide == Decide(APART.sealing("N2", Intent("line", ("A", "B")), alive=("N2",)))
    assert one.handle(create("B", 2), 0.0) == []


def test_what_was_lost_of_an_earlier_epoch_does_not_matter():
    one = node("N2", APART)
    old = Routed("A", Fill(publication("B"), -1, {"B": 1}, ("A",), ()))
    assert one.handle(Lost("N1", (old,)), 0.0) == []


def test_what_would_end_in_another_lane_waits_for_what_is_under_way():
    """Otherwise a takeover could lose the event before and keep the one after it."""
    plan = next_plan(Intent("line", ("A", "B")), (), threshold=2, epoch=0)
    one = node("N2", first_control(plan, {"A": "N1", "B": "N2"}, ["N1", "N2"]))
    (append,) = one.handle(create("B"), 0.0)
    for subscriber in "rs":
        registration = Registration(subscriber, 1, ("A", "B"))
        one.handle(Received(subscriber, Routed("B", Join(registration, ("A", "B"), 0, {}, ("A",)))), 0.0)
    assert one.handle(create("B", 2), 0.0) == []
    effects = stored(one, append, 1)
    assert [e.to for e in effects if isinstance(e, Send) and isinstance(e.message, Routed)] == ["N1"]


def test_a_bundle_is_taken_apart_while_an_event_it_is_ordered_with_may_be_elsewhere():
    """Z's events climb to A through another node: what A knows of Z is not how far Z is."""
    held = [Registration(name, 1, ("A", "Z")) for name in "sr"]
    plan = next_plan(Intent("line", ("A", "Y", "Z")), held, threshold=2, epoch=0)
    control = first_control(plan, {"A": "N1", "Y": "N2", "Z": "N1"}, ["N1", "N2"])
    one, two = node("N1", control), node("N2", control)
    (climbing,) = one.handle(create("Z"), 0.0)
    bundle = bundle_of([Publication("q", 0, n, "A") for n in (1, 2)], 1, 0, {})
    first, second = (append.record.event for append in one.handle(Received("q", bundle), 0.0))
    assert [first.entries, second.entries] == [{"A": 1, "Z": 0}, {"A": 2, "Z": 0}]
    (passed,) = two.handle(Received("N1", climbing.message), 0.0)
    (last,) = one.handle(Received("N2", passed.message), 0.0)
    assert last.record.event.entries == {"Z": 1, "A": 2}


def test_what_follows_an_event_nobody_knows_is_not_numbered_before_it():
    one = node()
    after = Received("p", Routed("A", Create(publication("A", 2), 1, after=1)))
    assert one.handle(after, 0.0) == []
    assert one.handle(create("A", 1), 0.0) != []
    assert one.handle(after, 0.0) != []
