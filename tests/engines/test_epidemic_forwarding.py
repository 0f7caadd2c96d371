"""Subscriptions lay routes on the tree: propagation, covering, unsubscribing, repair."""

from __future__ import annotations

import pytest
from epidemic_kit import Net

from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic.messages import Event, Interests, Noted

LINE = ("a-b", "b-c", "c-d")
STAR = ("m-a", "m-b", "m-c")


def test_a_subscription_reaches_every_dispatcher_and_events_come_back_along_it():
    net = Net(*LINE)
    net.subscribe("d", "x > 1")
    assert net.wanted("a", "b") == net.wanted("b", "c") == net.wanted("c", "d") == {"x > 1"}
    assert net.wanted("d", "c") == set()
    net.publish("a", x=2)
    net.publish("a", x=1)
    assert net.got("d") == [2]
    assert net.count(Event) == 3


def test_an_event_goes_only_where_it_is_wanted():
    net = Net(*STAR)
    net.subscribe("a", "x == 1")
    net.subscribe("b", "x == 2")
    net.publish("c", x=2)
    assert [(source, to) for source, to, m in net.sent if isinstance(m, Event)] == [("c", "m"), ("m", "b")]


def test_the_same_pattern_is_passed_on_once_and_withdrawn_with_its_last_subscriber():
    net = Net(*STAR)
    net.subscribe("a", "x > 1")
    before = net.count(Interests)
    net.subscribe("b", "x > 1")
    assert net.count(Interests) == before + 2  # b to m, and m to a: c knows
    net.unsubscribe("a", "x > 1")
    assert net.wanted("c", "m") == {"x > 1"}
    net.unsubscribe("b", "x > 1")
    assert net.wanted("c", "m") == net.wanted("m", "a") == net.wanted("m", "b") == set()


def test_a_subscription_is_withdrawn_only_with_the_last_client():
    net = Net("a-b")
    net.subscribe("a", "x > 1", client="u")
    net.subscribe("a", "x > 1", client="v")
    net.unsubscribe("a", "x > 1", client="u")
    net.publish("b", x=2)
    assert [(name, client) for name, client, _ in net.delivered] == [("a", "v")]


def test_what_another_subscription_covers_is_not_passed_on_until_that_one_goes():
    net = Net(*STAR)
    net.subscribe("a", "x > 1")
    net.subscribe("b", "x > 5")
    assert net.wanted("c", "m") == {"x > 1"}
    assert net.wanted("m", "b") == {"x > 5"}
    net.publish("c", x=7)
    net.publish("c", x=3)
    assert (net.got("a"), net.got("b")) == ([7, 3], [7])
    net.unsubscribe("a", "x > 1")
    assert net.wanted("c", "m") == {"x > 5"}


def test_without_covering_all_are_passed_on():
    net = Net(*STAR, covering=False)
    net.subscribe("a", "x > 1")
    net.subscribe("b", "x > 5")
    assert net.wanted("c", "m") == {"x > 1", "x > 5"}


def test_a_link_that_goes_takes_its_routes_with_it_and_a_new_one_lays_them_again():
    net = Net(*LINE)
    net.subscribe("d", "x > 1")
    net.cut("b", "c")
    net.wait(3.5)
    assert net.wanted("a", "b") == set()
    net.link("a", "c")
    net.settle()
    assert net.wanted("b", "a") == {"x > 1"}
    net.publish("b", x=2)
    assert net.got("d") == [2]


def test_what_is_published_while_a_link_is_missing_is_numbered_and_comes_later():
    net = Net(*LINE)
    net.subscribe("d", "x > 1")
    net.publish("a", x=2)
    net.cut("b", "c")
    net.settle()
    assert net.wanted("a", "b") == {"x > 1"}  # somebody will lead there again
    net.publish("a", x=3)
    net.wait(1.0)
    net.link("a", "c")
    net.settle()
    net.publish("a", x=4)
    net.wait(5.0)
    assert sorted(net.got("d")) == [2, 3, 4]
    net.cut("a", "c")
    net.wait(3.5)
    assert net.wanted("b", "a") == set()


def test_lost_subscriptions_are_told_again():
    net = Net("a-b")
    net.drop = lambda source, to, message: isinstance(message, Interests | Noted)
    net.subscribe("a", "x > 1")
    assert net.wanted("b", "a") == set()
    net.drop = lambda source, to, message: False
    net.wait(0.3)
    assert net.wanted("b", "a") == {"x > 1"}
    told = net.count(Interests)
    net.wait(2.0)
    assert net.count(Interests) == told  # and then no more


def test_many_subscriptions_go_in_portions():
    net = Net("a-b", changes_max=3)
    net.subscribe("a", *(f"x == {i}" for i in range(20)))
    assert len(net.wanted("b", "a")) == 20
    assert all(len(m.changes) <= 3 for _, _, m in net.sent if isinstance(m, Interests))


def test_changes_that_pile_up_begin_a_new_session():
    net = Net("a-b", unconfirmed_max=4)
    net.drop = lambda source, to, message: True
    net.subscribe("a", *(f"x == {i}" for i in range(20)))
    for i in range(19):
        net.unsubscribe("a", f"x == {i}")
    assert net["a"].table.links["b"].unconfirmed <= 4
    net.drop = lambda source, to, message: False
    net.wait(0.3)
    assert net.wanted("b", "a") == {"x == 19"}


def test_a_neighbour_in_a_new_life_is_told_everything_again():
    net = Net("a-b")
    net.subscribe("a", "x > 1")
    net.begin("b", life=2)
    net.give("b", io.LinkAdded("a"))  # a has not noticed
    net.settle()
    assert net.wanted("b", "a") == {"x > 1"}


def test_an_end_of_a_former_link_confirms_nothing():
    net = Net("a-b")
    net.subscribe("a", "x > 1")
    late = []
    net.drop = lambda source, to, m: source == "b" and isinstance(m, Noted) and not late.append(m)
    net.cut("a", "b")
    net.give("a", io.LinkAdded("b"))
    net.give("b", io.LinkAdded("a"))
    net.settle()
    net.give("b", io.LinkRemoved("a"))  # b had the link for a moment, confirmed, and has it anew
    net.drop = lambda source, to, m: False
    net.give("b", io.LinkAdded("a"))
    net.settle()
    for noted in late:
        net.give("a", io.Heard("b", noted))
    net.wait(0.5)
    assert net.wanted("b", "a") == {"x > 1"}


@pytest.mark.parametrize("text", ["x >", "", "x == 1 and"])
def test_what_is_no_pattern_is_refused(text):
    net = Net("a-b")
    net.give("a", io.Subscribe("c", text))
    assert isinstance(net.other[0], io.Reject)
    net.give("b", io.Heard("a", Interests((1, 99), 1, ((True, text or "((", 0),))))
    assert isinstance(net.other[1], io.Reject)


def test_a_neighbour_cannot_have_more_patterns_than_there_is_room_for():
    net = Net("a-b", patterns_max=3)
    net.give("b", io.Heard("a", Interests((1, 99), 1, tuple((True, f"x == {i}", 0) for i in range(5)))))
    assert len(net.wanted("b", "a")) == 3
    assert "no room" in str(net.other[0].error)
