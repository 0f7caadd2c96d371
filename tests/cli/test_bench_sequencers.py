"""`unisono bench sequencers`: the document by a tiny run, the workloads and the judge by what they are made of."""

import json
import subprocess
import sys

import pytest

from unisono.cli.bench_scaling_runs import Point
from unisono.cli.bench_sequencers import (
    GROUPS,
    MEMBERS,
    NODES,
    SYSTEMS,
    WORKLOADS,
    cells,
    figures,
    groups_of_zipf_size,
    missed,
)


@pytest.mark.timeout(120)
def test_a_tiny_run_of_two_nodes_and_of_a_stream_has_every_figure():
    options = (
        "--workloads A4 --systems atoms,jetstream --nodes 2 --repeats 1 --events 100 --seconds 0.1 --json"
    )
    command = [sys.executable, "-m", "unisono", "bench", "sequencers", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["missed"] == []
    found = result["workloads"]["A4"]
    assert list(found) == ["atoms 2", "jetstream"]
    for name, nodes in (("atoms 2", {"n1", "n2"}), ("jetstream", set())):
        assert found[name]["events_s"] > 0
        assert 0 < found[name]["p50_ms"] <= found[name]["p99_ms"]
        assert (found[name]["runs"], found[name]["one_order"]) == (1, 1)
        for costs in (found[name]["cpu_us"], found[name]["slow_cpu_us"]):
            assert set(costs) == {"publisher", "server", "nodes", "subscribers"} | nodes
            assert all(costs[node] > 0 for node in nodes), "both nodes have something to do"


def test_groups_have_zipf_sizes_and_everybody_is_in_the_first():
    held = groups_of_zipf_size()
    sizes = [sum(group in mine for mine in held) for group in range(GROUPS)]
    assert len(held) == MEMBERS
    assert sizes == [max(1, round(MEMBERS / k)) for k in range(1, GROUPS + 1)]
    assert held == groups_of_zipf_size()


def test_no_command_needs_numpy_to_start():
    code = "import sys, unisono.cli.main; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_every_system_has_the_same_to_do():
    grid = cells(WORKLOADS, SYSTEMS, NODES)
    for row in grid.values():
        assert list(row) == ["topics 1", "topics 2", "atoms 1", "atoms 2", "jetstream"]
        assert (
            len({(cell.topics, cell.holdings, cell.store, cell.payload_bytes) for cell in row.values()}) == 1
        )


def test_a_second_order_and_what_is_lost_are_missed():
    cell = cells(["A4"], ["topics"], ["1"])["A4"]["topics 1"]
    good, bad = Point(events_s=1.0, one_order=True), Point(one_order=False, faults=["lost"])
    assert missed({"A4": {"topics 1": figures([good, good], cell)}}) == []
    words = missed({"A4": {"topics 1": figures([good, bad], cell)}})
    assert words == ["A4, topics 1: one order in 1 of 2 runs", "A4, topics 1: lost"]
