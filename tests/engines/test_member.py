"""A subscription that changes while events flow."""

import pytest

from unisono.engines.effects import Admit, Deliver, Ignore, Listen, Send
from unisono.engines.inputs import Change, Controlled, Lost, Notified, Received, Tick
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.topic_managers.member import Member
from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.model.errors import LeaseError
from unisono.model.frames import (
    EpochNotice,
    Join,
    Joined,
    Publication,
    Registration,
    Replan,
    Report,
    Routed,
    Stamped,
)

WAIT, TAG = SubscriberSettings(), SubscriberSettings(on_gap="tag")


def control(kind="line", held=()):
    plan = next_plan(Intent(kind, ("A", "B", "C")), held, threshold=2, epoch=0)
    return first_control(plan, {"A": "N1", "B": "N2", "C": "N2"}, ["N1", "N2"])


def member(settings=WAIT, kind="line", held=()):
    made = Member("s", settings)
    made.handle(Controlled(control(kind, held)), 0.0)
    return made


def event(topic, entries, epoch=0, n=1):
    return Stamped(Publication("p", 0, n, topic), epoch, entries)


def heard(effects):
    return [e.publication.topic + str(e.number) for d in effects if isinstance(d, Deliver) for e in d.events]


def join(version, topics, new, rest, epoch=0):
    return Join(Registration("s", version, topics), new, epoch, {}, rest)


def joined(one, version, reached, epoch=0):
    return one.handle(Received("N1", Joined(version, tuple(sorted(reached)), epoch, reached)), 0.0)


def test_it_listens_before_it_joins_and_climbs_from_its_lowest_topic():
    effects = member().handle(Change(add=("A", "C")), 0.0)
    assert effects == [
        Listen(("A", "C")),
        Send("N2", Routed("C", join(1, ("A", "C"), ("A", "C"), ("B", "A")))),
    ]


def test_what_is_owed_begins_where_the_join_reached():
    one = member()
    one.handle(Change(add=("A",)), 0.0)
    assert heard(one.handle(Notified(event("A", {"A": 3})), 0.0)) == []  # it is not known yet from where on
    assert heard(one.handle(Notified(event("A", {"A": 4})), 0.0)) == []
    effects = joined(one, 1, {"A": 3})
    assert effects[0] == Admit({"A": 3})
    assert heard(effects) == ["A4"]


def test_while_joining_what_names_the_new_topic_waits():
    one = member()
    one.handle(Change(add=("B",)), 0.0)
    joined(one, 1, {"B": 0})
    one.handle(Change(add=("A",)), 0.0)
    assert heard(one.handle(Notified(event("B", {"B": 1, "A": 1})), 0.0)) == []
    assert heard(joined(one, 2, {"A": 1})) == ["B1"]


def test_who_tags_holds_only_the_new_topics_own_events():
    one = member(TAG)
    one.handle(Change(add=("B",)), 0.0)
    joined(one, 1, {"B": 0})
    one.handle(Change(add=("A",)), 0.0)
    assert heard(one.handle(Notified(event("B", {"B": 1, "A": 1})), 0.0)) == ["B1"]


def test_one_join_at_a_time():
    one = member()
    one.handle(Change(add=("A",)), 0.0)
    assert one.handle(Change(add=("B",)), 0.0) == []
    effects = joined(one, 1, {"A": 0})
    assert Listen(("B",)) in effects
    assert Send("N2", Routed("B", join(2, ("A", "B"), ("B",), ("A",)))) in effects


def test_an_answer_to_a_join_that_was_given_up_is_ignored():
    one = member()
    one.handle(Change(add=("A",)), 0.0)
    assert one.handle(Change(remove=("A",)), 0.0) == [Ignore(("A",))]
    assert joined(one, 1, {"A": 0}) == []
    one.handle(Change(add=("A",)), 0.0)
    assert joined(one, 1, {"A": 0}) == []
    assert joined(one, 2, {"A": 7})[0] == Admit({"A": 7})


def test_a_registration_names_what_was_left_too():
    one = member()
    one.handle(Change(add=("B",)), 0.0)
    joined(one, 1, {"B": 0})
    one.handle(Change(remove=("B",)), 0.0)
    effects = one.handle(Change(add=("A",)), 0.0)
    assert effects[-1] == Send("N2", Routed("B", join(2, ("A", "B"), ("A",), ("A",))))


def test_leaving_lets_go_of_what_waited():
    one = member()
    one.handle(Change(add=("A", "B")), 0.0)
    joined(one, 1, {"A": 0, "B": 0})
    assert heard(one.handle(Notified(event("B", {"B": 1, "A": 1})), 0.0)) == []
    effects = one.handle(Change(remove=("A",)), 0.0)
    assert heard(effects) == ["B1"]
    assert Ignore(("A",)) in effects


def test_topics_on_two_branches_need_an_epoch():
    held = (Registration("x", 1, ("A", "C")), Registration("y", 1, ("B", "C")))
    plan = next_plan(Intent("forest", ("C", "A", "B")), held, threshold=2, epoch=0)
    one = Member("s", WAIT)
    one.handle(Controlled(first_control(plan, dict.fromkeys("ABC", "N1"), ["N1"])), 0.0)
    assert plan.parent == {"C": None, "A": "C", "B": "C"}
    assert one.handle(Change(add=("A", "B")), 0.0) == [
        Listen(("A", "B")),
        Send("N1", Replan(0, ("A", "B"))),
    ]


def test_a_join_without_an_answer_is_sent_again_further_and_further_apart():
    one = Member("s", WAIT, join_s=1.0)
    one.handle(Controlled(control()), 0.0)
    one.handle(Change(add=("A",)), 0.0)
    times = []
    for _ in range(4):
        now = one.next_timer()
        times.append(now)
        (again,) = one.handle(Tick(), now)
        assert again == Send("N1", Routed("A", join(1, ("A",), ("A",), ())))
    assert times == [1.0, 3.0, 7.0, 15.0]


def test_it_reports_now_and_then_what_it_holds():
    one = Member("s", WAIT, report_s=3.0)
    one.handle(Controlled(control()), 0.0)
    one.handle(Change(add=("A", "B")), 0.0)
    joined(one, 1, {"A": 0, "B": 0})
    one.handle(Change(remove=("B",)), 0.0)
    assert one.handle(Tick(), 3.0) == [Send("N1", Report(Registration("s", 1, ("A",))))]


def test_events_of_the_next_epoch_wait_for_all_of_the_last():
    one = member()
    one.handle(Change(add=("A", "B")), 0.0)
    joined(one, 1, {"A": 0, "B": 0})
    assert heard(one.handle(Notified(event("B", {"B": 2}, epoch=1)), 0.0)) == []
    notice = EpochNotice(1, {"A": 2, "B": 1}, {"A": ((2, 2),), "B": ((1, 1),)})
    assert heard(one.handle(Notified(notice), 0.0)) == []
    assert heard(one.handle(Notified(event("A", {"A": 1})), 0.0)) == ["A1", "B2"]
    assert one.inner.epoch == 1


def test_who_never_waits_tags_what_comes_from_an_epoch_that_is_over():
    one = member(TAG)
    one.handle(Change(add=("A", "B")), 0.0)
    joined(one, 1, {"A": 0, "B": 0})
    one.handle(Notified(EpochNotice(1, {"A": 1, "B": 1})), 0.0)
    (first,) = one.handle(Notified(event("B", {"B": 2}, epoch=1)), 0.0)
    assert first.in_order
    (late,) = one.handle(Notified(event("A", {"A": 1}, epoch=0)), 0.0)
    assert not late.in_order


def test_a_new_epoch_starts_with_what_is_held_then():
    one = member()
    one.handle(Change(add=("A", "B")), 0.0)
    joined(one, 1, {"A": 0, "B": 0})
    one.handle(Change(remove=("B",)), 0.0)
    one.handle(Notified(EpochNotice(1, {"A": 0, "B": 0, "C": 0})), 0.0)
    assert one.held == {"A"}


def test_who_never_waits_tags_what_comes_from_an_epoch_it_was_not_told_of():
    """The notice might say that we are gone, and that nothing is ordered for us any more."""
    one = member(TAG)
    one.handle(Change(add=("A", "B")), 0.0)
    joined(one, 1, {"A": 0, "B": 0})
    (early,) = one.handle(Notified(event("B", {"B": 2}, epoch=1)), 0.0)
    assert not early.in_order
    assert one.next_timer() is not None, "it asks for the notice"


@pytest.mark.parametrize("settings", [WAIT, TAG])
def test_an_epoch_that_began_without_us_ends_the_subscription(settings):
    one = member(settings)
    one.handle(Change(add=("A",)), 0.0)
    joined(one, 1, {"A": 0})
    (fail,) = one.handle(Notified(EpochNotice(1, {"A": 0}, {}, gone=("s",))), 0.0)
    assert isinstance(fail.error, LeaseError)
    assert one.handle(Notified(event("A", {"A": 1}, epoch=1)), 0.0) == [], "and nothing is said after that"


def test_a_newcomer_does_not_mind_that_it_was_gone_before():
    one = member()
    one.handle(Change(add=("A",)), 0.0)
    assert one.handle(Notified(EpochNotice(1, {"A": 0}, {}, gone=("s",))), 0.0) == []


def test_a_topic_wanted_left_and_wanted_again_while_another_is_joined_is_joined_once():
    one = member()
    one.handle(Change(add=("A",)), 0.0)
    one.handle(Change(add=("B",)), 0.0)
    one.handle(Change(remove=("B",)), 0.0)
    one.handle(Change(add=("B",)), 0.0)
    joined(one, 1, {"A": 0})
    assert joined(one, 2, {"A": 0, "B": 3}) == [Admit({"B": 3})]
    assert not one.new


def test_what_a_former_life_of_a_node_was_asked_is_asked_again():
    one = member()
    one.handle(Change(add=("A",)), 0.0)
    assert one.handle(Lost("N1", ()), 0.1) == [Send("N1", Routed("A", join(1, ("A",), ("A",), ())))]
