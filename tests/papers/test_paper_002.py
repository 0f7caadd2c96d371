"""Paper 002, section by section: what it says of its algorithms, and where we had to decide."""

from __future__ import annotations

import sys
from pathlib import Path

from unisono.engines.epidemic import inputs as io
from unisono.engines.epidemic.messages import Event, PublisherPull, Push, Repair, Request, SubscriberPull

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engines"))
from epidemic_kit import Net

PAPER = {"watermarks_max": 0, "adaptive": False}


def numbers(net: Net, event: Event) -> dict[str, int]:
    texts = {pattern.hash: pattern.text for pattern in net["s"].table.patterns.values()}
    return {texts[key]: number for key, number in event.numbers.items()}


def test_figure_1_routes_are_the_reverse_paths_of_subscriptions():
    net = Net("a-b", "b-c", "b-d", "d-e", covering=False)
    net.subscribe("a", "black == 1")
    net.subscribe("e", "black == 1")
    net.subscribe("c", "gray == 1")
    routes = {(name, to): net.wanted(name, to) for name in net.dispatchers for to in net[name].table.links}
    assert routes["b", "a"] == routes["d", "e"] == {"black == 1"}
    assert routes["d", "b"] == {"black == 1", "gray == 1"}
    assert routes["b", "c"] == {"gray == 1"}


def test_section_4_2_an_identifier_names_every_pattern_with_a_number_of_its_own():
    """S had published four events for Pa and three for Pb; the next one, for both, is S:Pa-5:Pb-4."""
    net = Net("s-r", covering=False)
    net.subscribe("r", "a == 1", "b == 1")
    for _ in range(4):
        net.publish("s", a=1)
    for _ in range(3):
        net.publish("s", b=1)
    net.publish("s", a=1, b=1)
    assert numbers(net, net.delivered[-1][2]) == {"a == 1": 5, "b == 1": 4}


def test_section_4_2_who_has_it_as_pb_4_can_send_it_as_pa_5():
    net = Net(
        "s-m",
        "m-a",
        "m-b",
        algorithm="subscriber_pull",
        covering=False,
        cache_policy="source_or_subscriber",
        **PAPER,
    )
    net.subscribe("a", "a == 1")
    net.subscribe("b", "b == 1", "a == 2")
    net.publish("s", a=1)
    net.drop = lambda source, to, m: isinstance(m, Event) and to == "a"
    net.publish("s", a=1, b=1)
    net.drop = lambda source, to, m: False
    net.publish("s", a=1)
    lost = next(iter(net["a"].streams.missing()))
    pull = SubscriberPull("a", lost[2], (("s", 1, (2, 0)),), (), 64)
    net.give("b", io.Heard("m", pull))
    net.settle()
    assert len([e for name, _, e in net.delivered if name == "a"]) == 3


def test_figure_2_push_takes_any_pattern_of_the_table_not_only_local_ones():
    net = Net("a-b", "b-c", algorithm="push", **PAPER)
    net.subscribe("c", "x > 1")
    net.publish("a", x=2)
    net.wait(1.0)
    assert {source for source, _, m in net.sent if isinstance(m, Push)} >= {"a", "b"}
    assert net.count(Request) == 0  # nothing is missing


def test_figure_2_push_is_never_sent_back_on_the_link_it_came_by():
    net = Net("a-b", "b-c", algorithm="push", forward_probability=1.0, **PAPER)
    net.subscribe("a", "x > 1")
    net.subscribe("c", "x > 1")
    net.publish("b", x=2)
    push = Push("a", next(iter(net["b"].table.patterns)), (("b", 1, (1, 0)),), (), 64)
    sent = [effect.to for effect in net.give("b", io.Heard("a", push)) if isinstance(effect, io.Send)]
    assert sent == ["c"]


def test_figure_3_a_pull_round_without_losses_sends_nothing():
    for algorithm in ("subscriber_pull", "publisher_pull"):
        net = Net("a-b", algorithm=algorithm, **PAPER)
        net.subscribe("b", "x > 1")
        net.publish("a", x=2)
        net.wait(5.0)
        assert net.count(SubscriberPull) == net.count(PublisherPull) == 0


def test_figure_3_a_dispatcher_that_is_not_subscribed_always_passes_a_pull_on():
    net = Net("a-b", "b-c", algorithm="subscriber_pull", forward_probability=0.0, covering=False, **PAPER)
    net.subscribe("a", "x > 1")
    net.subscribe("c", "x > 1")
    key = next(iter(net["b"].table.patterns))
    pull = SubscriberPull("a", key, (("s", 1, (7, 0)),), (), 64)
    assert [e.to for e in net.give("b", io.Heard("a", pull))] == ["c"]
    assert net.give("c", io.Heard("b", pull)) == []  # subscribed: only with P_forward


def test_section_4_2_a_publisher_is_not_asked_for_what_is_held_on_the_way():
    """No implosion of requests: the first dispatcher on the route that holds the event answers."""
    net = Net("s-m", *(f"m-r{i}" for i in range(6)), algorithm="publisher_pull", **PAPER)
    for i in range(6):
        net.subscribe(f"r{i}", "x > 1")
    net.publish("s", x=2)
    net.drop = lambda source, to, m: isinstance(m, Event) and to.startswith("r")
    net.publish("s", x=3)
    net.drop = lambda source, to, m: False
    net.publish("s", x=4)
    net.wait(1.0)
    assert all(sorted(net.got(f"r{i}")) == [2, 3, 4] for i in range(6))
    assert {source for source, _, m in net.sent if isinstance(m, Repair)} == {"m"}


def test_section_5_pull_is_silent_in_a_stable_system_and_push_is_not():
    quiet = Net("a-b", algorithm="subscriber_pull", **PAPER)
    busy = Net("a-b", algorithm="push", **PAPER)
    for net in (quiet, busy):
        net.subscribe("b", "x > 1")
        net.publish("a", x=2)
        net.sent.clear()
        net.wait(3.0)
    assert not quiet.sent
    assert busy.count(Push) >= 25
