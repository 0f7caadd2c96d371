"""Scenarios as others write them, and that nobody has written: drawn from a seed, run, and every promise held."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unisono.cli import main
from unisono.lab.scenarios.load import read_scenario
from unisono.lab.scenarios.reading import Text
from unisono.lab.scenarios.run import run_scenario

FILE = Path("drawn.toml")


class Drawn:
    """A scenario file, written at random from what docs/lab.md allows."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(f"{seed} scenario")
        self.shape = self.pick("colocated", "chain", "nodes", "nodes")
        self.duration = self.pick(0.001, 0.5, 3.0, 5.0)
        self.stamps = "full" if self.shape == "nodes" else self.pick("full", "full", "upward")
        self.topics = self.dice.randint(1, 8)
        self.processes: list[str] = []
        self.lines = [f"seed = {seed}", f"duration = {self.duration}", f'shape = "{self.shape}"']
        self.write_top()
        for group in range(self.dice.randint(1, 3)):
            self.write_subscribers(f"g{group}x")
        self.write_publications()
        self.write_network()
        if self.shape == "nodes":
            self.lines.insert(0, f'sequencer = "{self.pick("topics", "atoms")}"')
            self.lines += ["[nodes]", f"count = {self.dice.randint(1, 4)}"]
            self.processes.append("node1")
        for _ in range(self.dice.randint(0, 3) if self.duration > 1 else 0):
            self.write_fault()

    def pick(self, *values):
        return self.dice.choice(values)

    def write_top(self) -> None:
        orders = ("total", "total_causal") if self.shape == "nodes" else ("total", "total_causal", "fifo")
        self.lines += [f'guarantee = "{self.pick(*orders)}"', f'plan = "{self.pick("line", "forest")}"']
        if self.shape != "nodes":
            self.lines += [f'mode = "{self.pick("forward", "return")}"', f'stamps = "{self.stamps}"']
        if self.dice.random() < 0.3:
            self.lines.append(f"ring = {self.pick(1, 4, 100)}")
        self.lines += ["[topics]", f"count = {self.topics}"]

    def write_subscribers(self, name: str) -> None:
        count = self.dice.randint(1, 6)
        self.processes += [name] if count == 1 else [f"{name}{i + 1}" for i in range(count)]
        gap = (
            self.pick("tag", "skip") if self.stamps == "upward" else self.pick("wait", "tag", "skip", "fail")
        )
        self.lines += ["[[subscribers]]", f'name = "{name}"', f"count = {count}", f'on_gap = "{gap}"']
        chances = {
            f"pick = {self.dice.randint(1, self.topics)}": 0.6,
            f"buffer = {self.dice.randint(0, 5)}": 0.5 * (gap in ("tag", "skip")),
            f"max_hold = {self.pick(0, 0.01, 0.5)}": 0.5 * (gap != "wait"),
            f"repair = {self.pick('true', 'false')}": 0.2,
            "replies = 0.05": 0.2,
            f"joins_at = 0.7\nleaves_at = {0.9 * self.duration}": 0.3
            * (self.shape == "nodes" and self.duration > 1),
        }
        self.lines += [line for line, chance in chances.items() if self.dice.random() < chance]

    def write_publications(self) -> None:
        count = self.dice.randint(2, 4)
        self.processes += [f"q{i + 1}" for i in range(count)]
        self.lines += [
            "[publications]",
            f"rate = {self.pick(0.1, 5, 50)}",
            f'publishers = {count}\nname = "q"',
            f"burst = {self.pick(1, 1, 3)}",
            f'popularity = "{self.pick("uniform", "zipf", "power-law", "worst-case")}"',
            f'arrivals = "{self.pick("poisson", "regular")}"',
        ]

    def write_network(self) -> None:
        even = f"latency_ms = {self.pick(0, 1, 30)}\nspread_ms = {self.pick(0, 40)}"
        ring = f'topology = "pastry"\nlink_loss = {self.pick(0, 0, 0.02)}'
        ground = self.pick(even, even, 'links = "paper-000"', ring, ring, 'topology = "transit-stub"')
        self.is_ring = ground is ring
        self.lines += [
            "[network]",
            ground,
            f'bandwidth = "{self.pick("unlimited", "unlimited", "adsl")}"',
            f"loss = {self.pick(0, 0, 0.05, 0.3)}",
            f"duplication = {self.pick(0, 0.2)}",
            f"overtaking = {self.pick('true', 'false')}",
        ]

    def write_fault(self) -> None:
        at = 0.8 * self.duration * self.dice.random()
        until = at + (self.duration - at) * self.dice.random()
        of_nodes = ("crash", "pause", "partition") if self.shape == "nodes" else ()
        of_rings = ("perturbation",) if self.is_ring else ()
        kind = self.pick("loss", "latency", *of_rings, *of_nodes, *of_nodes)
        side = self.dice.sample([*self.processes, "store", "service"], 3)
        what = {
            "loss": f"loss = {0.9 * self.dice.random()}",
            "latency": f"latency_ms = {200 * self.dice.random()}",
            "perturbation": f"peers = 0.2\nloss = {self.pick(0.3, 1.0)}",
            "partition": f"side = {side}",
        }.get(kind, f'process = "{self.pick(*self.processes)}"')
        self.lines += ["[[faults]]", f"at = {at}", f"until = {until}", f'kind = "{kind}"', what]


@pytest.mark.parametrize("seed", range(24))
def test_a_drawn_scenario_holds(seed: int) -> None:
    text = "\n".join(Drawn(seed).lines)
    summary = run_scenario(read_scenario(Text(str(FILE), text), FILE), checks=True).summary
    assert summary.is_good, (text, summary.explanations, summary.problems)


NEWCOMERS = {
    "an auction": """
seed = 42
duration = 6.0
guarantee = "total_causal"
shape = "chain"
plan = "forest"
topics.names = ["lots.art", "lots.wine", "bids.art", "bids.wine", "chat"]
[[subscribers]]
name = "bidder"
count = 12
topics = ["bids.*", "chat"]
replies = 0.05
[[subscribers]]
name = "clerk"
[publications]
publishers = 4
rate = 25
popularity = { kind = "power-law", shape = 0.269 }
arrivals = "regular"
burst = 5
[network]
latency_ms = 12
spread_ms = 8
notifications = { latency_ms = 30, loss = 0.05, overtaking = false }
[[faults]]
at = 4
kind = "shuffle"
""",
    "meters": """
duration = 7.5
nodes.count = 3
topics.count = 20
[[subscribers]]
count = 15
pick = 4
popularity = "zipf"
[[subscribers]]
name = "late"
count = 3
pick = 6
joins_at = 4
leaves_at = 7
on_gap = "skip"
max_hold = 0.4
[[publications]]
trace = "feed.parquet"
[[publications]]
name = "extra"
rate = 5
topics = ["t1", "t2"]
start = 2
stop = 6
[network]
topology = "transit-stub"
clusters = 5
loss = 0.02
[[faults]]
kind = "crash"
process = "node2"
at = 3
[[faults]]
kind = "pause"
process = "s3"
at = 4
until = 5.5
[[faults]]
kind = "partition"
at = 5
until = 6
side = ["node1", "s1", "store"]
""",
}


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unisono", "lab", "run", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", NEWCOMERS)
def test_what_a_newcomer_wrote_runs_and_holds(name, tmp_path, monkeypatch, capsys):
    """Written by somebody who had read the docs, and nothing else."""
    at = [1.5 + 0.02 * i for i in range(250)]
    pq.write_table(
        pa.table({"at": at, "topic": [f"t{i % 20 + 1}" for i in range(250)]}), tmp_path / "feed.parquet"
    )
    (tmp_path / "world.toml").write_text(NEWCOMERS[name])
    assert call(monkeypatch, str(tmp_path / "world.toml"), "--json") == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert said.err == "" or said.err.startswith("simulating")
    assert told["published"] > 100
    assert told["delivered"] > told["published"]
    assert told["tagged"] == told["dropped"] == told["held"] == 0
    assert 0 < told["latency_ms"]["p50"] < told["latency_ms"]["p99"]
    assert told["verdicts"]["total_notification_order"] == told["verdicts"]["nothing_lost"] == "held"
