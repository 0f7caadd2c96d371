"""Spreading the work: parts of the plan that hang together, each with no more than its share."""

from itertools import pairwise
from random import Random

import pytest

from unisono.engines.effects import Decide
from unisono.engines.plan import contract
from unisono.engines.takeover.control import Intent, first_control, next_plan
from unisono.engines.takeover.planner import Planner
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.spreading import ROOM, published, spread
from unisono.model.frames import EpochNotice, Registration, Replan, Report

NODES = ("N1", "N2", "N3")
SETTINGS = NodeSettings(plan="forest")


def drawn(seed):
    """A forest of topics that some subscribers share."""
    random = Random(f"{seed} spreading")
    topics = tuple(f"T{i}" for i in range(random.randint(3, 24)))
    held = [
        Registration(f"s{i}", 1, tuple(random.sample(topics, random.randint(1, min(4, len(topics))))))
        for i in range(random.randint(2, 20))
    ]
    events = {topic: random.choice((0, 5, 300)) for topic in topics}
    return next_plan(Intent("forest", topics), held, 1, 1), events


def visits(plan, owners, weights):
    """How many events visit each node; one that comes back to a node counts once."""
    found = dict.fromkeys(NODES, 0.0)
    for topic, weight in weights.items():
        for node in {owners[x] for x in plan.path(topic)}:
            found[node] += weight
    return found


@pytest.mark.parametrize("seed", range(40))
def test_parts_hang_together_and_no_node_has_more_than_its_share_unless_one_part_has(seed):
    plan, events = drawn(seed)
    weights = {topic: 1.0 + events[topic] for topic in plan.rank}
    share = ROOM * sum(weights.values()) / len(NODES)
    owners = spread(plan, {}, NODES, events)
    assert owners.keys() == set(plan.rank)
    parts = contract(plan, weights, share)
    for part in parts:
        assert len({owners[topic] for topic in part.topics}) == 1
        tops = [t for t in part.topics if plan.parent[t] not in part.topics]
        assert len(tops) == 1, "a part is a subtree that hangs together"
    heaviest = max(part.load for part in parts)
    assert max(visits(plan, owners, weights).values()) <= share + heaviest


@pytest.mark.parametrize("seed", range(10))
def test_what_is_spread_well_stays_where_it_is(seed):
    plan, events = drawn(seed)
    owners = spread(plan, {}, NODES, events)
    assert spread(plan, owners, NODES, events) == owners
    renamed = {"N1": "N2", "N2": "N3", "N3": "N1"}
    turned = {topic: renamed[node] for topic, node in owners.items()}
    assert spread(plan, turned, NODES, events) == turned


@pytest.mark.parametrize("seed", range(6))
def test_deep_trees_are_cut_into_larger_parts_so_that_the_busiest_node_has_less(seed):
    """Groups of Zipf size make deep trees: near the top each topic alone has more than a share of four."""
    random = Random(f"{seed} deep")
    topics = tuple(f"T{i:03}" for i in range(120))
    held = {who: [t for i, t in enumerate(topics) if random.random() < 1 / (i + 1)] for who in range(200)}
    registered = [Registration(f"s{who}", 1, tuple(mine)) for who, mine in held.items() if mine]
    rank = random.sample(topics, len(topics))
    plan = next_plan(Intent("forest", tuple(rank)), registered, 1, 1)
    events = {topic: 1000 // (i + 1) for i, topic in enumerate(rank)}
    owners = spread(plan, {}, ("N1", "N2", "N3", "N4"), events)
    entered = dict.fromkeys(owners.values(), 0)
    for topic in plan.rank:
        nodes = [owners[x] for x in plan.path(topic)]
        for before, node in pairwise([None, *nodes]):
            entered[node] += (1 + events[topic]) * (before != node)
    assert max(entered.values()) < 0.6 * (len(topics) + sum(events.values()))


def test_a_chain_of_conflicts_is_cut_where_least_passes():
    topics = tuple("ABCDEF")
    held = [Registration(f"s{a}", 1, (a, b)) for a, b in pairwise(topics)]
    plan = next_plan(Intent("forest", topics), held, 1, 0)
    events = {"A": 90, "B": 90, "C": 1, "D": 1, "E": 90, "F": 90}
    owners = spread(plan, {}, ("N1", "N2"), events)
    assert len({owners["A"], owners["E"]}) == 2, "the busy ends are apart"
    weights = {topic: 1 + count for topic, count in events.items()}
    crossing = [t for t in topics if plan.parent[t] is not None and owners[t] != owners[plan.parent[t]]]
    assert len(crossing) <= 2
    assert sum(weights[t] for t in crossing) <= 93


def test_events_are_counted_between_the_epochs_that_are_remembered():
    notices = {
        3: EpochNotice(3, {"A": 5}, {}),
        4: EpochNotice(4, {"A": 7, "B": 2}, {}),
        5: EpochNotice(5, {"A": 9, "B": 4}, {}),
    }
    assert published(notices) == {"A": 4, "B": 4}
    assert published({}) == {}


def system(topics, owner, sequencer="atoms"):
    plan = next_plan(Intent("forest", topics), (), 1, 0)
    return first_control(plan, dict.fromkeys(topics, owner), list(NODES), sequencer=sequencer)


def decided(planner, control):
    effects = [e for node in control.lanes for e in planner.prepared(node, 1, control, 0.1)]
    (decide,) = (effect for effect in effects if isinstance(effect, Decide))
    return decide.control


def test_the_next_epoch_spreads_what_was_together_new_topics_too():
    control = system(tuple("ABCDEF"), "N1")
    one = Planner("N1", SETTINGS)
    one.begun(control, (), 0.0)
    one.report(Report(Registration("s", 1, tuple("ABCDEF"))), control, 0.0)
    one.request(Replan(0, ("F", "G")), control, 0.0, "N1")
    sealing = decided(one, control)
    assert set(sealing.owner) == set("ABCDEFG")
    assert set(sealing.owner.values()) == set(NODES)
    assert sealing.sequencer == sealing.active(control.plan).sequencer == "atoms"


def test_topic_managers_stay_together():
    control = system(tuple("ABCDEF"), "N1", sequencer="topics")
    one = Planner("N1", SETTINGS)
    one.begun(control, (), 0.0)
    one.request(Replan(0, ("F", "G")), control, 0.0, "N1")
    assert set(decided(one, control).owner.values()) == {"N1"}


def test_what_a_dead_node_owned_is_spread_over_those_that_live():
    control = system(tuple("ABCDEF"), "N3")
    one = Planner("N1", SETTINGS)
    forced = one.force(control, 0.0, dead=("N3",))
    assert set(forced.owner.values()) == {"N1", "N2"}


def test_who_decides_is_alive_whatever_was_declared():
    control = system(tuple("ABCDEF"), "N1")
    sealing = control.sealing("N2", Intent("forest", control.plan.rank), dead=("N1", "N3"))
    active = sealing.active(control.plan)
    forced = Planner("N1", SETTINGS).force(active, 0.0, dead=("N2",))
    assert set(forced.owner.values()) == {"N1"}


def test_an_operator_may_say_otherwise_for_an_epoch():
    control = system(tuple("ABCDEF"), "N1")
    one = Planner("N1", SETTINGS)
    one.begun(control, (), 0.0)
    one.request(Replan(0, moves=dict.fromkeys("ABC", "N1")), control, 0.0, "N1")
    owner = decided(one, control).owner
    assert {owner[topic] for topic in "ABC"} == {"N1"}


def test_trees_that_are_nearly_as_busy_do_not_change_places():
    topics = ("a1", "a2", "a3", "b1", "b2", "b3")
    held = [Registration(f"s{x}", 1, tuple(t for t in topics if t[0] == x)) for x in "ab"]
    plan = next_plan(Intent("forest", topics), held, 1, 0)
    owners = spread(plan, {}, NODES, dict.fromkeys(topics, 1000))
    for busier in "ab":
        events = {topic: 1000 + (20 if topic[0] == busier else 0) for topic in topics}
        assert spread(plan, owners, NODES, events) == owners
