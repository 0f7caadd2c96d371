"""Paper 003 reproduced: delays add up, placings are what they say, claims are judged and can fail."""

from __future__ import annotations

import numpy as np
import pytest

from unisono.cli.lab_reproduce import _Tally
from unisono.engines.sequencing_atoms import check_graph, seen
from unisono.lab.experiments import find_experiment
from unisono.lab.reproduce import atom_claims, catalogue
from unisono.lab.reproduce.atom_claims import COUNTED, OCCUPANCIES
from unisono.lab.reproduce.atom_plots import GROUPS
from unisono.lab.reproduce.atom_worlds import Network, members_of, place, send, zipf_members
from unisono.lab.reproduce.claims import number
from unisono.lab.reproduce.experiments import ATOM_PLACINGS
from unisono.lab.reproduce.families import Sweep
from unisono.lab.reproduce.rows import Rows
from unisono.model.errors import ConfigError
from unisono.sim.topologies.transit_stub import TransitStub, clustered_hosts, transit_stub

HOSTS = 24


@pytest.fixture(scope="module")
def network():
    return Network(HOSTS, 1, 3)


@pytest.fixture(scope="module")
def members():
    return zipf_members(HOSTS, 12, np.random.default_rng(3))


def test_a_message_takes_the_way_through_its_machines(network, members):
    graph = transit_stub(3, TransitStub(stub_domains=1))
    at = clustered_hosts(graph, HOSTS, 16, 3).tolist()
    placed = place(members, network, "paper", 3)
    expected: dict[int, list[float]] = {}
    for group, inside in members.groups.items():
        hosts = [int(name.split()[1]) for name in sorted(inside)]
        way = [placed[1][one] for one in placed[0].routes[group]]
        for sender in hosts:
            stops = [at[sender], *way]
            so_far = sum(graph.delay_s(a, b) for a, b in zip(stops, way, strict=False))
            for receiver in hosts:
                if receiver != sender:
                    expected.setdefault(receiver, []).append(so_far + graph.delay_s(way[-1], at[receiver]))
    heard = send(members, network, placed)
    for receiver, delays in expected.items():
        assert sorted(heard.sequenced_s[heard.receiver == receiver]) == pytest.approx(sorted(delays))
    unicast = [graph.delay_s(at[0], at[other]) for other in range(HOSTS)]
    assert network.unicast[0] == pytest.approx(unicast)


@pytest.mark.parametrize("placing", ATOM_PLACINGS)
def test_every_placing_is_lawful_and_no_shorter_than_the_direct_way(network, members, placing):
    graph, machine = place(members, network, placing, 5)
    check_graph(graph)
    assert len(set(machine.values())) == len(machine)
    assert set(machine) == {one for route in graph.routes.values() for one in route}
    heard = send(members, network, (graph, machine))
    assert (heard.sequenced_s >= heard.unicast_s - 1e-12).all()
    assert len(heard.receiver) == sum(len(m) * (len(m) - 1) for m in members.groups.values())


def test_what_we_put_together_sees_no_more_than_the_busiest_receiver(members):
    ours, alone = seen(members.ours(), members.rates), seen(members.forest(), members.rates)
    assert len(ours) < len(alone)
    assert all(load <= max(members.busiest(), alone[one]) for one, load in ours.items())


def test_our_mapping_settles_where_no_place_wants_to_move(network):
    two = members_of(np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], *[[0, 0]] * (HOSTS - 5)], np.bool_))
    _, machine = place(two, network, "spread", 1)
    for column, group in zip(two.held.T, two.groups, strict=True):
        cost = network.from_hosts[column].sum(axis=0)
        other = next(machine[one] for one in two.groups if one != group)
        assert cost[machine[group]] == pytest.approx(np.delete(cost, other).min())


def small_tables():
    def rows(name, grid, **fixed):
        run, where = find_experiment(name).run, fixed | {"hosts": HOSTS}
        return [where | point | {"seed": 1} | run(where | point, 1) for point in grid]

    by_groups = [{"groups": groups} for groups in GROUPS]
    stretch = rows("003-stretch", by_groups, stub_domains=1)
    occupancies = [{"occupancy": p} for p in OCCUPANCIES]
    return {
        "stretch": Rows(stretch),
        "stretch-hosts": Rows([row | {"hosts": hosts} for hosts in (32, 64) for row in stretch]),
        "nodes": Rows(rows("003-nodes", [{"groups": groups} for groups in COUNTED])),
        "occupancy": Rows(rows("003-occupancy", occupancies, groups=8)),
    }


def verdicts(tables):
    return {claim.claim: claim.verdict for claim in atom_claims.judge(tables)}


@pytest.fixture(scope="module")
def tables():
    return small_tables()


def test_every_figure_has_claims_and_a_plot(tables):
    found = {claim.figure for claim in atom_claims.judge(tables)}
    assert found == {*atom_claims.FIGURES, "beaten"}
    plots = {plot.figure: plot for plot in atom_claims.FAMILY.plots(tables)}
    assert set(plots) == {f"003-{i}" for i in range(3, 9)}
    for name in ("003-3", "003-4", "003-5", "003-6", "003-8"):
        assert any(curve.is_ours for curve in plots[name].curves)


def test_small_worlds_have_the_trends_and_broken_figures_differ(tables):
    there = verdicts(tables)
    below_8 = "with 64 groups the largest latency stretch is less than 8"
    enough = "C1 and C2 are enough (a single path for each group, no loops)"
    near = "the highest relative delay penalties are those of pairs very close to each other"
    assert [there[claim] for claim in (below_8, enough, near)] == ["reproduced", "differs", "reproduced"]

    def changed(table, **figures):
        return verdicts(tables | {table: Rows([row | figures for row in tables[table].rows])})

    assert changed("stretch", paper_max=8.0)[below_8] == "differs"
    assert changed("stretch", paper_worst=0.5)[near] == "differs"
    assert changed("nodes", coin_breaks_c3=0.0)[enough] == "reproduced"
    nor_sees = "nor does one see more"
    assert (changed("nodes", paper_seen=1.0)[nor_sees], changed("nodes", paper_seen=1.1)[nor_sees]) == (
        "reproduced",
        "differs",
    )
    whole = "the same, all numbers of groups"
    assert changed("stretch", paper_mean=2.0, ours_mean=1.5)[whole] == "reproduced"
    assert changed("stretch", paper_mean=2.0, ours_mean=1.51)[whole] == "differs"
    assert (
        changed("occupancy", paper_nodes=1.0)["above 0.9 there is a single sequencing node"] == "reproduced"
    )


def test_the_edge_of_a_tolerance_belongs_to_it():
    assert number("003-8", "peak", 0.2, 0.15).verdict == "reproduced"
    assert number("003-8", "peak", 0.2, 0.149).verdict == "differs"


def test_the_paper_and_its_parts_are_chosen_by_name():
    assert catalogue.choose(["003"]).figures == atom_claims.FIGURES
    assert catalogue.choose(["003-load"]).figures == ("003-load",)
    assert [sweep.seeds for sweep in atom_claims.sweeps("full")] == [100] * 4


def test_runs_begin_with_the_first_seed_and_go_in_cells_as_told(monkeypatch, tmp_path):
    asked = []

    def stop(spark, spec, out, **_):
        asked.append(spec)
        raise ConfigError("enough")

    monkeypatch.setattr("unisono.pipeline.sweep.run_sweep", stop)
    grid = {"hosts": (8,), "groups": (2,)}
    for sweep in (Sweep("nodes", "003-nodes", grid, 20), Sweep("nodes", "003-nodes", grid, 20, 10)):
        with pytest.raises(ConfigError, match="enough"):
            _Tally().run(sweep, atom_claims.FAMILY, tmp_path, lambda: None)
    assert [(len(spec.cells()), spec.cells()[0].seed_from) for spec in asked] == [(20, 0), (2, 0)]
