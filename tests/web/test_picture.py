"""The picture of a system: what is put together, and what pages are told of it."""

import asyncio
from dataclasses import replace

import pytest

from unisono.engines.plan import Registration, conflict_graph, elimination_forest
from unisono.engines.takeover.control import first_control
from unisono.engines.topic_managers.describing import TopicDescription
from unisono.observability.metrics import BOUNDS_S
from unisono.runtime.remote.telling import BusTelling, NodeTelling, SubscriptionTelling
from unisono.runtime.remote.wire import Beat
from unisono.web.figures import Latencies, Tally, quantile
from unisono.web.picture import Picture
from unisono.web.streaming import Pages

TOPICS = ("orders", "payments", "stock", "chat")


def control(*, nodes=("n1", "n2"), owner=None, **changes):
    held = [Registration(frozenset(TOPICS[:3]), 2)]
    plan = elimination_forest(conflict_graph(held, TOPICS, 2))
    made = first_control(plan, owner or dict.fromkeys(TOPICS, "n1"), nodes)
    return replace(made, **changes)


def described(numbers, layout=1):
    topics = tuple(TopicDescription(t, n, (t,), (t,), 2, 0) for t, n in sorted(numbers.items()))
    return NodeTelling("n1", 1, True, 0, topics, layout=layout)


def brief(*numbers, layout=1, **more):
    return NodeTelling("n1", 1, True, 0, (), layout=layout, numbers=numbers, **more)


@pytest.fixture
def picture():
    made = Picture()
    made.see(control(), 100.0)
    made.trouble = ""
    return made


def test_numbers_come_whole_first_and_then_briefly(picture):
    assert not picture.hear(brief(1, 2, 3, 4), 0.0), "nobody knows which topics these are"
    assert picture.hear(described(dict(zip(sorted(TOPICS), (1, 2, 3, 4), strict=True))), 0.0)
    assert picture.hear(brief(5, 2, 3, 9), 0.1)
    assert not picture.hear(brief(5, 2, 3, 9, layout=2), 0.2), "its topics have changed"
    picture.look(0.3, 0.3)
    told = {picture.topics[i]: number for i, number, *_ in picture.tick(-1, 0.3)["topics"]}
    assert told == {"chat": 5, "orders": 2, "payments": 3, "stock": 9}


def test_a_page_is_told_only_what_has_changed_since_it_was_told(picture):
    picture.hear(described(dict.fromkeys(TOPICS, 10)), 0.0)
    picture.look(0.0, 0.0)
    assert len(picture.tick(-1, 0.0)["topics"]) == 4
    seen = picture.version
    assert picture.tick(seen, 0.0)["topics"] == []
    picture.hear(brief(10, 11, 10, 10), 0.1)
    picture.look(0.1, 0.1)
    assert [(picture.topics[i], n) for i, n, *_ in picture.tick(seen, 0.1)["topics"]] == [("orders", 11)]
    later = picture.version
    picture.hear(brief(12, 11, 10, 10), 0.2)
    picture.look(0.2, 0.2)
    slow = {picture.topics[i]: n for i, n, *_ in picture.tick(seen, 0.2)["topics"]}
    quick = {picture.topics[i]: n for i, n, *_ in picture.tick(later, 0.2)["topics"]}
    assert slow["orders"] == 11, "whoever was not told before is told now"
    assert quick["chat"] == 12


def test_rates_begin_with_what_was_seen_to_grow(picture):
    picture.hear(described(dict.fromkeys(TOPICS, 1_000_000)), 0.0)
    picture.look(0.0, 0.0)
    assert picture.tick(-1, 0.0)["rate"] == 0, "the past is no measure of how fast it goes now"
    for i in range(1, 31):
        picture.hear(brief(1_000_000, 1_000_000 + 20 * i, 1_000_000, 1_000_000), i / 10)
        picture.look(i / 10, i / 10)
    assert picture.tick(-1, 3.0)["rate"] == pytest.approx(200, rel=0.01)
    picture.forget_numbers()
    picture.hear(brief(2_000_000, 2_000_000, 2_000_000, 2_000_000), 60.0)
    picture.look(60.0, 60.0)
    assert picture.tick(-1, 60.0)["rate"] == 0


def test_only_the_owner_of_a_topic_says_how_far_it_is(picture):
    picture.hear(described(dict.fromkeys(TOPICS, 5)), 0.0)
    stale = NodeTelling("n2", 1, True, 0, (TopicDescription("orders", 99, (), (), 1, 0),))
    picture.hear(stale, 0.1)
    picture.look(0.2, 0.2)
    assert picture.tick(-1, 0.2)["events"] == 20


def test_groups_are_those_that_are_ordered_together(picture):
    whole = picture.whole()
    assert [(g["size"], g["owners"]) for g in whole["groups"]] == [(3, ["n1"]), (1, ["n1"])]
    overlaps = picture.overlaps(0)
    names = [t["topic"] for t in overlaps["topics"]]
    assert sorted(names) == ["orders", "payments", "stock"]
    assert overlaps["overlaps"] == 3
    assert {tuple(edge) for edge in overlaps["edges"]} == {(0, 1), (0, 2), (1, 2)}
    assert overlaps["parents"][0] == -1
    assert picture.overlaps(2) is None
    assert picture.overlaps(-1) is None


def test_what_happens_to_nodes_is_said_in_words(picture):
    dead = control(
        version=2, epoch=1, dead=("n2",), decider="n1", owner=dict.fromkeys(TOPICS, "n1"), state="active"
    )
    before = control(version=1, owner={**dict.fromkeys(TOPICS, "n1"), "orders": "n2", "chat": "n2"})
    picture.control = None
    picture.see(before, 1.0)
    picture.see(dead, 2.0)
    picture.see(dead, 3.0)
    words = [h.words for h in picture.happenings.since(0) if h.at == 2.0]
    assert words == ["n2 declared dead by n1", "n1 takes over 2 topics of n2", "epoch 1 began, decided by n1"]
    assert [h.kind for h in picture.happenings.since(0)][-3:] == ["dead", "takeover", "epoch"]


def test_a_node_that_is_silent_or_in_trouble_is_seen(picture):
    for node in ("n1", "n2"):
        picture.beat(Beat(node, 1, 1, 1), 0.0, 0.0)
    picture.beat(Beat("n1", 1, 1, 1, trouble="no space left"), 2.0, 2.0)
    picture.look(2.0, 2.0)
    assert [row["state"] for row in picture.tick(-1, 2.0)["nodes"]] == ["trouble", "silent"]
    picture.beat(Beat("n2", 1, 1, 1), 2.5, 2.5)
    picture.beat(Beat("n1", 1, 1, 1), 2.5, 2.5)
    assert [row["state"] for row in picture.tick(-1, 2.5)["nodes"]] == ["alive", "alive"]
    words = [h.words for h in picture.happenings.since(1)]
    assert words == [
        "n1 says: no space left",
        "n2 gives no sign of life",
        "n2 is heard again",
        "n1 stores again",
    ]


def bus(told_at, clock, **counts):
    told = SubscriptionTelling(name="ledger", order="total", topics=2, clock=clock, waiting=3)
    return BusTelling(bus="anna", told_at=told_at, counts=counts, subscriptions=(told,))


def test_who_is_behind_is_judged_by_what_was_known_when_it_told(picture):
    first, second = bus(1.0, {"orders": 8, "payments": 10}), bus(2.0, {"orders": 8, "payments": 10})
    picture.hear(described(dict.fromkeys(TOPICS, 10)), 0.0)
    picture.hear(brief(10, 30, 20, 10, buses=(first,)), 0.1)
    picture.hear(brief(10, 90, 80, 10, buses=(first,)), 0.2)
    (row,) = picture.tick(-1, 0.2)["subscriptions"]
    assert (row["behind"], row["waiting"]) == (2, 3), "what came after it told is not its fault"
    picture.hear(brief(10, 90, 80, 10, buses=(second,)), 1.2)
    assert picture.tick(-1, 1.2)["subscriptions"][0]["behind"] == 82 + 70


def test_what_a_node_tells_late_is_not_counted_again(picture):
    old, new = bus(1.0, {}, tagged=3, delivered=5), bus(2.0, {}, tagged=4, delivered=9)
    for telling in (old, new, old, new, old):
        picture.hear(brief(buses=(telling,)), 0.1)
    assert picture.tick(-1, 0.2)["counts"]["tagged"] == 4


def test_a_bus_that_tells_no_more_is_forgotten(picture):
    picture.hear(brief(buses=(bus(1.0, {}),)), 0.0)
    picture.look(4.0, 4.0)
    assert picture.tick(-1, 4.0)["buses"] == 1
    picture.look(6.0, 6.0)
    assert picture.tick(-1, 6.0)["buses"] == 0


def test_counters_of_those_that_begin_anew_add_up():
    tally = Tally()
    for counts in ({"held": 5}, {"held": 7}, {"held": 2}, {"held": 3}):
        tally.add("a", counts)
    tally.add("b", {"held": 10})
    assert tally.totals["held"] == 7 + 3 + 10


def test_latencies_are_those_of_the_last_moments():
    latencies, classes = Latencies(), len(BOUNDS_S) + 1
    counts = [0] * classes
    latencies.add("a", {"store": counts.copy()}, 0.0)
    counts[4] += 100  # up to 1 ms
    latencies.add("a", {"store": counts.copy(), "odd": [1, 2]}, 1.0)
    told = latencies.quantiles(2.0)
    assert list(told) == ["store"]
    assert 0.0005 < told["store"].p50 < 0.001
    assert latencies.quantiles(20.0) == {}
    assert quantile([0] * classes, 0.5) == 0.0
    assert quantile([0] * (classes - 1) + [5], 0.5) == BOUNDS_S[-1]


def test_a_slow_page_is_told_less_often_and_never_the_same_twice(picture):
    async def scenario():
        pages = Pages(picture)
        stream = pages.stream()
        assert (await anext(stream)).startswith(b"retry")
        assert pages.is_looked_at
        assert b"event: whole" in await anext(stream)
        assert b"event: tick" in await anext(stream)
        happened = await anext(stream)
        assert b"event: happened" in happened
        for i in range(100):  # while the page takes nothing
            picture.hear(described(dict.fromkeys(TOPICS, 10 + i)), i / 10)
            picture.look(i / 10, i / 10)
            pages.look()
        tick = await anext(stream)
        assert b"event: tick" in tick
        assert b"109" in tick
        pages.close()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert not pages.is_looked_at

    asyncio.run(scenario())
