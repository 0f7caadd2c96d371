"""Views: sets of topics whose common order is kept, whether anybody listens or not."""

from unisono.engines.effects import Confirm, Decide, Fail, Send
from unisono.engines.inputs import Controlled, Received, Tick
from unisono.engines.plan import Plan
from unisono.engines.takeover.control import VIEW, Intent, first_control, next_plan
from unisono.engines.takeover.planner import Planner
from unisono.engines.takeover.recovery import recover
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.views import ViewAsker, view_of
from unisono.engines.takeover.wire import decode_control, encode_control
from unisono.model.errors import QuotaError
from unisono.model.frames import EpochNotice, Refused, Registration, Replan
from unisono.model.lanes import EpochRecord
from unisono.sim.moving.views import unordered

PLAN = next_plan(Intent("line", ("A", "B", "C")), (), threshold=2, epoch=0)
CONTROL = first_control(PLAN, dict.fromkeys("ABC", "N1"), ["N1"])
AB = view_of("desk", ("B", "A"))


def decided(control, *replans, settings=NodeSettings(), source="c", trusted=True):
    """What is answered, and the record that is decided on."""
    planner, told = Planner("N1", settings), []
    for replan in replans:
        told += planner.request(replan, control, 0.0, source, trusted=trusted)
    effects = planner.tick(control, 1.0)
    sealing = [effect.control for effect in effects if isinstance(effect, Decide)]
    return [e for e in told if isinstance(e.message, Refused)], sealing[0] if sealing else None


def with_view(view=AB, control=CONTROL):
    _, sealing = decided(control, Replan(control.epoch, view=view))
    held = recover({}, sealing.epoch, sealing.intent.rank, (), sealing.holders()).registrations
    return sealing.active(next_plan(sealing.intent, held, 2, sealing.epoch), {"N1": 5})


def test_a_view_is_in_the_record_of_the_next_epoch_and_of_those_that_are_forced():
    control = with_view()
    assert control.views == {"desk": AB}
    assert control.viewed("desk") == {"A", "B"}
    forced = Planner("N1", NodeSettings()).force(control, 0.0)
    assert forced.views == control.views
    assert decode_control(encode_control(control)) == control


def test_its_topics_are_ordered_together_though_nobody_holds_them():
    for kind in ("line", "forest"):
        plan = next_plan(Intent(kind, ("A", "B", "C")), with_view().holders(), 2, 1)
        assert plan.group["A"] == plan.group["B"] == {"A", "B"}
        assert plan.group["C"] == {"C"}


def test_a_view_is_registered_with_every_epoch_while_it_counts_and_not_longer():
    control = with_view(view_of("desk", ("A", "new.*")))
    began = EpochRecord(1, EpochNotice(1, {"A": 3}), (Registration(VIEW + "old", 1, ("A", "B")),), ())
    found = recover({"N1": (began,)}, 2, ("A", "B", "new.1"), (), control.holders())
    assert [(r.subscriber, r.topics) for r in found.registrations] == [(VIEW + "desk", ("A", "new.1"))]


def test_a_view_has_no_lease():
    planner = Planner("N1", NodeSettings(lease_s=1.0))
    control = with_view()
    planner.begun(control, (Registration(VIEW + "desk", 1, ("A", "B"), 2),), 0.0)
    assert planner.registered == planner.reports == {}
    assert planner.tick(control, 100.0) == []


def test_what_is_there_as_it_is_wanted_needs_no_epoch_and_other_topics_are_refused():
    control = with_view()
    assert decided(control, Replan(1, view=AB), trusted=False) == ([], None)
    (refused,), sealing = decided(control, Replan(1, view=view_of("desk", ("A", "C"))))
    assert "other topics (A, B)" in refused.message.reason
    assert sealing is None


def test_bad_views_and_too_many_are_refused_by_name():
    for view, reason in (
        (view_of("a b", ("A",)), "space"),
        (view_of("desk", ("A", "B..C")), "B..C"),
        (view_of("desk", ()), "between 1 and"),
        (view_of("desk", ("A", "B", "C")), "between 1 and 2"),
        (view_of("desk", ("*",)), "stand for 3 topics"),
    ):
        settings = NodeSettings(subscriber_topics_max=2)
        (refused,), sealing = decided(CONTROL, Replan(0, view=view), settings=settings)
        assert reason in refused.message.reason
        assert sealing is None
    (refused,), sealing = decided(
        CONTROL,
        Replan(0, view=AB),
        Replan(0, view=view_of("two", ("A",))),
        settings=NodeSettings(views_max=1),
    )
    assert "no more than 1 views" in refused.message.reason
    assert sealing.views == {"desk": AB}


def test_only_operators_remove_views():
    control = with_view()
    assert decided(control, Replan(1, drop_view="desk"), trusted=False)[1] is None
    assert decided(control, Replan(1, drop_view="desk"), source="N1")[1].views == {}
    assert decided(control, Replan(1, drop_view="other"), source="N1")[1] is None


def test_whoever_asks_for_a_view_asks_again_and_hears_when_it_counts():
    asker = ViewAsker(AB)
    ask = Send("N1", Replan(0, view=AB))
    assert asker.handle(Controlled(CONTROL), 0.0) == [ask]
    assert asker.handle(Tick(), asker.next_timer()) == [ask]
    control = with_view()
    assert asker.handle(Controlled(control), 1.0) == [Confirm(("A", "B"))]
    assert asker.next_timer() is None


def test_whoever_asks_for_a_view_that_cannot_be_fails_by_name():
    asker = ViewAsker(AB)
    asker.handle(Controlled(CONTROL), 0.0)
    (fail,) = asker.handle(Received("N1", Refused("too many")), 0.0)
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, QuotaError)
    assert "'desk'" in str(fail.error)


def test_a_system_without_topics_may_have_views():
    empty = first_control(Plan(rank=(), parent={}, group={}), {}, ["N1"])
    _, sealing = decided(empty, Replan(0, view=AB))
    assert sealing.views == {"desk": AB}
    _, later = decided(with_view(AB, empty), Replan(1, topics=("A", "B", "C")))
    assert later.holders() == sealing.holders()
    assert list(unordered([], {})) == []
