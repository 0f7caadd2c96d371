"""From the shell: nodes, publishers and subscribers as processes of their own."""

import json
from itertools import combinations

import pytest
from shell_kit import event_lines, start_nodes

from unisono.pipeline.plan_cost import Costs
from unisono.pipeline.plan_document import PlanDocument, PlannedTopic, save_plan
from unisono.pipeline.plan_place import Host, Placement

WANTED = (("orders", "payments"), ("payments", "stock"), ("orders", "stock"), ("orders", "payments", "stock"))
TOPICS = ("orders", "payments", "stock")


@pytest.mark.parametrize("count", [1, 2])
def test_three_publishers_and_four_subscribers_agree(shell, count):
    start_nodes(shell, count)
    counts = [300 * len(topics) for topics in WANTED]
    subscribers = [
        shell("sub", *topics, "--json", "--count", str(count), "--idle", "20")
        for topics, count in zip(WANTED, counts, strict=True)
    ]
    for subscriber in subscribers:
        subscriber.wait_for_line('"ready"')
    publishers = [
        shell("pub", "--stdin", "--name", f"p{i}", stdin=event_lines(TOPICS, f"p{i}", 300)) for i in range(3)
    ]
    for publisher in publishers:
        assert publisher.end() == 0, "".join(publisher.errors)
    heard = []
    for subscriber, topics in zip(subscribers, WANTED, strict=True):
        assert subscriber.end() == 0, "".join(subscriber.errors)
        first, *events = map(json.loads, subscriber.lines)
        assert first == {"ready": True}
        assert len(events) == 300 * len(topics)
        assert all(e["in_order"] and e["stamp"][e["topic"]] for e in events)
        heard.append([e["id"] for e in events])
    for one, other in combinations(heard, 2):
        common = set(one) & set(other)
        assert common
        assert [id for id in one if id in common] == [id for id in other if id in common]


def test_sub_ends_after_a_count_and_pub_says_where(shell):
    start_nodes(shell, 1)
    subscriber = shell("sub", "orders", "--json", "--count", "2")
    subscriber.wait_for_line('"ready"')
    publisher = shell("pub", "orders", '{"id": 7}', "--id", "seven", "--json")
    assert publisher.end() == 0
    assert json.loads(publisher.lines[0]) == {"id": "seven", "topic": "orders", "stamp": {"orders": 1}}
    assert shell("pub", "orders", "just words").end() == 0
    assert subscriber.end() == 0
    _, one, two = map(json.loads, subscriber.lines)
    assert (one["id"], one["data"], two["data"]) == ("seven", {"id": 7}, "just words")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pub", "orders"), "name a topic and its data"),
        (("pub", "--stdin"), "line 1 of standard input is not an event"),
        (("sub", "orders", "--order", "alphabetic"), "order='alphabetic' is unknown"),
        (("sub", "a b"), "a b"),
    ],
)
def test_nonsense_is_refused_by_name(shell, words, says):
    start_nodes(shell, 1)
    command = shell(*words, stdin="not json\n" if "--stdin" in words else None)
    assert command.end() == 2
    assert says in " ".join("".join(command.errors).split())


def test_no_node_and_no_broker_are_told_apart(shell, nats_url):
    lonely = shell("pub", "orders", "1")
    assert lonely.end() == 2
    assert "no unisono node answers" in " ".join("".join(lonely.errors).split())
    nobody = shell("pub", "orders", "1", url="nats://127.0.0.1:1")
    assert nobody.end() == 2
    assert "no NATS server answers" in " ".join("".join(nobody.errors).split())


def test_topics_and_groups_are_shown(shell):
    start_nodes(shell, 1)
    listeners = [shell("sub", "orders", "payments", "--json") for _ in range(2)]
    listeners.append(shell("sub", "news", "--json"))
    for listener in listeners:
        listener.wait_for_line('"ready"')
    shown = shell("topics", "--json")
    assert shown.end() == 0
    found = json.loads("".join(shown.lines))
    assert {row["topic"]: row["owner"] for row in found["topics"]} == dict.fromkeys(
        ("orders", "payments", "news"), "n0"
    )
    grouped = shell("groups", "--json")
    assert grouped.end() == 0
    groups = json.loads("".join(grouped.lines))["groups"]
    assert sorted(group["topics"] for group in groups) == [["news"], ["orders", "payments"]]


def test_a_plan_is_loaded_into_the_running_system(shell, tmp_path):
    start_nodes(shell, 2)
    listeners = [shell("sub", "orders", "payments", "news", "--json") for _ in range(2)]
    for listener in listeners:
        listener.wait_for_line('"ready"')
    plan = tmp_path / "plan.json"
    save_plan(plan_document({"news": "n0", "payments": "n1", "orders": "n0", "unheard_of": "n1"}), plan)
    applied = shell("rank", "--apply", str(plan), "--json")
    assert applied.end() == 0, "".join(applied.errors)
    loaded = json.loads("".join(applied.lines))
    assert loaded["loaded"]
    assert loaded["owners"] == {"news": "n0", "payments": "n1", "orders": "n0"}
    shown = shell("rank", "--json")
    assert shown.end() == 0
    rows = json.loads("".join(shown.lines))["topics"]
    assert [(row["topic"], row["owner"]) for row in rows] == [
        ("news", "n0"),
        ("payments", "n1"),
        ("orders", "n0"),
    ]


def plan_document(hosts):
    """A plan of some topics in this order, all ordered together, each on its host."""
    topics = list(hosts)
    rows = [
        PlannedTopic(topic, 1.0, 2, i, 0, topics[i - 2] if i > 1 else None, host, 3, 3, i, 1)
        for i, (topic, host) in enumerate(hosts.items(), start=1)
    ]
    costs = Costs("given", "line", 3, 30, 3, 30, 2, 3, 1, 2, 1)
    pairs = tuple((a, b, 2) for a, b in combinations(range(1, len(topics) + 1), 2))
    names = sorted(set(hosts.values()))
    places = tuple(Host(name, tuple(t for t in topics if hosts[t] == name), 1.0) for name in names)
    return PlanDocument(
        version=1,
        epoch=0,
        threshold=2,
        kind="line",
        subscriptions=2,
        distinct=1,
        topics=tuple(rows),
        ranks={topic: i for i, topic in enumerate(topics, start=1)},
        groups=(tuple(topics),),
        overlaps=pairs,
        placement=Placement(places, None, None, 1, True),
        before=costs,
        after=costs,
    )
