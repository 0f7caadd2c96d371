"""Planning epochs: who is gone, who never reported, and when that is worth an epoch."""

from unisono.engines.effects import Decide, Send
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.planner import Planner
from unisono.engines.takeover.settings import NodeSettings
from unisono.model.frames import Prepare, Registration, Report

SETTINGS = NodeSettings(lease_s=10.0, stale_share=0.5)
PLAN = next_plan(Intent("line", ("A", "B")), (), threshold=2, epoch=0)
CONTROL = first_control(PLAN, {"A": "N1", "B": "N1"}, ["N1", "N2"])


def held(name, *topics, version=1):
    return Registration(name, version, topics)


def planner(*registrations, node="N1"):
    made = Planner(node, SETTINGS)
    made.begun(CONTROL, registrations, 0.0)
    return made


def reports_of(effects):
    (decide,) = effects
    assert isinstance(decide, Decide)
    return {r.subscriber: r.topics for r in decide.control.intent.reports}


def test_an_epoch_is_planned_when_enough_registrations_are_no_longer_true():
    one = planner(held("r", "A"), held("s", "A"))
    one.report(Report(held("r", "A")), CONTROL, 8.0)
    assert one.tick(CONTROL, 8.0) == []
    assert one.tick(CONTROL, 11.0) == [Send("N1", Prepare(1, "N1"))], "one of two is gone"
    assert reports_of(one.prepared("N1", 1, CONTROL, 11.1)) == {"r": ("A",), "s": ()}


def test_who_joined_and_left_in_this_epoch_counts_too():
    one = planner()
    one.report(Report(held("r", "A", "B")), CONTROL, 1.0)
    assert one.tick(CONTROL, 1.0) == []
    one.report(Report(held("r", "A", version=2)), CONTROL, 4.0)
    assert one.tick(CONTROL, 4.0) == [Send("N1", Prepare(1, "N1"))]


def test_who_has_left_everything_is_no_reason_for_another_epoch():
    one = planner(held("r", "A"))
    one.report(Report(held("r")), CONTROL, 1.0)
    assert one.tick(CONTROL, 1.0) != []
    one.begun(CONTROL, (), 2.0)
    one.report(Report(held("r")), CONTROL, 3.0)
    assert one.tick(CONTROL, 9.0) == []


def test_who_waits_for_a_pattern_to_count_is_not_taken_for_gone():
    one = planner(held("r", "A"))
    one.report(Report(held("r", version=2), ("new.*",)), CONTROL, 1.0)
    assert one.force(CONTROL, 1.0).intent.reports == (held("r", "A", version=2),)


def test_who_does_not_lead_keeps_no_reports_that_grow_old():
    one = planner(held("r", "A"), node="N2")
    assert one.tick(CONTROL, 60.0) == []
    assert one.force(CONTROL, 60.0).intent.reports == ()


def test_a_forced_epoch_drops_nobody_for_being_silent():
    """Whoever forces it may have been asleep itself: it was it who did not hear."""
    one = planner(held("r", "A"), held("s", "A"))
    one.report(Report(held("r", "A")), CONTROL, 1.0)
    forced = one.force(CONTROL, 60.0, dead=("N2",))
    assert all(report.topics for report in forced.intent.reports)
    assert forced.intent.gone == ()
