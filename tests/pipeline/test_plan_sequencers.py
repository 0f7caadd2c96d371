"""Both sequencers beside each other: costs are those of walking the paths, and the choice says why."""

from itertools import combinations, groupby

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.engines.plan import components, conflict_graph, elimination_forest
from unisono.engines.sequencing_atoms.builders import graph_of_plan
from unisono.engines.sequencing_atoms.placement import contract, seen
from unisono.pipeline.plan import make_plan
from unisono.pipeline.plan_document import PlanDocument, load_plan
from unisono.pipeline.plan_overlaps import count_sets
from unisono.pipeline.plan_sequencers import (
    CORES_ENOUGH,
    STOP_US,
    VISIT_US,
    WHOLE_US,
    WIDE_US,
    atoms_of_plan,
    compare_sequencers,
    sequencer_costs,
)

TOPICS = "abcdefgh"
subscription_sets = st.lists(st.frozensets(st.sampled_from(TOPICS), min_size=1, max_size=4), max_size=9)
rate_tables = st.fixed_dictionaries({t: st.integers(0, 50).map(float) for t in TOPICS})


def forest(*cliques):
    """The plan of topics that conflict within each of these groups."""
    return elimination_forest(conflict_graph([frozenset(c) for c in cliques], threshold=1))


@settings(deadline=None, max_examples=60)
@given(subscription_sets, rate_tables, st.data())
def test_costs_are_those_of_walking_the_paths(subscriptions, rates, data):
    plan = elimination_forest(conflict_graph(subscriptions, TOPICS, threshold=1))
    home = {topic: data.draw(st.sampled_from("XYZ"), label=topic) for topic in plan.rank}
    costs = sequencer_costs(plan, home, rates, CORES_ENOUGH)
    visits, work = dict.fromkeys(home.values(), 0.0), dict.fromkeys(home.values(), 0.0)
    messages = transit = entered = whole = 0.0
    for topic in plan.rank:
        path, rate = plan.path(topic), rates[topic]
        stretches = [(host, list(some)) for host, some in groupby(path, key=home.__getitem__)]
        is_whole = len({home[x] for x in (*plan.group[topic], *path)}) == 1
        whole += rate * is_whole
        entered += rate * len(stretches)
        messages += rate * (3 + len(stretches) - 1 + (home[path[-1]] != home[topic]))
        for host, some in stretches:
            visits[host] += rate
            numbers_nothing = not plan.group[topic].intersection(some)
            transit += rate * numbers_nothing
            singly = VISIT_US + STOP_US * len(some)
            work[host] += rate * (WHOLE_US + WIDE_US * len(plan.group[topic]) ** 2 if is_whole else singly)
    assert {host.name: host.load for host in costs.hosts} == pytest.approx(visits)
    assert costs.load_max == max(visits.values())
    assert costs.cores_max == pytest.approx(max(work.values()) / 1e6, abs=1e-6)
    assert costs.cores == pytest.approx(sum(work.values()) / 1e6, abs=1e-6)
    if total := sum(rates.values()):
        assert costs.messages == pytest.approx(messages / total, abs=1e-3)
        assert costs.hops == pytest.approx(entered / total, abs=1e-3)
        assert costs.transit == pytest.approx(transit / entered, abs=1e-3)
        assert costs.whole == pytest.approx(whole / total, abs=1e-3)


@settings(deadline=None, max_examples=30)
@given(subscription_sets, rate_tables)
def test_the_atoms_are_those_of_the_engines(subscriptions, rates):
    plan = elimination_forest(conflict_graph(subscriptions, TOPICS, threshold=1))
    graph = graph_of_plan(plan, {topic: frozenset() for topic in plan.rank})
    atoms = atoms_of_plan(plan, rates)
    assert atoms.count == len(graph.home)
    assert atoms.at == {t: n for t in plan.rank if (n := list(graph.home.values()).count(t))}
    assert [(child, above) for child, above, _ in atoms.edges] == [
        (plan.rank.index(t) + 1, plan.rank.index(up) + 1) for t in plan.rank if (up := plan.parent[t])
    ]


@settings(deadline=None, max_examples=40)
@given(subscription_sets, rate_tables, st.integers(0, 150))
def test_hosts_see_what_places_of_the_engines_see(subscriptions, rates, seen_max):
    plan = elimination_forest(conflict_graph(subscriptions, TOPICS, threshold=1))
    graph = contract(graph_of_plan(plan, {t: frozenset() for t in plan.rank}), rates, seen_max)
    costs = sequencer_costs(plan, graph.ingress, rates, CORES_ENOUGH)
    assert {host.name: host.load for host in costs.hosts} == pytest.approx(seen(graph, rates))
    assert costs.hops_max == max(map(len, graph.routes.values()))


@settings(deadline=None, max_examples=30)
@given(subscription_sets, rate_tables, st.integers(1, 4))
def test_topics_keeps_every_group_on_one_host(subscriptions, rates, nodes):
    plan = elimination_forest(conflict_graph(subscriptions, TOPICS, threshold=1))
    both = compare_sequencers(plan, rates, nodes=nodes)
    home = {topic: host.name for host in both.topics.hosts for topic in host.topics}
    for group in components({t: plan.group[t] - {t} for t in plan.rank}):
        assert len({home[topic] for topic in group}) == 1
    assert (both.topics.hops, both.topics.whole, both.topics.transit) == (1.0, 1.0, 0.0)
    assert both.atoms.stamp_bytes == both.topics.stamp_bytes


class TestTheChoice:
    # Two busy groups of five, and a quiet topic that both have to do with.
    bridged = forest("abcde", "fghij", "ax", "fx")
    busy = dict.fromkeys("bcdeghij", 120_000.0) | {"a": 10.0, "f": 10.0, "x": 1.0}

    def test_one_host_is_no_choice(self):
        both = compare_sequencers(self.bridged, self.busy, nodes=1)
        assert (both.recommended, both.topics) == ("topics", both.atoms)
        assert "--nodes" in both.reasons[0]

    def test_nothing_that_is_worth_cutting_is_no_choice(self):
        pairs = forest("ab", "cd", "ef", "gh")
        both = compare_sequencers(pairs, dict.fromkeys("abcdefgh", 9.0), nodes=4)
        assert (both.recommended, both.atoms.cut) == ("topics", 0)

    def test_whole_groups_while_a_host_can_do_them(self):
        quiet = {topic: rate / 200 for topic, rate in self.busy.items()}
        both = compare_sequencers(self.bridged, quiet, nodes=2)
        assert both.recommended == "topics"
        assert both.topics.fits
        assert both.reasons[0].endswith("enough")
        assert both.atoms.hops_max > both.topics.hops_max == 1

    def test_parts_on_several_hosts_when_one_cannot(self):
        both = compare_sequencers(self.bridged, self.busy, nodes=2)
        assert both.recommended == "atoms"
        assert not both.topics.fits
        assert both.atoms.fits
        assert both.atoms.load_max < 0.6 * both.topics.load_max
        assert "not enough" in both.reasons[0]

    def test_what_a_host_carries_can_be_said(self):
        quiet = {topic: rate / 200 for topic, rate in self.busy.items()}
        both = compare_sequencers(self.bridged, quiet, nodes=2, capacity=4000.0)
        assert both.topics.load_max > 4000
        assert (both.recommended, both.topics.fits, both.atoms.fits) == ("atoms", False, True)

    def test_a_complete_group_gains_nothing_from_more_hosts(self):
        both = compare_sequencers(forest("abcdefgh"), dict.fromkeys("abcdefgh", 180_000.0), nodes=4)
        assert both.recommended == "topics"
        assert not both.topics.fits
        assert both.atoms.load_max == both.topics.load_max, "every event visits the top"
        assert "no better" in both.reasons[1]


def test_a_document_tells_of_both_and_older_ones_are_still_read():
    sets = [((a, b), 2, 2) for a, b in combinations("abcd", 2)]
    document = make_plan(count_sets(sets), dict.fromkeys("abcd", 5.0), nodes=2)
    assert document.atoms.count == len(document.overlaps) == 6
    assert document.sequencers.nodes == 2
    data = msgspec.to_builtins(document)
    assert load_plan(data) == document
    old = load_plan({key: value for key, value in data.items() if key not in ("atoms", "sequencers")})
    assert isinstance(old, PlanDocument)
    assert (old.atoms, old.sequencers, old.ranks) == (None, None, document.ranks)
