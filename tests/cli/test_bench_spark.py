"""What `unisono bench spark` counts as missed, and how it sees memory."""

from unisono.cli.bench_spark import _spent, missed
from unisono.cli.bench_spark_costs import cpu_s, memory_mib

GOOD = {
    "live": {"read_s": 60_000},
    "out": {"rows_s": 25_000, "rows": 10, "stored": 10},
    "backlog": {"python_mib": 100, "events": 10, "expected": 10},
}


def test_targets():
    assert missed(GOOD) == []
    assert missed(GOOD | {"live": {"read_s": 10}}) == ["10 events/s into Spark, target 50,000"]
    slow = {"rows_s": 7, "rows": 10, "stored": 11}
    assert missed(GOOD | {"out": slow}) == [
        "7 rows/s out of Spark, target 20,000",
        "10 rows became 11 events",
    ]
    large = GOOD["backlog"] | {"python_mib": 9000, "events": 9}
    assert missed(GOOD | {"backlog": large}) == [
        "9 of 10 events were read",
        "9,000 MiB of Python to drain the backlog, at most 2,048",
    ]


def test_time_and_memory():
    assert _spent([{"durationMs": {"a": 1500}}, {"durationMs": {"a": 500, "b": 1}}]) == {"a": 2.0, "b": 0.001}
    assert set(memory_mib()) == {"python", "java"}
    assert set(cpu_s()) == {"server", "node", "java", "python"}
