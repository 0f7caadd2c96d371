"""`unisono bench peers`: the contract by a tiny run, and the arithmetic and the judge by planted figures."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unisono.cli.bench_peers import measure
from unisono.cli.bench_peers_runs import Cell, Heard, Run, outcome, watch_stalls
from unisono.cli.bench_peers_targets import compare, figures

sys.path.append(str(Path(__file__).resolve().parents[2]))  # where benchmarks/ is

from benchmarks.peers.kit import TOPICS, Load, Row, Work, judge, last_latencies_ms, quantiles
from benchmarks.peers.table import tables


def test_a_tiny_run_keeps_the_contract():
    options = "--peers unisono,nats-core --workloads A,B --subscribers 1 --rates 1000 --repeats 1"
    command = [sys.executable, "-m", "unisono", "bench", "peers", *options.split()]
    done = subprocess.run(
        [*command, "--events", "300", "--seconds", "0.2", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    result = json.loads(done.stdout)
    assert set(result["A"]) == {"1"}
    assert set(result["A"]["1"]) == {"unisono", "nats-core"}
    assert all(speed > 0 for speed in result["A"]["1"].values())
    assert all(set(late) == {"p50_ms", "p99_ms"} for late in result["B"]["1000"].values())
    assert result["one_order"]["B"]["1000"]["unisono"] == {"runs": 1, "one_order": 1}
    assert result["skipped"] == {}
    assert result["faults"] == []
    assert done.returncode == (1 if result["missed"] else 0)


def test_many_publishers_are_counted_by_runs_in_one_order():
    cell = Cell(workload="C", key="", subscribers=4, publishers=3, events=100)
    found = [Run(peer="p", cell=cell, one_order=one) for one in (True, False, True)]
    assert figures(found)["C"] == {"p": {"runs": 3, "one_order": 2}}


def test_a_peer_that_is_not_there_is_skipped_and_named(monkeypatch):
    async def check(peer):
        return ("1.0", "") if peer == "nats-core" else ("", "it is not installed")

    async def run(peer, cell):
        return Run(peer=peer, cell=cell, events_s=1000.0, one_order=True)

    monkeypatch.setattr("unisono.cli.bench_peers.check", check)
    monkeypatch.setattr("unisono.cli.bench_peers.run", run)
    cells = [Cell(workload="A", key="4", subscribers=4, events=100)]
    result = asyncio.run(measure(["zenoh", "nats-core", "unisono"], cells, 2, lambda done, of: None))
    assert result["skipped"] == dict.fromkeys(["zenoh", "unisono"], "it is not installed")
    assert result["A"] == {"4": {"nats-core": 1000}}
    assert result["missed"] == ["unisono was not measured: it is not installed"]


def test_peers_take_turns(monkeypatch):
    turns = []

    async def check(peer):
        return "1.0", ""

    async def run(peer, cell):
        turns.append(peer)
        return Run(peer=peer, cell=cell, events_s=1.0, one_order=True)

    monkeypatch.setattr("unisono.cli.bench_peers.check", check)
    monkeypatch.setattr("unisono.cli.bench_peers.run", run)
    cells = [Cell(workload="A", key="1", subscribers=1, events=100)]
    asyncio.run(measure(["a", "b"], cells, 3, lambda done, of: None))
    assert turns == ["a", "b"] * 3


def test_a_run_on_a_machine_that_stood_still_is_repeated_and_noted(monkeypatch):
    still = [3.0, 0.0]

    async def check(peer):
        return "1.0", ""

    async def run(peer, cell):
        return Run(peer=peer, cell=cell, events_s=1.0 + len(still), one_order=True, stall_s=still.pop(0))

    monkeypatch.setattr("unisono.cli.bench_peers.check", check)
    monkeypatch.setattr("unisono.cli.bench_peers.run", run)
    cells = [Cell(workload="A", key="1", subscribers=1, events=100)]
    result = asyncio.run(measure(["a"], cells, 1, lambda done, of: None))
    assert result["A"] == {"1": {"a": 2}}
    assert [stall["stall_s"] for stall in result["stalls"]] == [3.0]


def test_a_stall_is_noticed():
    async def stand_still():
        found = []
        watching = asyncio.create_task(watch_stalls(found))
        await asyncio.sleep(0)
        time.sleep(1.3)  # noqa: ASYNC251 (that is the point)
        await asyncio.sleep(0.15)
        watching.cancel()
        return found

    assert asyncio.run(stand_still())[0] >= 1.1


def runs(speeds, *, key="4", one_order=True, faults=()):
    cell = Cell(workload="A", key=key, subscribers=int(key), events=100)
    return [
        Run(peer=peer, cell=cell, events_s=speed, one_order=one_order, faults=list(faults))
        for peer, speed in speeds.items()
    ]


GOOD = {
    "unisono": 300_000.0,
    "unisono-durable": 200_000.0,
    "jetstream": 90_000.0,
    "jetstream-batched": 220_000.0,
    "redis-streams": 100_000.0,
    "corosync-cpg": 120_000.0,
    "nats-core": 900_000.0,  # keeps no order: no rival
}


def test_medians_are_what_counts():
    cell = Cell(workload="A", key="1", subscribers=1, events=100)
    several = [Run(peer="p", cell=cell, events_s=speed, one_order=True) for speed in (1.0, 900.0, 30.0, None)]
    assert figures(several)["A"] == {"1": {"p": 30}}


def test_the_tables_of_the_documentation_are_made_from_the_document():
    found = figures(runs({"unisono": 300_000.0, "jetstream": 120_000.0}))
    ratios, _ = compare(found)
    machine = {"cores": 2, "cpu": "a cpu", "system": "Linux", "python": "3.11"}
    lines = list(tables(found | {"ratios": ratios, "machine": machine, "versions": {"unisono": "1"}}))
    assert "| unisono | 300,000 | - |" in lines
    assert "| unisono / jetstream, events/s at 4 subscribers | 2.50 | at least 3, missed |" in lines


def test_good_figures_miss_nothing():
    ratios, missed = compare(figures(runs(GOOD)))
    assert missed == []
    assert len(ratios) == 5
    assert all(ratio["held"] for ratio in ratios)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"unisono": 260_000.0}, "unisono at 2.89 of jetstream, target at least 3"),
        ({"redis-streams": 250_000.0}, "unisono at 1.20 of redis-streams, target at least 1.25"),
        ({"corosync-cpg": 310_000.0}, "unisono at 0.97 of corosync-cpg, target at least 1"),
        ({"unisono-durable": 178_000.0}, "unisono-durable at 1.98 of jetstream, target at least 2"),
        (
            {"jetstream-batched": 260_000.0},
            "unisono-durable at 0.77 of jetstream-batched, target at least 0.8",
        ),
    ],
)
def test_a_missed_target_is_said(change, word):
    assert compare(figures(runs(GOOD | change)))[1] == [f"events/s at 4 subscribers: {word}"]


def test_corosync_is_a_target_at_four_subscribers_only():
    assert compare(figures(runs(GOOD | {"corosync-cpg": 310_000.0}, key="10")))[1] == []


def test_latencies_are_judged_at_a_thousand_a_second():
    cell = Cell(workload="B", key="1000", subscribers=10, events=100, rate=1000)
    late = {"jetstream": (0.5, 1.0), "unisono": (0.6, 1.3), "unisono-durable": (1.1, 1.9)}
    found = [
        Run(peer=peer, cell=cell, p50_ms=p50, p99_ms=p99, one_order=True) for peer, (p50, p99) in late.items()
    ]
    assert compare(figures(found))[1] == [
        "p99 at 1000 events/s: unisono at 1.30 of jetstream, target at most 1.25",
        "p50 at 1000 events/s: unisono-durable at 2.20 of jetstream, target at most 2",
    ]


def test_no_one_order_and_other_faults_of_ours_are_missed():
    broken = {"unisono": 300_000.0, "nats-core": 900_000.0}
    _, missed = compare(figures(runs(broken, one_order=False, faults=["subscriber 0: 3 events missing"])))
    assert missed == [
        "unisono had one order in 0 of 1 runs of A 4",
        "unisono in A 4: subscriber 0: 3 events missing",
    ]


def test_events_per_second_last_until_the_last_subscriber_has_its_last():
    cell = Cell(workload="A", key="1", subscribers=1, events=100)
    assert outcome("p", cell, 1_000_000_000, Heard(1_500_000_000, 100, True, [])).events_s == 200
    assert outcome("p", cell, 1_000_000_000, Heard(0, 90, True, [])).events_s is None


WORK = Work(subscribers=2, publishers=2, events=10)
ORDER = [(0, publisher, n) for n in range(10) for publisher in range(2)]


def verdict(*rows, work=WORK):
    return judge(work, rows, [[0] * len(row) for row in rows], [1] * len(rows))


def test_one_order_is_seen():
    hearing = verdict(ORDER, ORDER)
    assert (hearing.one_order, hearing.faults, hearing.heard) == (True, [], 20)


def test_two_swapped_events_of_different_topics_are_no_one_order():
    other = list(ORDER)
    other[4], other[5] = other[5], other[4]
    hearing = verdict(ORDER, other)
    assert (hearing.one_order, hearing.faults) == (False, [])


def test_events_that_are_missing_or_come_twice_are_counted():
    assert verdict(ORDER[:-1], ORDER[:-1]).faults == [f"subscriber {i}: 1 events missing" for i in range(2)]
    assert verdict(ORDER, [*ORDER, ORDER[0]]).faults == [
        "subscriber 1: 1 events twice",
        "subscriber 1: 1 events out of their publisher's order on a topic",
    ]
    assert verdict([*ORDER, (0, 7, 1)], ORDER).faults == ["subscriber 0: 1 events unknown"]


def test_a_publisher_that_is_overtaken_on_a_topic_is_a_fault():
    work = Work(subscribers=1, events=10)
    row = [(0, 0, n) for n in (5, 1, 2, 3, 4, 0, 6, 7, 8, 9)]  # 0 and 5 are of one topic
    assert verdict(row, work=work).faults == [
        "subscriber 0: 1 events out of their publisher's order on a topic"
    ]


def test_latency_counts_to_the_last_subscriber():
    heads = [[(1_000_000, 0, 0), (2_000_000, 0, 1)], [(2_000_000, 0, 1), (1_000_000, 0, 0)]]
    times = [[3_000_000, 4_000_000], [5_000_000, 9_000_000]]
    assert sorted(last_latencies_ms(heads, times)) == [3.0, 8.0]
    assert quantiles([float(n) for n in range(101)]) == (50.0, 99.0)


def test_a_row_says_when_it_is_full():
    row = Row(2, timed=True)
    row.take(b"a")
    assert not row.done_ns
    row.take(b"b")
    assert row.done_ns >= row.times[1] >= row.times[0]


@pytest.mark.parametrize("rate", [0, 2000])
def test_a_load_has_every_event_once_in_turns_over_the_topics(rate):
    async def collect():
        load = Load(Work(events=23, rate=rate, publisher=1))
        return [event async for burst in load.bursts() for event in burst]

    events = asyncio.run(collect())
    assert [topic for topic, _ in events] == [TOPICS[n % 5] for n in range(23)]
    assert {len(payload) for _, payload in events} == {100}
