"""The plan room: conflict graphs, plans, their builders and the three laws."""

from __future__ import annotations

import copy
import json
import pickle
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.engines.plan import (
    Conflicts,
    Overlaps,
    Plan,
    Registration,
    check_conflicts,
    check_paths,
    check_plan,
    components,
    conflict_graph,
    elimination_forest,
    rank_line,
)
from unisono.model.errors import ConfigError, PlanError

# CE-4: events of T2 go by X, events of T3 jump from T2 to T1 and overtake them.
CE4_RANK = ("T1", "X", "T2", "T3")
CE4 = conflict_graph([{"T1", "T2", "T3"}, {"T1", "T2", "T3", "X"}, {"X", "T2"}])
# CE-5: four topics in a ring without a chord.
CE5_RANK = ("T1", "T2", "T3", "T4")
CE5 = conflict_graph(
    [{"T1", "T2", "T3", "T4"}, {"T1", "T3"}, {"T3", "T4"}, {"T4", "T2"}, {"T2", "T1"}],
)


def direct_hops(conflicts: Conflicts, rank: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The papers' chains: from conflict to conflict, past everything between."""
    up = list(reversed(rank))
    return {t: (t, *(x for x in up[up.index(t) + 1 :] if x in conflicts[t])) for t in up}


def filled_parents(conflicts: Conflicts, rank: Sequence[str]) -> dict[str, str | None]:
    """The textbook elimination forest: join the neighbours of each topic as it goes."""
    near = {topic: set(conflicts[topic]) for topic in rank}
    parent: dict[str, str | None] = {}
    for topic in reversed(rank):
        higher = [x for x in rank[: rank.index(topic)] if x in near[topic]]
        parent[topic] = higher[-1] if higher else None
        for a, b in combinations(higher, 2):
            near[a].add(b)
            near[b].add(a)
    return parent


def ancestors(plan: Plan, topic: str) -> list[str]:
    """Every topic over this one, up to its root."""
    found = []
    while (up := plan.parent[topic]) is not None:
        found.append(topic := up)
    return found


TOPICS = [f"t{i}" for i in range(8)]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, frozenset[str]]:
    topics = TOPICS[: draw(st.integers(3, 8))]
    size = draw(st.sampled_from([2, 3, len(topics)]))  # small ones, or nearly every graph is complete
    held = st.frozensets(st.sampled_from(topics), min_size=1, max_size=size)
    subscriptions = draw(st.lists(held, min_size=1, max_size=8))
    return conflict_graph(subscriptions, topics, threshold=draw(st.sampled_from([1, 2])))


@st.composite
def ranked_graphs(draw: st.DrawFn) -> tuple[dict[str, frozenset[str]], list[str]]:
    graph = draw(graphs())
    return graph, draw(st.permutations(sorted(graph)))


# --- conflicts ---------------------------------------------------------------------------------------------


def test_topics_conflict_when_two_subscribers_hold_both() -> None:
    graph = conflict_graph([{"a", "b", "c"}, {"a", "b"}, {"c"}])
    assert graph == {"a": {"b"}, "b": {"a"}, "c": frozenset()}


def test_at_threshold_one_a_single_subscriber_makes_a_conflict() -> None:
    assert conflict_graph([{"a", "b"}], threshold=1) == {"a": {"b"}, "b": {"a"}}


def test_a_weight_counts_as_that_many_subscribers() -> None:
    heavy = Registration(frozenset({"a", "b"}), weight=2)
    assert conflict_graph([heavy]) == {"a": {"b"}, "b": {"a"}}
    assert conflict_graph([heavy], threshold=3) == {"a": frozenset(), "b": frozenset()}
    assert conflict_graph([heavy, {"a", "b"}], threshold=3) == {"a": {"b"}, "b": {"a"}}


def test_a_topic_nobody_holds_is_still_planned() -> None:
    graph = conflict_graph([], topics=["quiet"])
    assert graph == {"quiet": frozenset()}
    assert rank_line(graph).path("quiet") == ("quiet",)


def test_components_are_the_topics_that_conflict_through_others() -> None:
    graph = conflict_graph([{"a", "b"}, {"b", "c"}, {"d", "e"}], topics=["z"], threshold=1)
    assert components(graph) == (("a", "b", "c"), ("d", "e"), ("z",))


def test_a_threshold_or_weight_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="threshold is at least 1, not 0"):
        Overlaps(threshold=0)
    with pytest.raises(ConfigError, match="weight of a registration is at least 1, not 0"):
        Overlaps().add({"a"}, weight=0)
    with pytest.raises(ConfigError, match="weight of a registration is at least 1, not -1"):
        Overlaps().discard({"a"}, weight=-1)


def test_discarding_what_was_never_added_is_refused_and_changes_nothing() -> None:
    overlaps = Overlaps()
    overlaps.add({"a", "b", "c"}, weight=2)
    before = overlaps.graph()
    with pytest.raises(ConfigError, match="only 0 is registered"):
        overlaps.discard({"a", "b"})  # held, but as part of another registration
    with pytest.raises(ConfigError, match="only 2 is registered"):
        overlaps.discard({"a", "b", "c"}, weight=3)
    assert overlaps.graph() == before


@given(st.data(), st.sampled_from([1, 2, 3]))
def test_overlaps_kept_up_to_date_equal_overlaps_counted_afresh(data: st.DataObject, threshold: int) -> None:
    overlaps = Overlaps(threshold, topics=["t0"])
    held: list[Registration] = []
    registrations = st.builds(
        Registration, st.frozensets(st.sampled_from(TOPICS), max_size=4), st.integers(1, 2)
    )
    for _ in range(data.draw(st.integers(1, 12))):
        leaves: bool = data.draw(st.booleans())
        if held and leaves:
            gone = held.pop(data.draw(st.integers(0, len(held) - 1)))
            overlaps.discard(gone.topics, gone.weight)
        else:
            held.append(data.draw(registrations))
            overlaps.add(held[-1].topics, held[-1].weight)
        fresh = conflict_graph(held, ["t0"], threshold)
        assert overlaps.graph() == fresh
        assert overlaps.components() == components(fresh)
        assert all(overlaps.conflicts(topic) == fresh.get(topic, frozenset()) for topic in TOPICS)
    check_conflicts(overlaps.graph())


def test_overlaps_forget_topics_that_are_gone() -> None:
    overlaps = Overlaps()
    for i in range(100):
        overlaps.add({f"a{i}", f"b{i}"}, weight=2)
        overlaps.discard({f"a{i}", f"b{i}"}, weight=2)
    assert overlaps.graph() == {}
    assert not any(len(table) for table in vars(overlaps).values() if isinstance(table, dict))


# --- the plan ----------------------------------------------------------------------------------------------


def test_a_path_climbs_to_the_topmost_conflict_and_no_further() -> None:
    # Rank a b c d e; d conflicts with b and c with a, so b and c are transit for some.
    graph = conflict_graph([{"a", "c"}, {"b", "d"}, {"d", "e"}, {"c", "d"}], threshold=1)
    plan = rank_line(graph, rank="abcde")
    assert plan.path("e") == ("e", "d")
    assert plan.path("d") == ("d", "c", "b")
    assert plan.path("c") == ("c", "b", "a")  # b is transit
    assert plan.path("b") == ("b",)
    assert plan.path("a") == ("a",)
    assert plan.emitter("d") == "b"
    assert plan.emitter("a") == "a"


def test_above_and_below_are_the_conflicts_in_rank_order() -> None:
    graph = conflict_graph([set("xabcy")], topics=["z"], threshold=1)
    plan = rank_line(graph, rank="yzbxac")
    assert plan.above("x") == ("y", "b")
    assert plan.below("x") == ("a", "c")
    assert plan.above("y") == plan.below("c") == plan.above("z") == plan.below("z") == ()


@given(graphs())
def test_the_components_of_a_plan_are_those_of_its_conflicts(graph: dict[str, frozenset[str]]) -> None:
    for plan in (rank_line(graph), elimination_forest(graph)):
        trees = plan.components()
        assert sorted(tuple(sorted(tree)) for tree in trees) == sorted(components(graph))
        place = plan.rank.index
        assert all(list(tree) == sorted(tree, key=place) for tree in trees)
        assert [tree[0] for tree in trees] == sorted((tree[0] for tree in trees), key=place)


def test_a_plan_survives_the_dict_the_wire_and_the_copy() -> None:
    plan = elimination_forest(CE4, epoch=7)
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again == plan
    assert again.epoch == 7
    assert hash(again) == hash(plan)
    assert all(again.path(topic) == plan.path(topic) for topic in plan.rank)
    for twin in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert twin == plan
        assert twin.path("T3") == plan.path("T3")


def test_plans_differ_by_epoch_parent_and_group() -> None:
    plan = rank_line(CE4, rank=CE4_RANK)
    assert plan != replace(plan, epoch=1)
    assert plan != elimination_forest(CE5, rank=CE5_RANK)
    assert plan != replace(plan, parent={**plan.parent, "T3": "T1"})
    assert plan != replace(plan, group={**plan.group, "T3": frozenset({"T3"})})


def test_nobody_can_change_a_plan_from_outside() -> None:
    parent: dict[str, str | None] = {"a": None, "b": "a"}
    group = {"a": frozenset("ab"), "b": frozenset("ab")}
    plan = Plan(rank=("a", "b"), parent=parent, group=group)
    parent["b"] = None
    group["b"] = frozenset("b")
    assert plan.path("b") == ("b", "a")
    check_plan(plan)


@pytest.mark.parametrize("ask", [Plan.path, Plan.above, Plan.below, Plan.emitter])
def test_an_unknown_topic_is_named(ask: Any) -> None:
    with pytest.raises(PlanError, match="topic 'nowhere' is not in the plan"):
        ask(rank_line(CE4), "nowhere")


GOOD: dict[str, Any] = {
    "epoch": 1,
    "rank": ["a", "b"],
    "parent": {"a": None, "b": "a"},
    "group": {"a": ["a", "b"], "b": ["a", "b"]},
}


def test_the_good_example_is_good() -> None:
    assert Plan.from_dict(GOOD).path("b") == ("b", "a")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"epoch": -1}, "not a plan"),
        ({"epoch": "1"}, "not a plan"),
        ({"rank": "ab"}, "not a plan"),
        ({"rank": [1, 2]}, "not a plan"),
        ({"parent": None}, "not a plan"),
        ({"colour": "red"}, "not a plan"),
        ({"rank": ["a", "b", "a"]}, r"ranked once.*\['a'\]"),
        ({"rank": ["a"]}, r"differ in \['b'\]"),
        ({"parent": {"a": None}}, r"rank and parent .* differ in \['b'\]"),
        ({"group": {"a": ["a"]}}, r"rank and group .* differ in \['b'\]"),
        ({"parent": {"a": "b", "b": "a"}}, "the parent of 'a' must rank above it, but 'b' does not"),
        ({"parent": {"a": None, "b": "b"}}, "the parent of 'b' must rank above it"),
        ({"parent": {"a": None, "b": "c"}}, "the parent of 'b' must rank above it, but 'c' does not"),
        ({"group": {"a": ["a", "b", "c"], "b": ["a", "b"]}}, r"not ranked: \['c'\]"),
        ({"group": {"a": ["a", "b"], "b": ["b"]}}, "'a' conflicts with 'b' but not the other way round"),
        ({"group": {"a": ["a", "b"], "b": ["a"]}}, "the group of 'b' does not contain 'b' itself"),
        ({"parent": {"a": None, "b": None}}, "C1: 'a' and 'b' conflict but do not meet"),
    ],
)
def test_nonsense_is_not_a_plan(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        Plan.from_dict({**GOOD, **change})


@pytest.mark.parametrize("data", [None, 3, [], "plan", {}, {"rank": []}])
def test_other_data_is_not_a_plan(data: object) -> None:
    with pytest.raises(PlanError, match="not a plan"):
        Plan.from_dict(data)


def test_a_plan_without_topics_is_a_plan() -> None:
    plan = elimination_forest({})
    check_plan(plan)
    assert plan.components() == ()
    assert Plan.from_dict(plan.to_dict()) == plan


# --- the builders ------------------------------------------------------------------------------------------


@given(ranked_graphs())
def test_both_builders_keep_the_laws(case: tuple[dict[str, frozenset[str]], list[str]]) -> None:
    graph, rank = case
    plans = [
        rank_line(graph),
        rank_line(graph, rank=rank),
        elimination_forest(graph),
        elimination_forest(graph, rank=rank),
    ]
    for plan in plans:
        check_plan(plan)
        assert {t: plan.group[t] - {t} for t in plan.rank} == graph
        for topic in graph:
            for other in graph[topic]:
                assert other in ancestors(plan, topic) or topic in ancestors(plan, other)
            assert plan.emitter(topic) == (*plan.above(topic), topic)[0]
            assert list(plan.path(topic)) == [topic, *ancestors(plan, topic)][: len(plan.path(topic))]
    assert plans[1].rank == plans[3].rank == tuple(rank)


@given(ranked_graphs())
def test_the_forest_of_a_rank_is_the_one_that_fill_in_gives(
    case: tuple[dict[str, frozenset[str]], list[str]],
) -> None:
    graph, rank = case
    assert elimination_forest(graph, rank=rank).parent == filled_parents(graph, rank)
    by_degree = elimination_forest(graph)
    assert by_degree.parent == filled_parents(graph, by_degree.rank)


@given(ranked_graphs())
def test_a_forest_path_is_part_of_the_line_path_of_the_same_rank(
    case: tuple[dict[str, frozenset[str]], list[str]],
) -> None:
    graph, rank = case
    line, forest = rank_line(graph, rank=rank), elimination_forest(graph, rank=rank)
    for topic in graph:
        assert set(forest.path(topic)) <= set(line.path(topic))


@given(
    st.randoms(use_true_random=False),
    st.integers(4, 20),
    st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 3)),
)
def test_minimum_degree_eliminates_the_topic_with_the_fewest_neighbours_left(
    rng: random.Random, edges: int, rates: dict[str, float]
) -> None:
    # Rings without chords are what needs fill-in, and few subscribers of many topics rarely make one.
    graph = conflict_graph([set(rng.sample(TOPICS, 2)) for _ in range(edges)], TOPICS, threshold=1)
    near = {topic: set(graph[topic]) for topic in graph}
    for topic in reversed(elimination_forest(graph, rates=rates).rank):
        assert topic == min(near, key=lambda t: (len(near[t]), rates.get(t, 0), t))
        gone = near.pop(topic)
        for other in gone:
            near[other] = (near[other] | gone) - {topic, other}


@given(graphs(), st.randoms(use_true_random=False))
def test_plans_do_not_depend_on_the_order_of_insertion(
    graph: dict[str, frozenset[str]], rng: random.Random
) -> None:
    def shuffled(items: list[Any]) -> list[Any]:
        return rng.sample(items, len(items))

    other = {topic: set(shuffled(sorted(graph[topic]))) for topic in shuffled(sorted(graph))}
    for build in (rank_line, elimination_forest):
        one, two = build(graph), build(other)
        assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
        assert one.components() == two.components()


def test_the_busiest_topic_is_on_top_then_by_name() -> None:
    graph = conflict_graph([set("abcd")], threshold=1)
    assert rank_line(graph).rank == ("a", "b", "c", "d")
    assert rank_line(graph, rates={"c": 5, "b": 9}).rank == ("b", "c", "a", "d")
    assert elimination_forest(graph, rates={"c": 5, "b": 9}).rank == ("b", "c", "d", "a")


def test_each_component_has_its_own_line() -> None:
    graph = conflict_graph([{"a", "c"}, {"b", "d"}], threshold=1)
    plan = rank_line(graph, rank="abcd")
    assert plan.parent == {"a": None, "b": None, "c": "a", "d": "b"}
    assert plan.components() == (("a", "c"), ("b", "d"))


def test_topics_that_never_meet_climb_different_branches() -> None:
    hub = conflict_graph([{"hub", f"spoke{i}"} for i in range(5)], threshold=1)
    forest = elimination_forest(hub, rates={"hub": 1})
    assert {topic: forest.path(topic) for topic in hub} == {
        "hub": ("hub",),
        **{f"spoke{i}": (f"spoke{i}", "hub") for i in range(5)},
    }


def test_on_a_sparse_graph_forest_paths_are_shorter_than_line_paths() -> None:
    rng = random.Random(3)
    topics = [f"t{i:02d}" for i in range(64)]
    rates = {topic: rng.random() for topic in topics}
    graph = conflict_graph([set(rng.sample(topics, 2)) for _ in range(80)], topics, threshold=1)
    line, forest = rank_line(graph, rates=rates), elimination_forest(graph, rates=rates)

    def mean_length(plan: Plan) -> float:
        return sum(len(plan.path(topic)) for topic in topics) / len(topics)

    assert 1 < mean_length(forest) < mean_length(line) / 2


@pytest.mark.parametrize("build", [rank_line, elimination_forest])
def test_a_rank_names_every_topic_once(build: Any) -> None:
    graph = conflict_graph([{"a", "b"}])
    for rank, fault in ((["a", "b", "a"], "repeats"), (["a"], r"differ in \['b'\]"), ("abc", r"\['c'\]")):
        with pytest.raises(PlanError, match=fault):
            build(graph, rank=rank)


@pytest.mark.parametrize("build", [rank_line, elimination_forest])
def test_a_lopsided_conflict_graph_is_refused(build: Any) -> None:
    with pytest.raises(PlanError, match="'a' conflicts with 'b' but not the other way round"):
        build({"a": {"b"}, "b": set()})
    with pytest.raises(PlanError, match="'a' conflicts with 'b' but not the other way round"):
        build({"a": {"b"}})
    with pytest.raises(PlanError, match="'a' conflicts with itself"):
        build({"a": {"a"}})


@pytest.mark.parametrize("build", [rank_line, elimination_forest])
def test_a_thousand_sparse_topics_are_planned_in_time(build: Any) -> None:
    rng = random.Random(1)
    topics = [f"t{i:04d}" for i in range(1000)]
    graph = conflict_graph([set(rng.sample(topics, 2)) for _ in range(1500)], topics, threshold=1)
    start = time.process_time()
    plan = build(graph)
    assert time.process_time() - start < 2
    check_plan(plan)


# --- the laws ----------------------------------------------------------------------------------------------


def test_the_examples_have_the_conflicts_they_are_known_for() -> None:
    assert dict(CE4) == {"T1": {"T2", "T3"}, "T2": {"T1", "T3", "X"}, "T3": {"T1", "T2"}, "X": {"T2"}}
    assert dict(CE5) == {"T1": {"T2", "T3"}, "T2": {"T1", "T4"}, "T3": {"T1", "T4"}, "T4": {"T2", "T3"}}


def test_direct_hops_loop_on_ce4() -> None:
    paths = direct_hops(CE4, CE4_RANK)
    assert paths["T2"] == ("T2", "X", "T1")
    assert paths["T3"] == ("T3", "T2", "T1")
    with pytest.raises(PlanError, match="C2: the paths form a loop") as error:
        check_paths(paths, CE4)
    assert set(str(error.value).split(": ")[-1].split(" -> ")) == {"T1", "T2", "X"}


def test_direct_hops_loop_on_ce5() -> None:
    with pytest.raises(PlanError, match="C2: the paths form a loop"):
        check_paths(direct_hops(CE5, CE5_RANK), CE5)


@pytest.mark.parametrize(("graph", "rank"), [(CE4, CE4_RANK), (CE5, CE5_RANK)])
@pytest.mark.parametrize("build", [rank_line, elimination_forest])
def test_the_builders_keep_the_laws_where_direct_hops_do_not(
    build: Any, graph: Conflicts, rank: Sequence[str]
) -> None:
    check_plan(build(graph, rank=rank))
    check_plan(build(graph))


LINE = conflict_graph([set("abc")], threshold=1)


@pytest.mark.parametrize(
    ("paths", "fault"),
    [
        ({"a": "a", "b": "ba", "c": "ca"}, "C1: 'b' and 'c' conflict but do not meet: b -> a and c -> a"),
        ({"a": "a", "b": "ba", "c": "cb"}, "C1: 'a' and 'c' conflict but do not meet"),
        ({"a": "ac", "b": "ba", "c": "cb"}, "C2: the paths form a loop"),
        ({"a": "a", "b": "bca", "c": "cba"}, "C2: the paths form a loop"),
        ({"a": "aa", "b": "ba", "c": "cba"}, "C2: the paths form a loop: a -> a"),
        ({"a": "ab", "b": "ba", "c": "cba"}, "C3: the edge between 'a' and 'b' is travelled both ways"),
        ({"a": "a", "b": "ba", "c": "cbab"}, "C3: the edge between 'a' and 'b' is travelled both ways"),
        ({"a": "a", "b": "ba", "c": ""}, r"the path of 'c' does not start at 'c': \(empty\)"),
        ({"a": "a", "b": "ba", "c": "ba"}, "the path of 'c' does not start at 'c': b -> a"),
        ({"a": "a", "b": "ba"}, "the path of 'c' does not start at 'c'"),
    ],
)
def test_planted_bad_paths_are_caught(paths: Mapping[str, Sequence[str]], fault: str) -> None:
    check_paths({"a": "a", "b": "ba", "c": "cba"}, LINE)
    with pytest.raises(PlanError, match=fault):
        check_paths(paths, LINE)


def test_a_skipped_transit_is_a_loop() -> None:
    graph = conflict_graph([{"a", "b"}, {"b", "c"}, {"c", "d"}, {"a", "d"}], threshold=1)
    check_paths({"a": "a", "b": "ba", "c": "cb", "d": "dcba"}, graph)
    with pytest.raises(PlanError, match="C2"):
        check_paths({"a": "a", "b": "ba", "c": "cb", "d": "dca"}, graph)


def test_a_shared_stretch_outside_the_conflicts_is_judged_too() -> None:
    # x and y do not conflict, and meet nobody; they only use one edge in opposite directions.
    graph: dict[str, frozenset[str]] = {topic: frozenset() for topic in ("x", "y")}
    with pytest.raises(PlanError, match="C3: the edge between 'x' and 'y'"):
        check_paths({"x": ("x", "y"), "y": ("y", "x")}, graph)


def test_paths_are_checked_against_mutual_conflicts_only() -> None:
    with pytest.raises(PlanError, match="but not the other way round"):
        check_paths({"a": "a", "b": "ba"}, {"a": {"b"}, "b": set()})


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from("abcde"), st.permutations("abcde"), min_size=2), st.data())
def test_the_laws_agree_with_their_definition_on_any_paths(
    raw: dict[str, list[str]], data: st.DataObject
) -> None:
    paths = {t: [t, *(x for x in p if x != t)][: data.draw(st.integers(1, 4))] for t, p in raw.items()}
    conflicts = {t: frozenset(x for x in paths if x != t and (x in paths[t] or t in paths[x])) for t in paths}
    steps = {(u, v) for p in paths.values() for u, v in pairwise(p)}
    edges = {frozenset(step) for step in steps}
    nodes = {x for p in paths.values() for x in p}
    near = {x: frozenset(y for y in nodes if frozenset((x, y)) in edges) for x in nodes}
    is_forest = len(edges) == len(nodes) - len(components(near))
    is_one_way = len(steps) == len(edges)
    if is_forest and is_one_way:
        check_paths(paths, conflicts)
    else:
        with pytest.raises(PlanError, match="C2" if not is_forest else "C3"):
            check_paths(paths, conflicts)
