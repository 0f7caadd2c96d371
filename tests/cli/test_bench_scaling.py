"""`unisono bench scaling`: the document by a tiny run, the arithmetic and the judge by planted figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unisono.cli.bench_scaling import PARTS, cells, law, median, missed
from unisono.cli.bench_scaling_runs import Point

sys.path.append(str(Path(__file__).resolve().parents[2]))  # where benchmarks/ is

from benchmarks.scaling.system import Work, agree
from benchmarks.scaling.table import tables


def test_a_tiny_run_has_every_figure():
    options = "--parts overlap --points pairs --repeats 1 --events 400 --seconds 0.2 --json"
    command = [sys.executable, "-m", "unisono", "bench", "scaling", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    figures = result["parts"]["overlap"]["pairs"]
    assert figures["events_s"] > 0
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]
    assert set(figures["cpu_us"]) == {"publisher", "server", "nodes", "subscribers"}
    assert all(cost > 0 for cost in figures["cpu_us"].values())
    assert figures["bytes_in"] > 100
    assert (figures["runs"], figures["one_order"], figures["faults"]) == (1, 1, [])
    assert result["missed"] == []
    written = "\n".join(tables(result))
    assert "| 8 topics, 8 subscribers: 4 disjoint pairs of topics | " in written
    assert f"{figures['bytes_in']:,.0f}" in written


def test_a_table_has_a_line_for_each_system_with_its_name():
    row = {"1": figures(1.0), "10": figures(2.0)}
    result = {
        "parts": {"subscribers": row, "topics": {"1": row["1"]}, "nodes": row, "nodes-quota": row},
        "laws": {"subscribers": law(row)},
        "two_nodes": {"nodes": 1.5},
        "node_quota": 0.05,
        "machine": {"cores": 2, "cpu": "?", "system": "Linux", "python": "3"},
        "load": [0.1],
    }
    names = [line.split(" | ")[0] for line in tables(result) if line.startswith("| ")]
    assert names == [
        "| system",
        "| 5 topics, 1 subscriber of all",
        "| 5 topics, 10 subscribers of all",
        "| eight components",
        "| 1 node",
        "| 10 nodes",
        "| 1 node, 5% of a core",
        "| 10 nodes, 5% of a core each",
    ]


def figures(cpu_us, **more):
    return median([Point(events_s=1000.0, one_order=True, cpu_us=dict.fromkeys(("nodes",), cpu_us), **more)])


def test_a_law_is_a_line_through_the_points():
    row = {str(n): figures(3.0 + 0.5 * n, slow_bytes_in=200.0 + 2 * n) for n in (1, 4, 10)}
    assert law(row) == {
        kind: {"a": pytest.approx(a), "b": pytest.approx(b)}
        for kind, a, b in (("nodes", 3.0, 0.5), ("all", 3.0, 0.5), ("slow_bytes_in", 200.0, 2.0))
    }


def test_two_nodes_that_are_hardly_faster_and_a_second_order_are_missed():
    good = {"parts": {"topics": {"1": figures(1.0)}}, "two_nodes": {"nodes": 0.9, "nodes-quota": 1.7}}
    assert missed(good) == []
    assert missed(good | {"two_nodes": {"nodes-quota": 1.5}}) == ["two nodes at 1.50 of one, target 1.6"]
    bad = median([Point(one_order=False, faults=["lost"]), Point(one_order=True)])
    words = missed({"parts": {"topics": {"1": bad}}, "two_nodes": {}})
    assert words == ["topics 1: one order in 1 of 2 runs", "topics 1: lost"]


def test_orders_are_compared_on_what_both_hold():
    work = Work(topics=3, holdings=[[0, 1], [1, 2]])
    heads = [[(0, 0, n) for n in numbers] for numbers in ((0, 1, 4), (1, 2, 4), (4, 2, 1))]
    assert agree(work, 0, 1, heads[0], heads[1])
    assert not agree(work, 0, 1, heads[0], heads[2])


def test_every_topic_of_every_point_is_held_by_somebody():
    for part in PARTS:
        for key, cell in cells(0.05)[part].items():
            held = {topic for holding in cell.holdings for topic in holding}
            assert held == set(range(cell.topics)), (part, key)
