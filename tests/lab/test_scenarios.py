"""Scenario files: what they say happens, the same seed gives the same, and wrong ones give one line."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.cli import main
from unisono.engines.topic_managers.manager import TopicManager
from unisono.history import Kind
from unisono.history.files import read_history
from unisono.journal import read_records
from unisono.lab.scenarios.load import KEYS, load_scenario, read_scenario
from unisono.lab.scenarios.reading import Text
from unisono.lab.scenarios.run import Run, run_scenario
from unisono.lab.scenarios.worlds import make_world
from unisono.model.errors import ConfigError
from unisono.pipeline.audit import audit
from unisono.pipeline.tasks import Here

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.toml"))
LARGE = [file for file in EXAMPLES if file.stem == "ring"]  # takes a quarter of a minute
SHORT = [file for file in EXAMPLES if file not in LARGE]
FILE = Path("world.toml")

SMALL = """\
seed = 5
duration = 2.0

[topics]
count = 4

[[subscribers]]
count = 6
pick = 2

[publications]
rate = 20.0
publishers = 2
popularity = "zipf"

[network]
latency_ms = 10.0
"""


def run(text: str) -> Run:
    return run_scenario(read_scenario(Text(str(FILE), text), FILE))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        make_world(read_scenario(Text(str(FILE), text), FILE))
    return str(error.value)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unisono", "lab", "run", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("file", SHORT, ids=lambda file: file.stem)
def test_the_examples_run_and_hold_and_the_audit_agrees(file, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    assert call(monkeypatch, str(file), "--out", str(out), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["published"] > 100
    assert told["delivered"] > told["published"]
    assert 0 < told["latency_ms"]["p50"] < told["latency_ms"]["p99"] < 5000
    assert set(told["verdicts"].values()) <= {"held", "unknown"}
    assert told["verdicts"]["total_notification_order"] == "held"
    assert told["verdicts"]["nothing_lost"] == "held"
    assert told["problems"] == []
    assert told["seed"] > 0
    assert told["simulated_seconds"] >= 12
    assert told["wall_seconds"] > 0
    if file.stem == "ticker_desk":
        assert told["tagged"] > 0, "loss with a small buffer"
    elif file.stem == "game":
        assert told["verdicts"]["causal_order"] == "held"
        assert any(".voice/" in r.event for r in read_records(out / "journal")), "players answer"
    else:
        assert (
            told["happened"]["crashes"]
            == told["happened"]["takeovers"]
            == told["happened"]["partitions"]
            == 1
        )
    report = audit(out / "journal", mode="both", runner=Here())
    assert report.verdict == "held"
    assert report.deliveries == told["delivered"]
    kept = json.loads((out / "summary.json").read_text())
    assert kept == {key: value for key, value in told.items() if key != "wall_seconds"}
    assert (out / "scenario.toml").read_text() == file.read_text()


@pytest.mark.parametrize("file", LARGE, ids=lambda file: file.stem)
def test_large_examples_run_when_they_are_smaller(file):
    text = file.read_text().replace("9000", "90").replace("peers = 10000", "peers = 1000")
    assert load_scenario(file).subscribers == 9000
    assert run(text.replace("count = 1000", "count = 50")).summary.is_good


@pytest.mark.parametrize("shape", ["colocated", "chain", "nodes"])
def test_the_same_file_gives_the_same_summary_and_trace(shape):
    text = f'shape = "{shape}"\nrecord = ["trace"]\n' + SMALL + "loss = 0.1\nspread_ms = 9\n"
    one, two = (run(text) for _ in range(2))
    assert one.lines == two.lines != []
    ours = [json.loads(json.dumps(str(r.summary))).rpartition("wall_seconds")[0] for r in (one, two)]
    assert ours[0] == ours[1]
    assert one.summary.digest == two.summary.digest
    assert one.summary.trace_digest == two.summary.trace_digest
    other = run(text.replace("seed = 5", "seed = 6"))
    assert other.summary.digest != one.summary.digest
    assert other.summary.trace_digest != one.summary.trace_digest


def test_the_digests_do_not_depend_on_the_hash_seed(tmp_path):
    text = 'record = ["trace"]\n' + SMALL.replace("count = 4", "count = 20").replace(
        "count = 6", "count = 40"
    )
    (tmp_path / "world.toml").write_text(text.replace("pick = 2", "pick = 5") + "[nodes]\ncount = 2\n")
    found = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "unisono", "lab", "run", str(tmp_path / "world.toml"), "--json"]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, timeout=60, check=True
        )
        told = json.loads(done.stdout)
        found.add((told["digest"], told["trace_digest"]))
    assert len(found) == 1


def test_a_broken_promise_is_exit_code_1(tmp_path, monkeypatch, capsys):
    file = tmp_path / "world.toml"
    busy = SMALL.replace("rate = 20.0", "rate = 200.0").replace("pick = 2", "pick = 3")
    file.write_text(busy + "spread_ms = 50.0\n")
    assert call(monkeypatch, str(file), "--json") == 0
    capsys.readouterr()
    monkeypatch.setattr(TopicManager, "learn", lambda self, entries: None)
    assert call(monkeypatch, str(file), "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verdicts"]["total_notification_order"] == "violated"
    assert "before" in told["explanations"]["total_notification_order"]


def test_a_world_that_does_not_come_to_rest_is_a_problem(monkeypatch):
    monkeypatch.setattr("unisono.lab.scenarios.run.STEPS_MAX", 50)
    summary = run(SMALL).summary
    assert summary.problems
    assert not summary.is_good


# What keys do.


def test_shapes_cost_what_they_should():
    """Latency: publisher to sequencer and on to the subscriber; a chain has more stops, nodes store in between."""
    text = "record = []\n" + SMALL.replace("pick = 2", "topics = 'all'")
    one = run(text).summary.latency_ms
    assert one.p50 == one.p99 == 20.0
    chain = run('shape = "chain"\n' + text).summary.latency_ms
    assert chain.p99 == 50.0, "four managers in a row"
    back = run('shape = "chain"\nmode = "return"\n' + text).summary.latency_ms
    assert back.p99 == 60.0
    nodes = run('shape = "nodes"\n' + text).summary.latency_ms
    assert nodes.p50 is not None
    assert 20 < nodes.p50 < 60


def test_the_last_topic_of_the_file_has_the_longest_way():
    names = ["zebra", "yak", "ape", "cow"]
    text = SMALL.replace("count = 4", f"names = {names}").replace("pick = 2", "pick = 4")
    worst = text.replace('"zipf"', '"worst-case"')
    done = run('shape = "chain"\n' + worst)
    assert {r.topic for r in done.records if r.kind is Kind.PUBLISHED} == {"cow"}
    assert done.summary.latency_ms.p50 == 50.0
    best = run('shape = "chain"\n' + worst.replace('popularity = "worst-case"', 'topics = ["zebra"]'))
    assert best.summary.latency_ms.p50 == 20.0


def test_each_group_has_its_figures():
    text = SMALL.replace("rate = 20.0", "rate = 200.0") + "spread_ms = 60.0\n"
    text += '[[subscribers]]\nname = "hasty"\ncount = 3\non_gap = "tag"\n'
    text += '[[subscribers]]\nname = "clerk"\non_gap = "skip"\nbuffer = 5\n'
    summary = run(text).summary
    patient, hasty, clerk = summary.groups
    assert [group.name for group in summary.groups] == ["s1 to s6", "hasty1 to hasty3", "clerk"]
    assert (patient.tagged, patient.dropped, hasty.dropped, clerk.tagged) == (0, 0, 0, 0)
    assert hasty.tagged > 0
    assert clerk.dropped > 0
    assert hasty.delivered == 3 * summary.published == 3 * (clerk.delivered + clerk.dropped)
    assert hasty.latency_ms.p50 < patient.latency_ms.p50
    for name in ("delivered", "tagged", "dropped", "lost", "held"):
        assert sum(getattr(group, name) for group in summary.groups) == getattr(summary, name)


def test_faults_do_harm_while_they_last():
    calm = SMALL + '[[faults]]\nat = 0.5\nuntil = 1.5\nkind = "latency"\nlatency_ms = 100\n'
    took: dict[bool, set[float]] = {False: set(), True: set()}
    records = run(calm).records
    published = {r.event: r.at for r in records if r.kind is Kind.PUBLISHED}
    for record in records:
        if record.kind is Kind.DELIVERED:
            at = published[record.event]
            if at < 0.4 or at > 1.7 or 0.5 < at < 1.3:
                took[0.5 < at < 1.3].add(round(record.at - at, 3))
    assert took == {False: {0.02}, True: {0.2}}
    lossy = SMALL.replace("[[subscribers]]", '[[subscribers]]\non_gap = "skip"\nrepair = false')
    lossy += '[[faults]]\nat = 0.5\nuntil = 1.5\nkind = "loss"\nloss = 0.5\n'
    summary = run(lossy).summary
    whole = run(lossy.replace("loss = 0.5", "loss = 0.0")).summary
    assert 0 < summary.delivered < whole.delivered
    assert summary.verdicts["nothing_lost"] == "unknown", "nobody was promised that"


def test_a_shuffle_makes_other_topics_popular():
    text = SMALL.replace("rate = 20.0", "rate = 400.0").replace('"zipf"', '{ kind = "zipf", shape = 4.0 }')
    text = text.replace("seed = 5", "seed = 2")
    records = run(text + '[[faults]]\nat = 1.0\nkind = "shuffle"\n').records
    halves = [
        Counter(r.topic for r in records if r.kind is Kind.PUBLISHED and (r.at < 1) is half)
        for half in (True, False)
    ]
    first, second = (half.most_common(1)[0] for half in halves)
    assert first[0] == "t1"
    assert second[0] != "t1"
    assert min(first[1], second[1]) > 200


def test_subscribers_come_and_go_and_processes_fail():
    text = (
        SMALL.replace("duration = 2.0", "duration = 6.0").replace("count = 6\npick = 2", 'topics = "all"')
        + '[nodes]\ncount = 2\n[[subscribers]]\nname = "guest"\ntopics = ["t1"]\njoins_at = 2.0\nleaves_at = 4.0\n'
        '[[faults]]\nat = 3.0\nkind = "crash"\nprocess = "node1"\n'
        '[[faults]]\nat = 3.0\nuntil = 3.2\nkind = "pause"\nprocess = "s1"\n'
    )
    done = run(text)
    assert done.summary.is_good, done.summary
    assert done.summary.happened["takeovers"] == 1
    assert done.summary.happened["pauses"] == 1
    seen = [r for r in done.records if r.process == "guest" and r.kind is Kind.DELIVERED]
    assert seen
    assert all(2.0 < r.at < 4.1 for r in seen)


def test_who_crashes_comes_back_when_the_file_says_so():
    text = SMALL.replace("count = 6\npick = 2", "count = 2") + "[nodes]\ncount = 2\n"
    text += '[[faults]]\nat = 1.2\nkind = "crash"\nprocess = "s2"\n'
    gone, back = run(text), run(text + "until = 1.4\n")
    lives = [{r.process for r in done.records if r.kind is Kind.DELIVERED} for done in (gone, back)]
    assert lives == [{"s1", "s2"}, {"s1", "s2", "s2.2"}]
    assert gone.summary.is_good
    assert back.summary.is_good
    assert back.summary.groups[0].delivered > gone.summary.groups[0].delivered


def test_a_trace_is_replayed(tmp_path):
    (tmp_path / "trace.csv").write_text("at,topic,publisher\n0.5,a,x\n0.75,b,y\n0.75,a,x\n3.0,b,y\n")
    text = '[[subscribers]]\ncount = 2\n[publications]\ntrace = "trace.csv"\n'
    done = run_scenario(read_scenario(Text("w.toml", text), tmp_path / "w.toml"))
    published = [(r.at, r.event, r.topic) for r in done.records if r.kind is Kind.PUBLISHED]
    assert published == [(0.5, "x/0/1", "a"), (0.75, "y/0/1", "b"), (0.75, "x/0/2", "a"), (3.0, "y/0/2", "b")]
    assert done.summary.delivered == 8
    table = pa.table({"at": [0.5, 0.75], "topic": ["a", "b"]})
    pq.write_table(table, tmp_path / "trace.parquet")
    parquet = read_scenario(Text("w.toml", text.replace("csv", "parquet")), tmp_path / "w.toml")
    assert parquet.topics == ("a", "b")
    assert parquet.duration == 0.75
    for wrong, why in (
        ("at,topic\n1,a b\n", "has a space"),
        ("at,topic\n2,a\n1,a\n", "sort the trace"),
        ("at\n1\n", "no column 'topic'"),
        ("at,topic\n", "has no events"),
        ("at,topic,publisher\n1,a,p.1\n", "publisher"),
        ("at,topic\nsoon,a\n", "is a number"),
        ("\x00\xff", "trace"),
    ):
        (tmp_path / "trace.csv").write_text(wrong)
        with pytest.raises(ConfigError, match=r"w.toml, line 4: 'publications.trace'") as error:
            read_scenario(Text("w.toml", text), tmp_path / "w.toml")
        assert why in str(error.value)
    (tmp_path / "trace.csv").unlink()
    with pytest.raises(ConfigError, match="No such file"):
        read_scenario(Text("w.toml", text), tmp_path / "w.toml")


def test_what_is_recorded_is_what_was_asked_for(tmp_path, monkeypatch, capsys):
    file, out = tmp_path / "world.toml", tmp_path / "out"
    file.write_text('record = ["history", "trace", "journal"]\n' + SMALL)
    assert call(monkeypatch, str(file), "--out", str(out), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert {path.name for path in out.iterdir()} == {
        "journal",
        "history.jsonl",
        "trace.txt",
        "scenario.toml",
        "summary.json",
    }
    assert sum(r.kind is Kind.DELIVERED for r in read_history(out / "history.jsonl")) == told["delivered"]
    assert sum(r.kind is Kind.DELIVERED for r in read_records(out / "journal")) == told["delivered"]
    assert call(monkeypatch, str(file), "--out", str(out)) == 2
    assert "name a new folder" in capsys.readouterr().err


# What is refused.


def replaced(before: str, after: str) -> str:
    assert before in SMALL
    return SMALL.replace(before, after, 1)


WRONG = {
    "an unknown key": (
        replaced("rate", "rat"),
        "line 12: 'publications.rat' is not a key of [publications]; did you mean 'rate'?",
    ),
    "an unknown key at the top": (
        "sed = 1\n" + SMALL,
        "line 1: 'sed' is not a key of a scenario; did you mean 'seed'?",
    ),
    "an unknown table": (SMALL + "[topology]\nx = 1\n", "line 18: 'topology' is not a key of a scenario"),
    "an unknown key in an inline table": (
        replaced('"zipf"', '{ kind = "zipf", shap = 2 }'),
        "line 14: 'publications.popularity.shap'",
    ),
    "a negative rate": (replaced("20.0", "-20.0"), "line 12: 'publications.rate' is above 0, not -20.0"),
    "a rate of zero": (replaced("20.0", "0"), "line 12: 'publications.rate' is above 0, not 0"),
    "no number": (replaced("20.0", '"fast"'), "line 12: 'publications.rate' is a number, not \"fast\""),
    "not a number": (replaced("20.0", "nan"), "line 12: 'publications.rate' is a number, not nan"),
    "a boolean for a number": (
        replaced("20.0", "true"),
        "line 12: 'publications.rate' is a number, not true",
    ),
    "half a topic": (
        replaced("count = 4", "count = 0.5"),
        "line 5: 'topics.count' is a whole number, not 0.5",
    ),
    "no topics": (replaced("count = 4", "count = 0"), "line 5: 'topics.count' is at least 1, not 0"),
    "too many": (
        replaced("count = 4", "count = 999999"),
        "line 5: 'topics.count' is at most 10,000, not 999999",
    ),
    "a missing topic": (
        replaced("pick = 2", 'topics = ["t1",\n "t9"]'),
        "line 10: 'subscribers.topics' has \"t9\", which is no topic of this scenario",
    ),
    "a pattern for nothing": (
        replaced("pick = 2", 'topics = ["x.*"]'),
        "line 9: 'subscribers.topics' has \"x.*\", which is no topic",
    ),
    "a topic with a space": (
        replaced("count = 4", 'names = ["a b"]'),
        "line 5: 'topics.names' is no good: topic 'a b' has a space",
    ),
    "a topic twice": (
        replaced("count = 4", 'names = ["a", "b", "a"]'),
        "line 5: 'topics.names' has \"a\" twice",
    ),
    "count and names": (
        replaced("count = 4", 'names = ["a"]\ncount = 4'),
        "line 6: 'topics.count' contradicts 'topics.names'",
    ),
    "more picked than there are": (
        replaced("pick = 2", "pick = 5"),
        "line 9: 'subscribers.pick' is 5, and there are 4 topics to pick from",
    ),
    "popularity of nothing": (
        replaced("pick = 2", 'popularity = "zipf"'),
        "line 9: 'subscribers.popularity' says how topics are picked",
    ),
    "a wrong word": (
        replaced('"zipf"', '"zpif"'),
        "line 14: 'publications.popularity' is one of uniform, power-law, zipf, worst-case, not \"zpif\"; did you mean 'zipf'?",
    ),
    "a table for a word": ("name = { a = 1 }\n" + SMALL, "line 1: 'name' is a word, not a table"),
    "a word for a table": (
        "network = 3\n" + SMALL.partition("[network]")[0],
        "line 1: 'network' is a table, not 3",
    ),
    "a number among tables": ("faults = [1]\n" + SMALL, "line 1: 'faults' is made of tables"),
    "loss without end": (SMALL + "loss = 1.0\n", "line 18: 'network.loss' is at most 0.9, not 1.0"),
    "no subscribers": (
        SMALL.replace("[[subscribers]]\ncount = 6\npick = 2\n", ""),
        "'subscribers' is missing",
    ),
    "no publications": (SMALL.partition("[publications]")[0], "'publications' is missing"),
    "no rate": (replaced("rate = 20.0\n", ""), "line 11: 'publications.rate' is missing"),
    "no topics at all": (replaced("[topics]\ncount = 4\n", ""), "'topics' is missing"),
    "wait with a buffer": (
        "buffer = 3\n" + SMALL,
        "line 1: 'buffer' contradicts the rest: on_gap='wait' holds as long as it takes",
    ),
    "wait with a bound": (
        replaced("pick = 2", "pick = 2\nmax_hold = 1.0"),
        "line 10: 'subscribers.max_hold' contradicts the rest",
    ),
    "upward stamps that wait": (
        'stamps = "upward"\n' + SMALL,
        "'on_gap' contradicts the rest: stamps='upward'",
    ),
    "a guarantee that is not simulated": (
        'guarantee = "causal"\n' + SMALL,
        "line 1: 'guarantee' is \"total_causal\" in a simulation",
    ),
    "no guarantee": ('guarantee = "none"\n' + SMALL, "line 1: 'guarantee' is not simulated"),
    "an order": (
        'order = "total"\n' + SMALL,
        "line 1: 'order' is not a key of a scenario; did you mean 'guarantee'?",
    ),
    "another sequencer": (
        'sequencer = "sequencing_atoms"\n' + SMALL,
        "line 1: 'sequencer' is not simulated as",
    ),
    "nodes in a chain": (
        'shape = "chain"\n' + SMALL + "[nodes]\ncount = 2\n",
        'line 19: \'nodes\' go with shape = "nodes", not with "chain"',
    ),
    "return mode with nodes": (
        'mode = "return"\n' + SMALL + "[nodes]\ncount = 2\n",
        "line 1: 'mode' is always \"forward\"",
    ),
    "a crash without nodes": (
        SMALL + '[[faults]]\nat = 1.0\nkind = "crash"\nprocess = "s1"\n',
        'line 20: \'faults.kind\' is not simulated as "crash" with shape = "colocated"',
    ),
    "joining late without nodes": (
        replaced("pick = 2", "pick = 2\njoins_at = 1.0"),
        "line 10: 'subscribers.joins_at' is not simulated with shape = \"colocated\" yet",
    ),
    "a fault of nobody": (
        SMALL + '[nodes]\n[[faults]]\nat = 1.0\nkind = "crash"\nprocess = "node9"\n',
        "line 22: 'faults.process' names \"node9\", and there is no such process; did you mean 'node2'?",
    ),
    "every node gone": (
        SMALL + '[nodes]\ncount = 1\n[[faults]]\nat = 1.0\nkind = "crash"\nprocess = "node1"\n',
        "line 20: 'faults' leave no node",
    ),
    "an end before the start": (
        SMALL + '[[faults]]\nat = 1.0\nuntil = 0.5\nkind = "loss"\nloss = 0.1\n',
        "line 20: 'faults.until' is after 'at', 1, not 0.5",
    ),
    "a fault too late": (
        SMALL + '[[faults]]\nat = 2.5\nkind = "shuffle"\n',
        "line 19: 'faults.at' is 2.5, and 'duration' is 2",
    ),
    "a fault of no kind": (SMALL + "[[faults]]\nat = 1.0\n", "line 18: 'faults.kind' is missing"),
    "a key of another kind": (
        SMALL + '[[faults]]\nat = 1.0\nkind = "shuffle"\nloss = 0.1\n',
        "line 21: 'faults.loss' does not go with kind = \"shuffle\"",
    ),
    "a shuffle of nothing": (
        replaced('"zipf"', '"uniform"') + '[[faults]]\nat = 1.0\nkind = "shuffle"\n',
        "line 20: 'faults.kind' is \"shuffle\", and no publications have a popularity",
    ),
    "a name twice": (
        replaced("pick = 2", 'pick = 2\nname = "p"').replace("publishers = 2", 'publishers = 2\nname = "p"'),
        "'subscribers.name' makes a second process called 'p1'",
    ),
    "a bad name": (replaced("pick = 2", 'pick = 2\nname = "a.b"'), "line 10: 'subscribers.name' is letters"),
    "a start after the end": (
        replaced("rate = 20.0", "rate = 20.0\nstart = 3.0"),
        "line 13: 'publications.start' leaves no time",
    ),
    "a trace with a rate": (
        replaced("rate = 20.0", 'rate = 20.0\ntrace = "none.csv"'),
        "line 13: 'publications.trace' cannot be read",
    ),
    "too many events": (replaced("20.0", "999999"), "line 12: 'publications.rate' makes 1,999,998 events"),
    "too many deliveries": (
        SMALL.replace("20.0", "20000").replace("count = 6\npick = 2", "count = 90"),
        "deliveries, and the exact simulator takes",
    ),
    "a record of nothing": (
        'record = ["video"]\n' + SMALL,
        "line 1: 'record' has \"video\"; there are journal, history, trace",
    ),
    "the same key twice": (
        "seed = 1\n" + SMALL,
        "world.toml is not TOML: Cannot overwrite a value (at line 2",
    ),
    "no TOML": ("this is not TOML\n", "world.toml is not TOML: "),
    "depth": ("a = " + "[" * 10_000, "world.toml is not TOML: "),
    "a huge number": ("seed = " + "9" * 10_000, "world.toml is not TOML: "),
    "an odd seed": ("seed = -1\n" + SMALL.replace("seed = 5\n", ""), "line 1: 'seed' is at least 0, not -1"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_line_with_key_and_line(what):
    text, expected = WRONG[what]
    said = refusal(text)
    assert expected in said
    assert "\n" not in said
    assert said.startswith(("world.toml", "the scenario makes"))


NETWORKS = {
    "a ring that is too small": (
        'topology = "pastry"\npeers = 7',
        "line 18: 'network.peers' is 7, and 8 subscribers",
    ),
    "an empty ring": ('topology = "pastry"\npeers = 0', "line 18: 'network.peers' is at least 1, not 0"),
    "another shape": (
        'topology = "torus"',
        "line 17: 'network.topology' is one of flat, pastry, transit-stub",
    ),
    "a ring of routers": (
        'topology = "transit-stub"\npeers = 99',
        "line 18: 'network.peers' goes with topology",
    ),
    "too many clusters": (
        'topology = "transit-stub"\nclusters = 10',
        "line 18: 'network.clusters' is 10, and there are 9",
    ),
    "clusters on a flat network": (
        "clusters = 2",
        "line 17: 'network.clusters' goes with topology = \"transit-stub\"",
    ),
    "links of routers": (
        'topology = "transit-stub"\nlinks = "even"',
        "line 18: 'network.links' does not go with",
    ),
    "two latencies": (
        'links = "paper-000"\nlatency_ms = 3',
        "line 18: 'network.latency_ms' contradicts links",
    ),
    "two latencies of routers": (
        'topology = "transit-stub"\nlatency_ms = 3',
        "line 18: 'network.latency_ms' contradicts",
    ),
    "two latencies on a ring": (
        'topology = "pastry"\nlinks = "even"\nnotifications.latency_ms = 3',
        "line 19: 'network.notifications.latency_ms' is given for all",
    ),
}


@pytest.mark.parametrize("what", NETWORKS)
def test_impossible_networks_are_refused(what):
    text, expected = NETWORKS[what]
    assert expected in refusal(replaced("latency_ms = 10.0", text))


@pytest.mark.parametrize("shape", ["chain", "nodes"])
@pytest.mark.parametrize(
    "network", ['links = "paper-000"', 'topology = "pastry"', 'topology = "transit-stub"']
)
def test_worlds_on_other_networks_hold(shape, network):
    text = f'shape = "{shape}"\n' + replaced("latency_ms = 10.0", network)
    one, two = (run(text).summary for _ in range(2))
    assert one.is_good
    assert one.digest == two.digest
    assert one.verdicts["nothing_lost"] == "held"
    assert one.latency_ms.p50 > 20


def test_keys_in_the_wrong_table_are_told_where_they_belong(tmp_path):
    for text, expected in (
        (
            SMALL + "guarantee = 'total'\n",
            "line 18: 'network.guarantee' is not a key of [network]; it belongs at the top",
        ),
        ("rate = 3\n" + SMALL, "line 1: 'rate' is not a key of a scenario; it belongs in [publications]"),
        (
            SMALL + "[publishers]\ncount = 3\n",
            "'publishers' is not a key of a scenario; it belongs in [publications]",
        ),
        (SMALL + "latencyms = 3\n", "is not a key of [network]; did you mean 'latency_ms'?"),
    ):
        (tmp_path / "w.toml").write_text(text)
        with pytest.raises(ConfigError) as error:
            load_scenario(tmp_path / "w.toml")
        assert expected in str(error.value)


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "w.toml").write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load_scenario(tmp_path / "w.toml").seed == 5


def test_the_line_is_right_with_other_line_endings():
    text, expected = WRONG["a missing topic"]
    assert expected in refusal(text.replace("\n", "\r\n"))


def test_files_that_are_none_give_one_line(tmp_path, monkeypatch, capsys):
    empty, binary, deep = tmp_path / "empty.toml", tmp_path / "binary.toml", tmp_path / ("long" * 100)
    empty.write_text("\n  \n")
    binary.write_bytes(bytes(range(256)))
    for path, why in (
        (tmp_path, "is a folder; name a scenario file in it"),
        (tmp_path / "none.toml", "cannot be read: No such file or directory"),
        (empty, "is empty"),
        (binary, "is not a text file"),
        (deep, "cannot be read"),
    ):
        assert call(monkeypatch, str(path)) == 2
        said = capsys.readouterr()
        assert why in said.err
        assert said.err.count("\n") == 1
        assert said.out == ""
    good = tmp_path / "good.toml"
    good.write_text(SMALL)
    assert call(monkeypatch, str(good), "--out", str(empty)) == 2
    assert "name a new folder" in capsys.readouterr().err
    assert call(monkeypatch, str(good), "--out", str(empty / "below")) == 2
    assert "cannot be made" in capsys.readouterr().err


# Whatever is done to a file, the answer is a world or a line.

_TOKENS = (
    *(
        "-1",
        "0",
        "1e400",
        "nan",
        "-inf",
        "true",
        '""',
        '"x"',
        "[]",
        "{}",
        "[[1]]",
        "{ kind = 1 }",
        "99999999999999999999",
    ),
    *(
        "1979-05-27",
        '"""',
        "=",
        "#",
        "[",
        "]]",
        '"wait"',
        '"tag"',
        '"all"',
        '["t1", "t1"]',
        '"\\u0000"',
        "\x00",
        "\r",
        "é",
    ),
)
_KEYS = sorted(set(re.findall(r"^(\w+) =", "\n".join(f.read_text() for f in SHORT), re.MULTILINE)))


def mutated(seed: int) -> str:
    """A file with some things wrong."""
    dice = random.Random(seed)
    lines = dice.choice([SMALL, *(f.read_text() for f in SHORT)]).splitlines()
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(lines))
        key, sign, value = lines[at].partition(" = ")
        match dice.randrange(7):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, dice.choice(lines))
            case 2 if sign:
                lines[at] = key + sign + dice.choice(_TOKENS)
            case 3 if sign:
                lines[at] = dice.choice(_KEYS) + sign + value
            case 4:
                lines[at] = f"{dice.choice(_KEYS)} = {dice.choice(_TOKENS)}"
            case 5:
                cut = dice.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:cut] + dice.choice(_TOKENS) + lines[at][cut:]
            case _:
                dice.shuffle(lines)
        if not lines:
            break
    return "\n".join(lines)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**40))
def test_mutated_files_never_give_a_traceback(seed: int) -> None:
    text = mutated(seed)
    try:
        make_world(read_scenario(Text("mutated.toml", text), FILE))
    except ConfigError as error:
        said = str(error)
        assert "\n" not in said
        assert "\r" not in said
        assert said.startswith(("mutated.toml", "the scenario makes")), said


@given(st.text())
def test_any_text_at_all_gives_a_world_or_a_line(text: str) -> None:
    with pytest.raises(ConfigError):
        read_scenario(Text("any.toml", text), FILE)


def test_the_docs_name_every_key():
    said = (Path(__file__).parents[2] / "docs" / "lab.md").read_text()
    section = said.partition("## Scenarios")[2].partition("\n## ")[0]
    words = set(re.findall(r"`\[*(\w+)\]*`", section))
    assert {key for keys in KEYS.values() for key in keys} <= words


def test_the_file_in_the_docs_runs():
    said = (Path(__file__).parents[2] / "docs" / "lab.md").read_text()
    shown = re.findall(
        r"```toml\n(.*?)```", said.partition("## Scenarios")[2].partition("\n## ")[0], re.DOTALL
    )
    assert shown
    for text in shown:
        assert run(text).summary.is_good
