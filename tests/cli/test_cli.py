"""The command line as a user calls it: real processes, exit codes, JSON on stdout and nothing else."""

import json
import subprocess
import sys

import pytest

from unisono.cli.bench_sim_worlds import Size, measure
from unisono.history import judge
from unisono.journal.reader import read_records


def unisono(*arguments: str, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unisono", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def test_the_demo_shows_the_problem_and_the_cure():
    done = unisono("demo", "--seconds", "3", "--rate", "30", "--no-processes", "--json")
    shown = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    ways = {way["way"]: way for way in shown["ways"]}
    assert ways["bare bus"]["agreement"] < 1.0
    assert shown["bare_order"] == "violated"
    assert ways["unisono wait"]["agreement"] == 1.0
    assert ways["unisono wait"]["events"] == 2 * shown["published"]
    assert shown["unisono_order"] == "held"
    assert "before" in shown["explanation"]
    for way in shown["ways"]:  # topics were joined and left while events flowed
        assert way["joins"] > 2
        assert way["leaves"] > 0
        assert way["wanderer"]["events"] > 0
        assert (way["wanderer"]["agreement"] == 1.0) == (way["way"] != "bare bus")


def test_the_demo_for_people_ends_with_two_verdicts():
    done = unisono("demo", "--seconds", "1", "--no-processes")
    assert done.stdout == ""
    assert "bare bus" in done.stderr
    assert "joins," in done.stderr
    assert "held" in done.stderr


def test_the_demo_kills_a_node_and_nothing_is_lost(tmp_path):
    journal = tmp_path / "journal"
    done = unisono("demo", "--seconds", "1", "--events", "150", "--journal", str(journal), "--json")
    act = json.loads(done.stdout)["processes"]
    assert done.returncode == 0, done.stderr
    assert act["heard"] == [300, 300, 300, 450]
    assert act["agreeing"] == act["pairs"] == 6
    assert act["killed"] == "n1"
    verdicts = {v.promise: v.outcome for v in judge(read_records(journal))}
    assert verdicts["total_notification_order"] == verdicts["no_duplication"] == "held"


def test_explore_quick_holds():
    done = unisono("lab", "explore", "--quick", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["configurations"] > 0
    assert found["states"] > 0
    assert found["violations"] == found["stuck"] == 0


def test_every_planted_bug_is_caught():
    done = unisono("lab", "bugs", "--json")
    found = json.loads(done.stdout)
    assert found["planted"] == found["caught"] >= 14
    assert done.returncode == 0


def test_fuzz_and_replay():
    done = unisono("lab", "fuzz", "--seeds", "40", "--from", "5", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["seeds"] == 40
    assert found["violations"] == found["stuck"] == 0
    first, second = unisono("lab", "replay", "5"), unisono("lab", "replay", "5")
    assert first.stdout == second.stdout
    assert len(first.stdout.splitlines()) > 10


def test_bench_core_reports_what_the_contract_asks_for():
    done = unisono("bench", "core", "--events", "5000", "--repeats", "1", "--json")
    found = json.loads(done.stdout)
    assert found["ratio"] == round(found["total_events_s"] / found["none_events_s"], 3) or found["ratio"] > 0
    assert (done.returncode == 0) == (not found["missed"])
    assert found["slow_consumer"]["waiting_max"] <= found["slow_consumer"]["queue"] + 4096


def test_bench_sim_stands_beside_simpy():
    done = unisono("bench", "sim", "--occurrences", "10000", "--repeats", "1", "--no-worlds", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode == 0) == (not found["missed"])
    for figures in found["models"].values():
        others = [figures[k] for k in figures if k.startswith("simpy")]
        assert figures["ratio"] == pytest.approx(figures["unisono_occurrences_s"] / max(others), abs=0.01)
    assert found["ratio"] == min(figures["ratio"] for figures in found["models"].values())
    assert found["worlds"] == []


def test_bench_sim_measures_worlds():
    found = measure(Size(nodes=60, topics=5, each=5, events=4))
    assert found["is_quiet"]
    assert found["deliveries"] == 60 * 4
    assert 0 <= found["set_up_s"] <= found["seconds"]


def test_bad_usage_is_exit_code_2():
    assert unisono("lab", "fuzz", "--seeds", "0").returncode == 2
    assert unisono("demo", "--rate", "-1").returncode == 2
    assert unisono("nonsense").returncode == 2


def test_version():
    assert unisono("--version").stdout.startswith("unisono ")
