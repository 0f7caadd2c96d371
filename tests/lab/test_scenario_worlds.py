"""Scenarios that nobody has written: drawn from a seed, run, and every promise held."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

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
