"""Events, what is lost of them, and how it comes back: by each algorithm alone, and by all."""

from __future__ import annotations

from random import Random

import pytest
from epidemic_kit import Net

from unisono.engines.epidemic import DispatcherSettings
from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic.messages import (
    Echo,
    Event,
    Missed,
    PublisherPull,
    Push,
    Repair,
    Request,
    Steps,
    SubscriberPull,
    Watermark,
)
from unisono.engines.epidemic.numbers import unpack
from unisono.engines.epidemic.tracing import NUMBERS_MAX
from unisono.engines.filters import parse
from unisono.model.errors import ConfigError

LINE = ("a-b", "b-c")
FEW = {"watermarks_max": 0, "adaptive": False}  # the algorithms as the paper has them


def lose(net: Net, *to: str) -> None:
    """Lose every event on its way to these."""
    net.drop = lambda source, at, message: isinstance(message, Event) and at in to


def heal(net: Net) -> None:
    net.drop = lambda source, to, message: False


# Receiving


def test_an_event_is_numbered_for_each_pattern_that_its_source_knows():
    net = Net("a-b", covering=False)
    net.subscribe("b", "x > 1", "y > 1")
    for attributes in ({"x": 2}, {"x": 2}, {"y": 2}, {"x": 3, "y": 3}):
        net.publish("a", **attributes)
    texts = {pattern.hash: pattern.text for pattern in net["a"].table.patterns.values()}
    numbers = [{texts[key]: n for key, n in event.numbers.items()} for _, _, event in net.delivered]
    assert numbers == [{"x > 1": 1}, {"x > 1": 2}, {"y > 1": 1}, {"x > 1": 3, "y > 1": 2}]


def test_nothing_is_delivered_or_sent_on_twice():
    net = Net(*LINE)
    net.subscribe("c", "x > 1")
    net.publish("a", x=2)
    event = next(m for source, _, m in net.sent if isinstance(m, Event) and source == "a")
    sent = net.count(Event)
    for _ in range(3):
        net.give("b", io.Heard("a", event))
        net.give("c", io.Heard("a", Repair(event)))
    assert net.got("c") == [2]
    assert net.count(Event) == sent


def test_an_event_matching_two_patterns_of_a_client_is_delivered_once():
    net = Net("a-b")
    net.subscribe("b", "x > 1", "x > 2")
    net.publish("a", x=3)
    assert net.got("b") == [3]


def test_what_is_recovered_is_not_flooded_again():
    net = Net(*LINE, algorithm="none")
    net.subscribe("b", "x > 1")
    net.subscribe("c", "x > 1")
    lose(net, "b")
    net.publish("a", x=2)
    event = next(m for _, _, m in net.sent if isinstance(m, Event))
    sent = net.count(Event)
    net.give("b", io.Heard("a", Repair(event)))
    assert net.got("b") == [2]
    assert net.count(Event) == sent


def test_who_subscribes_is_not_told_the_past():
    net = Net("a-b", "b-c", algorithm="push", **FEW)
    net.subscribe("c", "x > 1")
    net.publish("a", x=2)
    net.wait(1.0)
    net.subscribe("b", "x > 1")
    net.wait(5.0)
    assert net.got("b") == []
    net.publish("a", x=3)
    assert net.got("b") == [3]


def test_a_restarted_source_numbers_in_a_life_of_its_own():
    net = Net("a-b")
    net.subscribe("b", "x > 1")
    net.publish("a", x=2)
    net.begin("a", life=2)
    net.give("a", io.LinkAdded("b"))
    net.settle()
    net.wait(0.5)
    net.publish("a", x=3)
    assert net.got("b") == [2, 3]


def test_too_large_a_payload_is_refused():
    net = Net("a-b", payload_bytes_max=3)
    net.give("a", io.PublishEvent({"x": 1}, b"four"))
    assert "over the limit of 3" in str(net.other[0].error)


# The algorithms of the paper, alone


def test_push_brings_back_even_the_last_event():
    net = Net(*LINE, algorithm="push", **FEW)
    net.subscribe("c", "x > 1")
    lose(net, "c")
    net.publish("a", x=2)
    heal(net)
    net.wait(3.0)
    assert net.got("c") == [2]
    assert net.count(Push)
    assert net.count(Request) == net.count(Repair) == 1


@pytest.mark.parametrize("algorithm", ["subscriber_pull", "publisher_pull"])
def test_a_pull_sees_a_hole_at_the_next_event_and_not_before(algorithm):
    net = Net("a-b", "b-c", "b-d", algorithm=algorithm, **FEW)
    net.subscribe("c", "x > 1")
    net.subscribe("d", "x > 1")
    net.publish("a", x=2)
    lose(net, "c")
    net.publish("a", x=3)
    heal(net)
    net.wait(3.0)
    assert net.got("c") == [2]  # it does not know that there was another
    net.publish("a", x=4)
    net.wait(3.0)
    assert sorted(net.got("c")) == [2, 3, 4]
    kind = SubscriberPull if algorithm == "subscriber_pull" else PublisherPull
    assert net.count(kind)
    assert not net.count(Push)


def test_a_pull_is_answered_by_who_keeps_the_event_for_another_pattern():
    net = Net(
        "a-b", "b-c", algorithm="subscriber_pull", covering=False, cache_policy="source_or_subscriber", **FEW
    )
    net.subscribe("b", "y > 1")
    net.subscribe("c", "x > 1")
    net.publish("a", x=2)
    lose(net, "c")
    net.publish("a", x=3, y=3)  # b keeps it for y
    heal(net)
    net.publish("a", x=4)
    net.subscribe("a", "x > 1")  # c has somebody to ask
    net.wait(3.0)
    assert sorted(net.got("c")) == [2, 3, 4]
    assert [to for source, to, m in net.sent if isinstance(m, Repair) and source == "b"] == ["c"]


def test_a_publisher_pull_is_answered_on_the_way_and_asks_the_source_for_the_rest():
    net = Net("a-b", "b-c", "c-d", algorithm="publisher_pull", cache_policy="interest_first", **FEW)
    net.subscribe("d", "x > 1")
    net.publish("a", x=2)
    lose(net, "d")
    net.publish("a", x=3)
    lose(net, "b")
    net.publish("a", x=4)
    heal(net)
    net.publish("a", x=5)
    net.wait(1.0)
    assert sorted(net.got("d")) == [2, 3, 4, 5]
    repairs = {(source, m.event.attributes["x"]) for source, _, m in net.sent if isinstance(m, Repair)}
    assert repairs == {("c", 3), ("a", 4)}
    second = [m.wanted[0][1] for source, _, m in net.sent if isinstance(m, PublisherPull) and source == "c"]
    assert second[0] == (3, 0)  # what c answered is not asked for further on


def test_a_stale_route_falls_back_to_the_source():
    net = Net("a-b", "b-c", algorithm="publisher_pull", cache_policy="source_or_subscriber", **FEW)
    net.subscribe("c", "x > 1")
    net.publish("a", x=2)
    lose(net, "c")
    net.publish("a", x=3)
    heal(net)
    net.publish("a", x=4)
    net.cut("b", "c")
    net.link("a", "c")
    net.wait(1.0)
    assert sorted(net.got("c")) == [2, 3, 4]
    asked = [to for source, to, m in net.sent if isinstance(m, PublisherPull)]
    assert asked[0] == "a"


def test_a_hole_nobody_can_fill_is_given_up_and_told():
    net = Net("a-b", algorithm="subscriber_pull", lost_rounds_max=5, **FEW)
    net.subscribe("b", "x > 1")
    net.publish("a", x=2)
    lose(net, "b")
    net.publish("a", x=3)
    heal(net)
    net.publish("a", x=4)
    net.wait(0.4)
    assert net["b"].streams.lost == 1
    net.wait(0.2)
    assert net["b"].streams.lost == 0
    assert [lost.numbers for lost in net.other if isinstance(lost, io.Lose)] == [(2,)]


def test_the_first_number_heard_of_is_where_a_stream_begins():
    net = Net(*LINE, algorithm="subscriber_pull", **FEW)
    net.subscribe("b", "x > 1")
    net.publish("a", x=2)
    net.subscribe("c", "x > 1")
    net.publish("a", x=3)
    assert net["c"].streams.lost == 0


# Ours: what finds the last event of a burst


def test_trails_find_what_was_lost_last_and_tell_those_further_on():
    net = Net("a-b", "b-c", "c-d")
    net.subscribe("b", "x > 1")
    net.subscribe("d", "x > 1")
    net.publish("a", x=2)
    lose(net, "b")
    net.publish("a", x=3)
    heal(net)
    net.wait(0.25)
    assert sorted(net.got("b")) == sorted(net.got("d")) == [2, 3]
    assert net.count(Steps)
    assert net.count(Missed) == 1
    assert [(source, to) for source, to, m in net.sent if isinstance(m, Echo)] == [
        ("a", "b"),
        ("b", "c"),
        ("c", "d"),
    ]
    assert not net.count(SubscriberPull)
    assert not net.count(PublisherPull)
    assert {(s, to) for s, to, m in net.sent if isinstance(m, Repair)} == {("a", "b"), ("a", "d")}


def test_trails_fall_silent():
    net = Net(*LINE)
    net.subscribe("c", "x > 1")
    net.publish("a", x=2)
    net.wait(1.0)
    told = net.count(Steps)
    net.wait(5.0)
    assert net.count(Steps) == told == 2 * net.settings.beacons


def test_a_new_neighbour_is_told_what_it_would_have_got():
    net = Net("a-b", "b-c")
    net.subscribe("c", "x > 1")
    net.cut("b", "c")
    net.settle()
    net.publish("a", x=2)
    net.wait(0.2)
    net.link("b", "c")
    net.settle()
    net.wait(0.3)
    assert net.got("c") == [2]


def lost_between_a_and_b(net: Net, **attributes: object) -> None:
    """Publish at a; b is told of it, and fetches it only if it must."""
    lose(net, "b")
    net.publish("a", **attributes)
    heal(net)
    net.wait(0.3)


def test_a_new_neighbour_is_told_of_what_we_were_only_told_of():
    net = Net("a-b", "b-c")
    net.subscribe("c", "x > 1")
    net.cut("b", "c")
    lost_between_a_and_b(net, x=2)
    assert not len(net["b"].cache)
    net.link("b", "c")
    net.settle()
    assert net.got("c") == [2]
    assert not net.count(Push) + net.count(PublisherPull)


def test_who_is_new_here_with_a_narrower_pattern_is_told_too():
    net = Net("a-b", "b-d")
    net.subscribe("c", "x > 5")  # it hangs on nobody yet
    net.subscribe("d", "x > 1")
    net.drop = lambda source, to, m: isinstance(m, Event) or "d" in (source, to)
    net.publish("a", x=3)
    net.publish("a", x=7)
    net.wait(0.3)
    assert not len(net["b"].cache)
    heal(net)
    net.link("b", "c")
    net.settle()
    assert net.got("c") == [7]
    assert not net.count(Push)


def test_who_is_behind_a_wider_pattern_is_told_when_the_content_is_known():
    net = Net("a-b", "b-c", "b-d")
    net.subscribe("d", "x > 1")
    net.subscribe("c", "x > 5")
    assert net.wanted("a", "b") == {"x > 1"}
    net.drop = lambda source, to, m: "d" in (source, to) or (isinstance(m, Event) and to == "b")
    net.publish("a", x=7)
    net.publish("a", x=3)
    net.wait(0.3)
    assert net.got("c") == [7]
    assert [m.event.attributes for _, to, m in net.sent if isinstance(m, Repair) and to == "c"] == [{"x": 7}]
    assert not net.count(Push)


def test_what_has_no_number_is_asked_for_until_it_comes():
    net = Net("b-c", adaptive=False, push_every=1000)
    net.subscribe("c", "x > 1")
    net.wait(0.2)
    net.publish("a", x=2)  # a knows of nobody who wants it
    requests: list[str] = []

    def drop(source: str, to: str, message: object) -> bool:
        if isinstance(message, Request):
            requests.append(source)
        return isinstance(message, Request) and len(requests) < 4

    net.drop = drop
    net.link("a", "b")
    net.settle()
    net.wait(0.5)
    assert net.got("c") == [2]
    net.wait(2.0)
    assert requests == ["c"] * 4


def test_a_link_that_flaps_costs_one_message_of_bounded_size_each_time():
    net = Net("a-b", digest_ids_max=8, covering=False)
    patterns = [f"x > {n}" for n in range(40)]
    net.subscribe("b", *patterns)
    net.wait(0.1)
    for x in range(50, 80):
        net.publish("a", x=x % 10)
    for _ in range(5):
        net.cut("a", "b")
        net.sent.clear()
        net.link("a", "b")
        net.settle()
        echoes = [m for source, _, m in net.sent if isinstance(m, Echo) and source == "a"]
        assert len(echoes) == 1
        assert 0 < sum(len(entry[4]) for _, entry in echoes[0].entries) <= 8 * NUMBERS_MAX
        assert not net.count(Request)  # it has all of it


def test_who_subscribes_at_a_new_neighbour_is_not_told_the_past():
    net = Net("a-b", "b-c")
    net.subscribe("c", "x > 1")
    net.cut("b", "c")
    lost_between_a_and_b(net, x=2)
    net.subscribe("d", "x > 1")
    net.link("b", "d")
    net.settle()
    net.wait(5.0)
    assert net.got("d") == []


def test_a_source_that_falls_silent_says_how_far_it_had_come_twice():
    net = Net(*LINE, trails=False, adaptive=False)
    net.subscribe("c", "x > 1")
    net.publish("a", x=2)
    lose(net, "c")
    net.publish("a", x=3)
    heal(net)
    net.wait(0.8)
    assert sorted(net.got("c")) == [2, 3]
    net.wait(5.0)
    assert sum(isinstance(m, Watermark) and source == "a" for source, _, m in net.sent) == 2


def test_watermarks_on_gossip_tell_other_subscribers():
    net = Net("a-b", "b-c", "b-d", algorithm="push", adaptive=False, covering=False)
    net.subscribe("c", "x > 1")
    net.subscribe("d", "x > 1")
    net.publish("a", x=2)
    lose(net, "d")
    net.publish("a", x=3)
    heal(net)
    net.drop = lambda source, to, m: isinstance(m, Request)
    net.wait(5.0)
    assert any(m.marks for _, _, m in net.sent if isinstance(m, Push))
    assert net["d"].streams.lost or any(isinstance(e, io.Lose) for e in net.other)


def test_rounds_quicken_while_something_is_missing_and_slow_down_while_nothing_is():
    net = Net("a-b", algorithm="publisher_pull", watermarks_max=0)
    net.subscribe("b", "x > 1")
    net.wait(10.0)
    assert net["b"].pace == net.settings.slow_down_max
    net.publish("a", x=2)
    lose(net, "b")
    net.publish("a", x=3)
    net.drop = lambda source, to, m: isinstance(m, Repair)
    net.publish("a", x=4)
    assert net["b"].gossip_at <= net.now + net.settings.gossip_s
    net.wait(0.5)
    assert net["b"].pace == 1 / net.settings.speed_up_max
    heal(net)
    net.wait(0.5)
    assert sorted(net.got("b")) == [2, 3, 4]


def test_what_is_found_missing_starts_a_round_at_once():
    net = Net("a-b", algorithm="publisher_pull", immediate=True, gossip_s=10.0, **FEW)
    net.subscribe("b", "x > 1")
    net.publish("a", x=2)
    lose(net, "b")
    net.publish("a", x=3)
    heal(net)
    net.publish("a", x=4)
    net.wait(0.02)
    assert sorted(net.got("b")) == [2, 3, 4]


# Bounds, and what nobody well-meaning would send


def test_every_buffer_keeps_its_bound_under_a_flood():
    net = Net(
        "a-b",
        cache_events_max=5,
        lost_max=7,
        streams_max=3,
        routes_max=2,
        sources_max=4,
        told_max=3,
        trail_steps_max=4,
        numbers_max=2,
    )
    net.subscribe("b", *(f"x > {i}" for i in range(4)))
    keys = sorted(net["b"].table.local)
    random = Random(1)
    for i in range(400):  # check() runs after each
        source = f"s{random.randrange(9)}"
        numbers = {key: random.randrange(1, 500) for key in random.sample(keys, 2)}
        event = Event(source, 1, i + 1, numbers, {"x": 9}, route=(source,), trail=7, step=i * 3)
        net.give("b", io.Heard("a", event))
        net.give("b", io.Heard("z", Repair(Event(source, 2, i + 1, numbers, {"x": 9}))))
        net.publish("a", settle=False, x=random.randrange(9))
    assert len(net["b"].cache) == 5


@pytest.mark.parametrize(
    "message",
    [
        Push("z", b"12345678", (("s", 1, (1, 10**12)),), (), 64),
        Push("b", b"12345678", (("s", -1, (-5, -5, 3)),), (("s", 1, -1, -1),), -1),
        Request((("a", 1, (1, 10**12)),)),
        SubscriberPull("z", b"", (("a", 1, (1, 10**12)),), (("a", 1, 10**15, 0),), 64),
        PublisherPull("z", "a", 1, ((b"x", (1, 10**12)),), ("a",) * 1000),
        Missed(7, (1, 10**12)),
        Steps(7, 10**15),
        Echo(7, ((10**15, ("z", "s", 1, 1, ((b"x", 10**15),))),)),
        Watermark("s", 1, {b"x": 10**15}, -5, 64),
    ],
    ids=lambda message: type(message).__name__,
)
def test_nothing_that_is_sent_breaks_a_bound(message):
    net = Net("a-b")
    net.subscribe("b", "x > 1")
    key = next(iter(net["b"].table.local))
    net.publish("a", x=2)
    sent = len(net.sent)
    for source in ("a", "z"):
        net.give("b", io.Heard(source, message))
        if isinstance(message, Watermark):
            net.give("b", io.Heard(source, Watermark("s", 1, {key: 10**15}, 0, 64)))
            net.give("b", io.Heard(source, Watermark("s", 1, {key: 10**16}, 0, 64)))
    assert len(net.sent) - sent <= 8


def test_what_others_send_takes_no_more_room_than_is_meant_for_it():
    net = Net("a-b", "b-c", digest_ids_max=4, route_hops_max=3)
    net.subscribe("c", "x > 1")
    key = next(iter(net["c"].table.local))
    net.give(
        "b", io.Heard("a", Event("s", 1, 1, {key: 1}, {"x": 2}, route=tuple(f"r{i}" for i in range(500))))
    )
    assert len(net["b"].routes.back_to("s")) == 3
    net.give("b", io.Heard("a", Watermark("s", 1, {key: 9}, 0, 10**9)))
    net.settle()
    assert [m.hops_left for _, to, m in net.sent if isinstance(m, Watermark) and to == "c"] == [2]


def test_a_source_says_how_far_it_had_come_in_one_message_of_bounded_size():
    net = Net("a-b", digest_ids_max=4, trails=False)
    net.subscribe("b", *(f"x == {i}" for i in range(9)))
    for i in range(9):
        net.publish("a", x=i)
    net.wait(net.settings.silence_s * 4)
    marks = [m for _, _, m in net.sent if isinstance(m, Watermark)]
    assert [len(m.numbers) for m in marks] == [4, 4]
    assert set(marks[0].numbers) == {parse(f"x == {i}").hash for i in range(5, 9)}


def test_a_publisher_pull_asks_for_no_more_than_a_digest_holds():
    net = Net("a-b", digest_ids_max=4, algorithm="publisher_pull")
    net.subscribe("b", *(f"x == {i}" for i in range(6)))
    for i in range(6):
        net.publish("a", x=i)
    net.drop = lambda source, to, message: isinstance(message, Event)
    for i in range(6):
        net.publish("a", x=i)
    net.drop = lambda source, to, message: False
    for i in range(6):
        net.publish("a", x=i)
    assert net["b"].streams.lost == 6
    (pull,) = (e.message for e in net["b"].recovery.pull_from_publishers(net.now))
    assert sum(len(list(unpack(few, 99))) for _, few in pull.wanted) == 4


def test_clients_have_room_for_so_many_subscriptions():
    net = Net("a-b", patterns_max=3)
    net.subscribe("a", "x > 1", client="u")
    net.subscribe("a", "x > 1", client="v")
    net.subscribe("a", "x > 1", "x > 2", client="w")
    assert [type(effect) for effect in net.other] == [io.Reject]
    net.unsubscribe("a", "x > 1", client="u")
    net.subscribe("a", "x > 2", client="w")
    assert sorted(net["a"].table.clients(net["a"].table.local, 1e9)) == ["v", "w"]
    net["a"].check()


@pytest.mark.parametrize(
    "wrong",
    [{"gossip_s": 0}, {"jitter": 1.0}, {"forward_probability": 2.0}, {"lost_max": 0}, {"push_every": 0}],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        DispatcherSettings(**wrong)


def test_a_twin_goes_the_same_way():
    net = Net("a-b")
    net.subscribe("b", "x > 1")
    net.publish("a", x=2)
    one, two = net["b"], net["b"].copy()
    assert one.state() == two.state()
    for dispatcher in (one, two):
        dispatcher.handle(io.TICK, 5.0)
    assert one.state() == two.state()
