"""Topics that are made on the way, patterns, quotas, placing, truncated lanes: the engines one by one."""

import itertools
from dataclasses import replace

from engine_kit import publication
from hypothesis import given
from hypothesis import strategies as st

from unisono.engines.effects import (
    Acknowledge,
    Admit,
    Append,
    Confirm,
    Decide,
    Deliver,
    Fail,
    Ignore,
    Listen,
    Look,
    Read,
    Refuse,
    Send,
    Truncate,
)
from unisono.engines.inputs import Appended, Change, Controlled, Notified, Publish, ReadBack, Received, Tick
from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.patterns import is_match, matching
from unisono.engines.takeover.placing import place, relieve
from unisono.engines.takeover.planner import Planner
from unisono.engines.takeover.recovery import recover
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.volumes import Mark
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.node import ManagerNode
from unisono.engines.topic_managers.publisher import Publisher
from unisono.engines.topic_managers.registry import Registry
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.errors import LeaseError, QuotaError
from unisono.model.frames import (
    ANY_EPOCH,
    Create,
    EpochNotice,
    Join,
    Joined,
    Nack,
    Prepare,
    Publication,
    Refused,
    Registration,
    Repair,
    Replan,
    Report,
    Routed,
    Sequenced,
    Stamped,
)
from unisono.model.ids import EventId, matches
from unisono.model.lanes import EpochRecord, EventRecord, SealRecord
from unisono.model.runs import bundle_of, creates_of

EMPTY = first_control(Plan(rank=(), parent={}, group={}), {}, ["N1"])
PATTERN = Registration("s", 1, ("new.*",))


def with_topics(control, *topics, patterns=None, node="N1"):
    """The control record after an epoch that made these topics."""
    rank = (*control.plan.rank, *topics)
    intent = Intent("line", rank)
    sealing = control.sealing(node, intent, moves=dict.fromkeys(topics, node), patterns=patterns)
    return sealing.active(next_plan(intent, (), 2, sealing.epoch))


ONE = with_topics(EMPTY, "A")

# Patterns are what the model says they are.

words = st.sampled_from(["a", "b", "new", "a+b", "x(y"])
topics = st.lists(words, min_size=1, max_size=4).map(".".join)
patterns = st.lists(st.one_of(words, st.just("*")), max_size=3).flatmap(
    lambda head: st.sampled_from([".".join([*head, end]) for end in ("*", ">", "a")])
)


@given(patterns, topics)
def test_patterns_mean_what_the_model_says(pattern, topic):
    assert is_match((pattern,), topic) == matches(pattern, topic)
    assert matching((pattern,), [topic]) == [topic] * matches(pattern, topic)


# Publishers.


def publish(*topics_and_n):
    return Publish([publication(topic, n) for topic, n in topics_and_n])


def told(control, causal=False):
    made = Publisher(causal=causal)
    made.handle(Controlled(control), 0.0)
    return made


def test_an_event_waits_until_its_topic_is_made_and_others_do_not_wait_for_it():
    one = told(ONE)
    effects = one.handle(publish(("new", 1), ("A", 2), ("new", 3)), 0.0)
    assert effects == [
        Send("N1", Routed("A", Create(publication("A", 2), 2))),
        Send("N1", Replan(1, topics=("new",))),
    ]
    one.check()
    effects = one.handle(Controlled(with_topics(ONE, "new")), 1.0)
    [bundle] = [effect.message for effect in effects]
    assert [(publication.n, after) for publication, after in creates_of(bundle)] == [(1, 0), (3, 1)]
    assert bundle.acknowledged == 1
    [again] = one.handle(Tick(), one.next_timer())  # the owner of A is as it was, and may still answer
    assert again == Send("N1", Routed("A", Create(publication("A", 2), 1)))
    one.check()


def test_a_topic_is_asked_for_again_with_growing_pauses_and_at_once_in_a_new_epoch():
    one = told(ONE)
    one.handle(publish(("new", 1)), 0.0)
    times = []
    for _ in range(4):
        now = one.next_timer()
        times.append(now)
        assert one.handle(Tick(), now) == [Send("N1", Replan(1, topics=("new",)))]
    assert [b - a for a, b in itertools.pairwise(times)] == [2.0, 4.0, 8.0]
    assert one.handle(Controlled(with_topics(ONE, "other")), 20.0) == [Send("N1", Replan(2, topics=("new",)))]


def test_a_record_that_is_being_sealed_makes_no_topic_yet():
    """Found by the simulator: its owners are those to come, and a younger event overtook an older one."""
    one = told(ONE)
    one.handle(publish(("new", 1)), 0.0)
    sealing = ONE.sealing("N1", Intent("line", ("A", "new")), moves={"new": "N1"})
    assert one.handle(Controlled(sealing), 0.0) == []
    assert one.handle(publish(("new", 2)), 0.0) == []
    effects = one.handle(Controlled(sealing.active(next_plan(sealing.intent, (), 2, 2))), 0.0)
    [send] = effects
    assert [publication.n for publication, _ in creates_of(send.message)] == [1, 2]


def test_what_follows_waits_for_a_topic_that_is_made_where_causes_come_first():
    one = told(ONE, causal=True)
    assert one.handle(publish(("new", 1), ("A", 2)), 0.0) == [Send("N1", Replan(1, topics=("new",)))]
    (send,) = one.handle(Controlled(with_topics(ONE, "new")), 0.0)
    assert send.message.message.publication.n == 1
    answer = Sequenced("new", EventId("p", 0, 1), 2, {"new": 1})
    acknowledge, after = one.handle(Received("N1", answer), 0.0)
    assert acknowledge == Acknowledge(answer)
    assert after.message.message.publication.n == 2


def test_events_on_a_topic_that_is_refused_are_refused():
    for causal in (False, True):
        one = told(ONE, causal=causal)
        one.handle(publish(("new", 1), ("A", 2)), 0.0)
        effects = one.handle(Received("N1", Refused("enough", ("new",))), 0.0)
        assert isinstance(effects[0], Refuse)
        assert effects[0].id == EventId("p", 0, 1)
        assert isinstance(effects[0].error, QuotaError)
        assert one.strangers == {}
        assert [p.n for p in one.outgoing] == [2]


# Members.


def member(settings=SubscriberSettings(), control=EMPTY):
    made = Member("s", settings)
    made.handle(Controlled(control), 0.0)
    return made


def event(topic, number, others=None, epoch=1):
    return Stamped(Publication("p", 0, number, topic), epoch, {topic: number, **(others or {})})


def notice(epoch, numbers, gone=()):
    return Notified(EpochNotice(epoch, numbers, {}, gone))


def heard(effects):
    return [f"{e.topic}#{e.number}" for d in effects if isinstance(d, Deliver) for e in d.events]


def test_a_topic_that_does_not_exist_is_asked_for():
    one = member()
    assert one.handle(Change(add=("A", "B")), 0.0) == [
        Listen(("A", "B")),
        Send("N1", Replan(0, ("A", "B"))),
    ]
    (send,) = one.handle(Controlled(with_topics(EMPTY, "A", "B")), 0.0)
    assert send.to == "N1"
    assert send.message.message.registration.topics == ("A", "B")


def test_a_pattern_counts_when_an_epoch_says_so_and_owes_its_topics_from_their_first_event():
    one = member()
    assert one.handle(Change(add=("new.*",)), 0.0) == [
        Listen(("new.*",)),
        Send("N1", Replan(0, patterns=PATTERN)),
    ]
    first = with_topics(EMPTY, patterns={"s": PATTERN})
    assert one.handle(Controlled(first), 0.0) == [Confirm(("new.*",))]
    assert one.handle(notice(1, {}), 0.0) == []
    second = with_topics(first, "new.1")
    assert one.handle(Notified(event("new.1", 2, epoch=2)), 0.0) == []  # too early: it waits
    assert one.handle(Notified(event("new.1", 1, epoch=2)), 0.0) == []
    one.handle(Controlled(second), 0.0)
    effects = one.handle(notice(2, {"new.1": 0}), 0.0)
    assert effects[0] == Admit({"new.1": 0})
    assert heard(effects) == ["new.1#1", "new.1#2"]
    one.check()


def test_no_epoch_is_entered_before_it_is_known_whether_a_pattern_counts_in_it():
    one = member(control=ONE)
    one.handle(Change(add=("A",)), 0.0)
    one.handle(Received("N1", Joined(1, ("A",), 1, {"A": 0})), 0.0)
    one.handle(Change(add=("new.*",)), 0.0)
    assert one.handle(notice(2, {"A": 0, "new.1": 7}), 0.0) == []
    assert heard(one.handle(Notified(event("A", 1, epoch=2)), 0.0)) == []
    counted = with_topics(ONE, "new.1", patterns={"s": Registration("s", 2, ("new.*",))})
    effects = one.handle(Controlled(counted), 0.0)
    assert effects[:2] == [Confirm(("new.*",)), Admit({"new.1": 7})]
    assert heard(effects) == ["A#1"]


def test_notices_that_a_holder_of_patterns_has_only_heard_of_are_asked_for():
    one = member()
    one.handle(Change(add=("new.*",)), 0.0)
    control = with_topics(with_topics(EMPTY, patterns={"s": PATTERN}), "new.1")
    one.handle(Controlled(control), 0.0)
    effects = one.handle(Tick(), one.next_timer())
    assert Send("N1", Routed("new.1", Nack("new.1", "s", (), 1))) in effects
    effects = one.handle(Received("N1", Repair("new.1", (), (), 0, (EpochNotice(2, {"new.1": 3}),))), 1.0)
    assert effects == [Admit({"new.1": 3})]


def test_what_is_wanted_by_name_survives_the_pattern_and_the_other_way_round():
    one = member()
    one.handle(Change(add=("new.*",)), 0.0)
    control = with_topics(EMPTY, "new.1", "new.2", patterns={"s": PATTERN})
    one.handle(Controlled(control), 0.0)
    one.handle(notice(1, {"new.1": 0, "new.2": 0}), 0.0)
    assert one.handle(Change(add=("new.1",)), 0.0) == []  # it is owed already
    effects = one.handle(Change(remove=("new.*",)), 0.0)
    assert effects == [Listen(("new.1",)), Ignore(("new.*", "new.2"))]
    assert set(one.inner.clock) == {"new.1"}
    one.check()


def test_a_pattern_that_comes_back_is_asked_for_under_a_new_version():
    one = member()
    one.handle(Change(add=("new.*",)), 0.0)
    control = with_topics(EMPTY, "new.1", patterns={"s": PATTERN})
    one.handle(Controlled(control), 0.0)
    one.handle(notice(1, {"new.1": 0}), 0.0)
    one.handle(Change(remove=("new.*",)), 0.0)
    effects = one.handle(Change(add=("new.*",)), 0.0)
    assert effects[1] == Send("N1", Replan(1, patterns=Registration("s", 2, ("new.*",))))
    assert one.inner.hoped == {"new.*"}


def test_who_is_not_counted_any_more_is_told_so():
    one = member()
    one.handle(Change(add=("new.*",)), 0.0)
    control = with_topics(EMPTY, patterns={"s": PATTERN})
    one.handle(Controlled(control), 0.0)
    (fail,) = one.handle(Controlled(with_topics(control, "new.1", patterns={})), 0.0)
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, LeaseError)


def test_who_asks_for_too_much_fails_by_name():
    one = member()
    one.handle(Change(add=("A",)), 0.0)
    (fail,) = one.handle(Received("N1", Refused("too many")), 0.0)
    assert isinstance(fail.error, QuotaError)
    assert one.handle(Received("N1", Refused("too many")), 0.0) == []
    assert one.handle(Received("N1", Joined(1, ("A",), 0, {"A": 0})), 0.0) == []
    assert one.next_timer() is None


def test_epochs_that_nobody_remembers_end_a_subscription():
    one = member(control=ONE)
    one.handle(Change(add=("A",)), 0.0)
    one.handle(Received("N1", Joined(1, ("A",), 1, {"A": 0})), 0.0)
    (fail,) = one.handle(Received("N1", Repair("A", (), (), 9, (EpochNotice(5, {"A": 9}),))), 0.0)
    assert isinstance(fail.error, LeaseError)


def test_a_subscriber_lives_through_hundreds_of_epochs():
    one = member(control=ONE)
    one.handle(Change(add=("A",)), 0.0)
    one.handle(Received("N1", Joined(1, ("A",), 1, {"A": 0})), 0.0)
    for epoch in range(2, 300):
        one.handle(notice(epoch, {"A": epoch - 2}), 0.0)
        assert heard(one.handle(Notified(event("A", epoch - 1, epoch=epoch)), 0.0)) == [f"A#{epoch - 1}"]
    assert len(one.inner.epochs.known()) < 64


def test_a_registration_of_the_same_version_adds_what_it_names():
    """Found by a walk: an epoch had registered the patterns of a join's own version, and the join was ignored."""
    registry = Registry("new.1")
    registry.add(Registration("s", 3, ("B", "new.1")))
    registry.add(Registration("s", 3, ("A", "B", "new.1")))
    registry.add(Registration("s", 2, ("C", "new.1")))
    assert registry.conflicts(1) == {"A", "B"}


# Recovery.


def test_an_epoch_registers_who_holds_a_pattern_before_a_number_is_taken():
    start = recover({}, 1, ("A", "new.1"), (), (PATTERN, Registration("t", 1, ("x.>",))))
    assert start.registrations == (Registration("s", 1, ("new.1",)),)
    assert start.notice.numbers == {"A": 0, "new.1": 0}


def test_topics_that_do_not_exist_are_not_registered():
    begun = EpochRecord(0, EpochNotice(0, {"A": 0}), (Registration("s", 1, ("A", "nowhere")),), ())
    start = recover({"N1": (begun, SealRecord(1))}, 1, ("A",))
    assert start.registrations == (Registration("s", 1, ("A",)),)


# Planning.


def decided(one, control, *replans, now=0.0):
    for replan in replans:
        one.request(replan, control, now, "c", trusted=False)
    (decide,) = [e for e in one.prepared("N1", control.epoch + 1, control, now) if isinstance(e, Decide)]
    return decide.control


def test_topics_asked_for_by_many_are_made_in_one_epoch():
    one = Planner("N1", NodeSettings())
    control = decided(one, EMPTY, Replan(0, topics=("x", "y")), Replan(0, wants=("y", "z")))
    assert control.intent.rank == ("x", "y", "z")
    assert control.owner == dict.fromkeys("xyz", "N1")
    assert control.intent.wants == (("y", "z"),)


def test_what_exists_already_is_no_reason_for_an_epoch():
    one = Planner("N1", NodeSettings())
    assert one.request(Replan(1, topics=("A",)), ONE, 0.0, "c", trusted=False) == []
    assert one.request(Replan(1, wants=("A",)), ONE, 0.0, "c", trusted=False) == []
    assert one.request(Replan(1), ONE, 0.0, "c", trusted=False) == []
    assert one.request(Replan(1), ONE, 0.0) == [Send("N1", Prepare(2, "N1"))]


def refused(settings, replan, control=ONE, asks="c", before=()):
    one = Planner("N1", settings)
    for earlier in before:
        one.request(earlier, control, 0.0, asks, trusted=False)
    effects = one.request(replan, control, 0.0, asks, trusted=False)
    return [e.message for e in effects if isinstance(e, Send) and e.to == asks]


def test_every_quota_has_its_refusal():
    cases = (
        (NodeSettings(topics_max=1), Replan(1, topics=("x",)), ("x",)),
        (NodeSettings(client_topics_per_minute=1), Replan(1, topics=("x", "y")), ("y",)),
        (NodeSettings(client_topics_per_minute=1), Replan(1, wants=("x", "y")), ("x", "y")),
        (NodeSettings(subscriber_topics_max=1), Replan(1, wants=("A", "B")), ()),
        (NodeSettings(), Replan(1, topics=("no topic",)), ("no topic",)),
        (NodeSettings(patterns_max=1), Replan(1, patterns=Registration("c", 1, ("*", ">"))), ()),
        (NodeSettings(holders_max=0), Replan(1, patterns=Registration("c", 1, ("*",))), ()),
        (NodeSettings(subscriber_topics_max=0), Replan(1, patterns=Registration("c", 1, ("*",))), ()),
        (NodeSettings(subscriber_topics_max=0), Replan(1, patterns=Registration("c", 1, ("A",))), ()),
        (NodeSettings(), Replan(1, patterns=Registration("c", 1, ("a.>.b",))), ()),
        (NodeSettings(), Replan(1, patterns=Registration("other", 1, ("*",))), ()),
        (NodeSettings(client_epochs_per_minute=0), Replan(1, topics=("x",)), ("x",)),
    )
    for settings, replan, about in cases:
        (answer,) = refused(settings, replan)
        assert answer.topics == about, replan
        assert answer.reason


def test_a_quota_is_for_a_minute():
    one = Planner("N1", NodeSettings(client_topics_per_minute=1))
    assert one.request(Replan(1, topics=("x",)), ONE, 0.0, "c", trusted=False)
    (told,) = one.request(Replan(1, topics=("y",)), ONE, 59.0, "c", trusted=False)
    assert isinstance(told.message, Refused)
    assert one.request(Replan(1, topics=("z",)), ONE, 59.0, "d", trusted=False) == []
    assert one.request(Replan(1, topics=("y",)), ONE, 61.0, "c", trusted=False) == []
    assert set(one.requests.topics) == {"x", "y", "z"}


def test_a_pattern_is_dropped_when_its_holder_says_so_and_not_by_an_older_word():
    control = with_topics(ONE, patterns={"s": Registration("s", 2, ("a.*", "b.*"))})
    one = Planner("N1", NodeSettings(stale_share=0.5))
    one.begun(control, (), 0.0)
    one.report(Report(Registration("s", 1, ()), ()), control, 0.0)
    assert one.dropped == {}
    one.report(Report(Registration("s", 2, ()), ("b.*",)), control, 0.0)
    assert one.tick(control, 0.0) == [Send("N1", Prepare(3, "N1"))]
    (decide,) = one.prepared("N1", 3, control, 0.0)
    assert decide.control.patterns == {"s": Registration("s", 2, ("b.*",))}
    assert decide.control.intent.gone == ()


def test_who_holds_a_pattern_and_is_not_heard_of_is_gone():
    control = with_topics(ONE, patterns={"s": PATTERN})
    one = Planner("N1", NodeSettings(lease_s=10.0))
    one.begun(control, (), 0.0)
    assert one.tick(control, 11.0) == [Send("N1", Prepare(3, "N1"))]
    (decide,) = one.prepared("N1", 3, control, 11.0)
    assert decide.control.patterns == {}
    assert decide.control.intent.gone == ("s",)


def test_a_holder_whose_patterns_come_to_stand_for_too_much_is_told_so():
    control = with_topics(ONE, patterns={"s": Registration("s", 1, ("*",))})
    one = Planner("N1", NodeSettings(subscriber_topics_max=1))
    one.begun(control, (), 0.0)
    one.request(Replan(2, topics=("x",)), control, 0.0, "c", trusted=False)
    told, decide = one.prepared("N1", 3, control, 0.0)
    assert told.to == "s"
    assert isinstance(told.message, Refused)
    assert decide.control.intent.gone == ("s",)


def test_a_node_leaves_with_empty_hands_and_the_last_one_stays():
    two = with_topics(first_control(EMPTY.plan, {}, ["N1", "N2"]), "A", node="N2")
    one = Planner("N1", NodeSettings())
    one.request(Replan(ANY_EPOCH, leaving="N2"), two, 0.0, "N1")
    (decide,) = one.prepared("N2", 2, two, 0.0)
    assert (decide.control.nodes, decide.control.owner) == (("N1",), {"A": "N1"})
    alone = Planner("N1", NodeSettings())
    alone.request(Replan(ANY_EPOCH, leaving="N1"), ONE, 0.0, "N1")
    (decide,) = alone.prepared("N1", 2, ONE, 0.0)
    assert decide.control.nodes == ("N1",)


def test_a_new_node_is_counted_and_given_what_an_operator_says():
    one = Planner("N1", NodeSettings(node_names="N"))
    one.request(Replan(1, alive="N2"), ONE, 0.0, "N2", trusted=False)
    one.request(Replan(1, alive="evil"), ONE, 0.0, "evil", trusted=False)
    one.request(Replan(1, moves={"A": "N2", "B": "N2"}), ONE, 0.0, "N1")
    (decide,) = one.prepared("N1", 2, ONE, 0.0)
    assert (decide.control.nodes, decide.control.owner) == (("N1", "N2"), {"A": "N2"})


# Placing.


def placed(control, new, together=(), nodes=("N1", "N2"), limit=1000):
    return place(control, new, together, nodes, limit)


def test_what_is_alone_goes_where_there_is_least_and_what_belongs_together_stays_together():
    assert placed(ONE, ("x", "y", "z")) == {"x": "N2", "y": "N1", "z": "N2"}
    assert placed(ONE, ("x", "y"), [("A", "x", "y")]) == {"x": "N1", "y": "N1"}
    assert placed(ONE, ("x", "y", "z"), [("A", "x", "y", "z")], limit=2) == {"x": "N1", "y": "N2", "z": "N2"}


def test_a_node_with_too_much_gives_whole_components_to_the_one_with_least():
    rank = ("A", "B", "C", "D")
    held = [Registration(name, 1, ("A", "B")) for name in ("s", "t")]
    plan = next_plan(Intent("line", rank), held, 2, 0)
    control = first_control(plan, dict.fromkeys(rank, "N1"), ["N1", "N2"])
    assert relieve(control, ("N1", "N2"), 1000) == {}
    assert relieve(control, ("N1",), 1) == {}
    assert relieve(control, ("N1", "N2"), 2) == {"C": "N2", "D": "N2"}


# Nodes.


def node(control, lanes=None, name="N1", settings=NodeSettings()):
    made = ManagerNode(name, settings)
    return made, adopt(made, control, lanes or {})


def adopt(made, control, lanes):
    effects = []
    for effect in made.handle(Controlled(control), 0.0):
        if isinstance(effect, Read):
            records = lanes.get(effect.lane, ())
            effects += made.handle(ReadBack(effect.lane, tuple(records), 100), 0.0)
    made.check()
    return effects


def test_a_system_without_topics_can_be_started():
    one, effects = node(EMPTY)
    assert effects == []
    assert one.writer is not None
    assert EMPTY.lanes == ("N1",)
    asked = one.handle(Received("p", Replan(0, topics=("A",))), 0.0)
    assert asked == [Send("N1", Prepare(1, "N1"))]


def test_a_node_that_is_not_counted_asks_to_be():
    one, _ = node(ONE, name="N2")
    assert one.handle(Controlled(with_topics(ONE, "B")), 0.0) == [Send("N1", Replan(2, alive="N2"))]


def test_a_node_that_has_left_does_not_ask_to_come_back():
    both = first_control(ONE.plan, {"A": "N1"}, ["N1", "N2"])
    one, _ = node(both, name="N2")
    sealing = both.sealing("N1", Intent("line", ("A",)), leaving=("N2",))
    left = sealing.active(next_plan(sealing.intent, (), 2, sealing.epoch))
    assert one.handle(Controlled(left), 0.0) == []
    assert one.has_left
    assert [e for e in one.handle(Tick(), one.next_timer()) if not isinstance(e, Look)] == []


def began(epoch, numbers=None):
    return EpochRecord(epoch, EpochNotice(epoch, numbers or {"A": 2 * epoch}), (), ())


def stored(epoch, index, number):
    return EventRecord(epoch, index, Stamped(publication("A", number), epoch, {"A": number}))


LANE = (
    began(1),
    stored(1, 1, 3),
    stored(1, 2, 4),
    SealRecord(2),
    began(2),
    began(2),
    stored(2, 1, 5),
    stored(2, 2, 6),
    SealRecord(3),
    began(3),
)
THIRD = with_topics(with_topics(ONE))


def test_a_lane_is_cut_where_an_epoch_before_this_one_begins_and_enough_is_kept():
    assert THIRD.epoch == 3
    for older, cut in ((1, None), (95, 94)):
        control = replace(THIRD, marks={"N1": Mark(older, 100, 100)})
        _, effects = node(control, {"N1": LANE})
        assert effects == ([Truncate("N1", cut)] if cut else [])


def test_what_was_cut_off_is_gone_and_what_is_kept_is_repaired():
    one, _ = node(THIRD, {"N1": LANE[4:]})
    (send,) = one.handle(Received("s", Routed("A", Nack("A", "s", (1, 2, 3, 5, 6, 7)))), 0.0)
    assert send.message.gone == (1, 2, 3)
    assert [event.number for event in send.message.events] == [5, 6]


def test_an_epoch_whose_beginning_is_not_kept_any_more_is_not_served():
    one, effects = node(THIRD, {"N1": (began(5),)})
    assert effects == [Look()]
    assert one.managers == {}


def test_a_long_lane_makes_a_node_ask_for_an_epoch():
    one, _ = node(THIRD, {"N1": LANE}, settings=NodeSettings(lane_records_max=2))
    asked = []
    for n in (1, 2, 3):
        effects = one.handle(Received("p", Routed("A", Create(Publication("p", 1, n, "A")))), 0.0)
        appends = [effect for effect in effects if isinstance(effect, Append)]
        for append in appends:
            effects += one.handle(Appended(append.lane, append.record, append.expected + 1), 0.0)
        asked += [effect for effect in effects if isinstance(effect, Send)]
    assert [effect for effect in asked if isinstance(effect.message, Replan)] == [Send("N1", Replan(3))]


def test_a_lane_is_long_by_records_by_events_and_by_bytes():
    for settings, asks in (
        (NodeSettings(lane_records_max=2), (False, True)),
        (NodeSettings(lane_events_max=7), (False, True)),
        (NodeSettings(lane_bytes_max=8 * 148), (False, True)),
        (NodeSettings(lane_bytes_max=0), (False, False)),
    ):
        one, _ = node(THIRD, {"N1": LANE}, settings=settings)
        for serial, asked in enumerate(asks):
            events = [Publication("p", 1, 4 * serial + n, "A", b"x" * 100) for n in (1, 2, 3, 4)]
            effects = one.handle(Received("p", bundle_of(events, serial + 1, 0, {})), 0.0)
            assert sum(isinstance(effect, Append) for effect in effects) == 1
            assert (Send("N1", Replan(3)) in effects) == asked


def test_a_thousand_topics_on_one_path_are_climbed_without_a_deep_call():
    rank = tuple(f"t{i}" for i in range(1000))
    plan = next_plan(Intent("line", rank), (), 2, 0)
    one, _ = node(first_control(plan, dict.fromkeys(rank, "N1"), ["N1"]))
    for name in ("s", "t"):
        held = Registration(name, 1, rank[:2] + rank[-1:])
        path = plan.climb(rank[-1])
        from_the_bottom = Routed(rank[-1], _join(held, path))
        (append,) = one.handle(Received(name, from_the_bottom), 0.0)
    create = Routed(rank[-1], Create(Publication("p", 1, 1, rank[-1])))
    (append,) = one.handle(Received("p", create), 0.0)
    assert append.record.event.entries == {"t999": 1, "t1": 0, "t0": 0}


def _join(held, path):
    return Join(held, held.topics, 0, {}, path[1:])
