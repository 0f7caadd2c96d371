"""Scenario files: what they say happens, the same seed gives the same, and wrong ones give one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
    sized = pa.table({"at": [0.5], "topic": ["a"], "size_bytes": [700]})
    pq.write_table(sized, tmp_path / "sized.parquet")
    found = read_scenario(Text("w.toml", text.replace("trace.csv", "sized.parquet")), tmp_path / "w.toml")
    assert found.feeds[0].size_bytes_max == 700
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
        ("at,topic\ninf,a\n", "row 2: a publication has a topic, a time"),
        ("at,topic\n1,a,b\n", "row 2: more values than there are columns"),
        ("\x00\xff", "trace"),
    ):
        (tmp_path / "trace.csv").write_text(wrong)
        with pytest.raises(ConfigError, match=r"w.toml, line 4: 'publications.trace'") as error:
            read_scenario(Text("w.toml", text), tmp_path / "w.toml")
        assert why in str(error.value)
    (tmp_path / "trace.csv").write_text("at,topic\n3,a\n")
    with pytest.raises(ConfigError, match=r"line 5: 'publications.trace' begins at 3 seconds"):
        read_scenario(Text("w.toml", "duration = 2\n" + text), tmp_path / "w.toml")
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


def test_atoms_spread_topics_over_nodes_and_the_order_is_one():
    text = SMALL.replace("pick = 2", "") + "[nodes]\ncount = 4\n"
    together, spread = (f'sequencer = "{word}"\n' + text for word in ("topics", "atoms"))
    owners = [make_world(read_scenario(Text("w.toml", file), FILE)).owners for file in (together, spread)]
    assert [len(set(found)) for found in owners] == [1, 4]
    one, other = run(together).summary, run(spread).summary
    assert one.is_good
    assert other.is_good
    assert one.latency_ms.p99 < other.latency_ms.p99, "a chain of managers is on the way"
    assert run('sequencer = "sequencing_atoms"\n' + text).summary.digest == other.digest


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
