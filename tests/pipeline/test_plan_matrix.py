"""Plans from any number of subscriptions: the same as the engines' own, priced, placed, and never unlawful."""

from itertools import pairwise, permutations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.engines.plan import (
    check_plan,
    components,
    conflict_graph,
    edge_traffic,
    elimination_forest,
    rank_line,
)
from unisono.model.errors import ConfigError, PlanError
from unisono.pipeline import plan_overlaps
from unisono.pipeline.plan import busiest_first, make_plan, plan_conflicts
from unisono.pipeline.plan_cost import entry_bytes, plan_costs, topic_costs
from unisono.pipeline.plan_document import PlanDocument, load_plan, save_plan
from unisono.pipeline.plan_overlaps import Matrix, PairCounts
from unisono.pipeline.plan_place import place

TOPICS = "abcdefg"
subscription_sets = st.lists(st.frozensets(st.sampled_from(TOPICS), min_size=1), max_size=9)
rate_tables = st.fixed_dictionaries({t: st.integers(0, 50).map(float) for t in TOPICS})


def matrix_of(subscriptions, threshold=2):
    """The matrix of a few subscriptions, counted by the kernel that Spark tasks run."""
    topics = tuple(sorted(set().union(*subscriptions))) if subscriptions else ()
    counts = PairCounts(len(topics))
    sets = [sorted(topics.index(t) for t in s) for s in subscriptions]
    flat = np.array([place for s in sets for place in s], np.int64)
    counts.add(flat, np.array([len(s) for s in sets], np.int64), np.ones(len(sets), np.int64))
    low, high, shared = counts.result()
    kept = shared >= threshold
    holders = np.array([sum(t in s for s in subscriptions) for t in topics], np.int64)
    pairs = (low[kept], high[kept], shared[kept])
    return Matrix(topics, holders, *pairs, threshold, len(subscriptions), len(set(subscriptions)))


def every_rank_cost(graph, rates, build, field):
    """The least cost over all ranks, by trying them."""
    costs = []
    for rank in permutations(sorted(graph)):
        plan = build(graph, rank=rank)
        costs.append(getattr(plan_costs(plan, place(plan, rates), rates, ranks="", kind=""), field))
    return min(costs)


@given(subscription_sets, st.integers(1, 3))
def test_the_kernel_counts_the_conflicts_that_the_engines_count(subscriptions, threshold):
    assert matrix_of(subscriptions, threshold).graph() == conflict_graph(subscriptions, threshold=threshold)


@given(subscription_sets)
def test_the_kernel_counts_alike_with_many_topics(subscriptions):
    """Beyond a few thousand topics a table of all pairs does not fit, and pairs are sorted instead."""
    dense = matrix_of(subscriptions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_overlaps, "DENSE_PAIRS_MAX", 0)
        patch.setattr(plan_overlaps, "CHUNK_PAIRS", 2)
        sparse = matrix_of(subscriptions)
    assert sparse.graph() == dense.graph()
    assert sparse.shared.tolist() == dense.shared.tolist()


@given(subscription_sets, st.integers(1, 3))
def test_wide_subscriptions_are_counted_like_narrow_ones(subscriptions, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_overlaps, "PRODUCT_SHARE", 0)
        unfolded = matrix_of(subscriptions)
        patch.setattr(plan_overlaps, "PRODUCT_SHARE", 1000)
        patch.setattr(plan_overlaps, "PRODUCT_CELLS", at_once * len(TOPICS))
        multiplied = matrix_of(subscriptions)
        patch.setattr(plan_overlaps, "PRODUCT_SHARE", 2)
        mixed = matrix_of(subscriptions)
    assert unfolded.graph() == multiplied.graph() == mixed.graph()
    assert unfolded.shared.tolist() == multiplied.shared.tolist() == mixed.shared.tolist()


@settings(deadline=None)
@given(subscription_sets, rate_tables, st.sampled_from(["line", "forest"]))
def test_a_document_holds_a_lawful_plan_of_the_same_conflicts(subscriptions, rates, kind):
    document = make_plan(matrix_of(subscriptions), rates, kind=kind)
    plan = document.plan()
    graph = conflict_graph(subscriptions, TOPICS)
    check_plan(plan)
    assert plan_conflicts(plan) == graph
    assert sorted(map(sorted, document.groups)) == sorted(map(list, components(graph)))
    builders = {"line": rank_line, "forest": elimination_forest}
    assert plan.parent == builders[kind](graph, rank=plan.rank).parent
    assert msgspec.json.decode(msgspec.json.encode(document), type=PlanDocument) == document


@settings(deadline=None, max_examples=40)
@given(
    subscription_sets, rate_tables, st.sampled_from([None, 1.0, 40.0, 120.0]), st.sampled_from([None, 1, 3])
)
def test_costs_and_loads_are_those_of_walking_the_paths(subscriptions, rates, capacity, nodes):
    document = make_plan(matrix_of(subscriptions), rates, capacity=capacity, nodes=nodes)
    plan, home = document.plan(), document.placement.host_of()
    assert sorted(home) == sorted(plan.rank)
    costs = topic_costs(plan, document.placement)
    traffic = edge_traffic(plan, rates)
    visits = dict.fromkeys(home.values(), 0.0)
    for topic in plan.rank:
        path = plan.path(topic)
        changes = [1 for low, high in pairwise(path) if home[low] != home[high]]
        assert costs[topic].path_topics == len(path)
        assert costs[topic].hops == len(changes) + 1
        assert costs[topic].stamp_entries == len(plan.group[topic])
        assert costs[topic].stamp_bytes_upward == sum(map(entry_bytes, (topic, *plan.above(topic))))
        visits[home[topic]] += rates[topic]
        for low, high in pairwise(path):
            traffic[low] -= rates[topic]
            if home[low] != home[high]:
                visits[home[high]] += rates[topic]
    assert all(abs(rest) < 1e-6 for rest in traffic.values())
    if document.placement.fits:
        assert {h.name: h.load for h in document.placement.hosts} == pytest.approx(visits)
        assert capacity is None or max(visits.values(), default=0) <= capacity * 1.000001
        assert nodes is None or len(document.placement.hosts) <= nodes


@settings(deadline=None, max_examples=25)
@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=2), min_size=1, max_size=6), rate_tables)
def test_the_busiest_on_top_is_the_best_rank_for_upward_stamps_on_every_graph(subscriptions, rates):
    graph = conflict_graph(subscriptions, threshold=1)
    rates = {topic: rates[topic] for topic in graph}
    plan = rank_line(graph, rank=busiest_first(graph, rates))
    costs = plan_costs(plan, place(plan, rates), rates, ranks="", kind="")
    assert costs.stamp_entries_upward == every_rank_cost(graph, rates, rank_line, "stamp_entries_upward")
    total = sum(rates.values())
    if total:
        pairs = {frozenset((t, o)) for t in graph for o in graph[t]}
        least = 1 + sum(min(rates[t] for t in pair) for pair in pairs) / total
        assert costs.stamp_entries_upward == pytest.approx(least, abs=1e-3)


@settings(deadline=None, max_examples=15)
@given(rate_tables)
def test_the_busiest_on_top_is_the_best_rank_for_paths_when_all_conflict(rates):
    rates = {topic: rates[topic] for topic in "abcde"}
    graph = conflict_graph([frozenset("abcde")] * 2)
    plan = rank_line(graph, rank=busiest_first(graph, rates))
    costs = plan_costs(plan, place(plan, rates), rates, ranks="", kind="")
    assert costs.path_topics == every_rank_cost(graph, rates, rank_line, "path_topics")


@pytest.mark.parametrize(
    ("build", "rates", "busiest", "best"),
    [(rank_line, (2, 4, 1, 3), 17, 15), (elimination_forest, (3, 1, 2, 4), 16, 14)],
)
def test_the_busiest_on_top_is_not_the_best_rank_for_paths_in_a_chain(build, rates, busiest, best):
    """The counter-examples of docs/plan.md: a-b-c-d conflict in a chain."""
    graph = conflict_graph([frozenset(pair) for pair in ("ab", "bc", "cd")], threshold=1)
    rates = dict(zip("abcd", map(float, rates), strict=True))
    plan = build(graph, rank=busiest_first(graph, rates))
    costs = plan_costs(plan, place(plan, rates), rates, ranks="", kind="")
    assert costs.path_topics == busiest / 10
    assert every_rank_cost(graph, rates, build, "path_topics") == best / 10


def test_a_component_is_split_only_where_a_host_is_not_enough():
    subscriptions = [frozenset(p) for p in ("ab", "ab", "bc", "bc", "de", "de")]
    rates = {"a": 10.0, "b": 10.0, "c": 10.0, "d": 5.0, "e": 5.0}
    whole = make_plan(matrix_of(subscriptions), rates, capacity=30)
    assert whole.after.hops == 1.0
    assert [host.topics for host in whole.placement.hosts] == [("a", "b", "c"), ("d", "e")]
    split = make_plan(matrix_of(subscriptions), rates, capacity=25)
    assert split.placement.fits
    assert len(split.placement.hosts) > len(whole.placement.hosts)
    assert split.after.hops > 1.0


def test_what_does_not_fit_is_said():
    subscriptions = [frozenset("ab"), frozenset("ab")]
    crowded = make_plan(matrix_of(subscriptions), {"a": 10.0, "b": 10.0}, capacity=15)
    assert not crowded.placement.fits
    assert crowded.placement.problem == "topic 'a' alone is visited by 20 events/s, and a host carries 15"
    few = make_plan(matrix_of([frozenset("a"), frozenset("b")]), {"a": 10.0, "b": 10.0}, capacity=15, nodes=1)
    assert few.placement.problem == "1 hosts of 15 events/s are not enough"


def test_components_spread_over_the_hosts_there_are():
    subscriptions = [frozenset(p) for p in ("ab", "ab", "cd", "cd", "e")]
    document = make_plan(matrix_of(subscriptions), None, nodes=2)
    assert len(document.placement.hosts) == 2
    assert document.after.hops == 1.0


def test_the_plan_in_force_is_what_a_new_one_is_compared_with():
    matrix = matrix_of([frozenset("abc"), frozenset("abc")])
    first = make_plan(matrix, {"a": 1.0, "b": 2.0, "c": 9.0})
    assert list(first.ranks) == ["c", "b", "a"]
    assert first.before.ranks == "alphabetical"
    again = make_plan(matrix, {"a": 9.0, "b": 2.0, "c": 1.0}, current=first)
    assert (again.before.ranks, again.epoch) == ("current", 1)
    assert again.before.stamp_entries_upward > again.after.stamp_entries_upward


def test_nothing_subscribed_is_an_empty_plan():
    document = make_plan(matrix_of([]), None)
    assert document.topics == ()
    assert document.plan().rank == ()


@pytest.mark.parametrize(
    ("options", "key"),
    [({"capacity": 0.0}, "--capacity"), ({"nodes": 0}, "--nodes"), ({"kind": "ring"}, "--kind")],
)
def test_bad_options_are_named(options, key):
    with pytest.raises(ConfigError, match=key):
        make_plan(matrix_of([frozenset("ab")]), None, **options)


class TestDocuments:
    @pytest.fixture
    def document(self):
        return make_plan(matrix_of([frozenset("abc"), frozenset("abc")]), {"a": 3.0, "b": 2.0, "c": 1.0})

    def test_what_is_saved_is_loaded(self, document, tmp_path):
        save_plan(document, tmp_path / "deep" / "plan.json")
        assert load_plan(tmp_path / "deep" / "plan.json") == document
        assert load_plan(str(tmp_path / "deep" / "plan.json")).plan() == document.plan()
        assert load_plan(msgspec.to_builtins(document)) == document
        assert [p.name for p in (tmp_path / "deep").iterdir()] == ["plan.json"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 99}, "not a plan"),
            ({"ranks": {"a": 1, "b": 3, "c": 2}}, "does not number"),
            ({"overlaps": [[1, 9, 2]]}, "not a pair of ranks"),
            ({"overlaps": "many"}, "not a plan"),
        ],
    )
    def test_nonsense_is_refused(self, document, change, message):
        with pytest.raises(PlanError, match=message):
            load_plan(msgspec.to_builtins(document) | change)

    def test_an_unlawful_plan_is_refused_by_law(self, document):
        data = msgspec.to_builtins(document)
        data["topics"][2]["parent"] = None
        with pytest.raises(PlanError, match="C1"):
            load_plan(data)

    def test_a_missing_or_broken_file_is_one_line(self, tmp_path):
        with pytest.raises(PlanError, match="cannot be read: No such file"):
            load_plan(tmp_path / "none.json")
        (tmp_path / "half.json").write_text('{"version": 1,')
        with pytest.raises(PlanError, match="is not a plan"):
            load_plan(tmp_path / "half.json")
