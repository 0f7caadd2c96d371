"""Paper 000, figure 15: what a buffer at subscribers brings and costs. Run exactly: engines decide what is tagged.

The ring is smaller than the paper's, as every message goes through the engines. At the paper's one event a second
little is out of order, so the same is run at ten.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.claims import Claim, beaten, listed, trend
from unisono.lab.reproduce.families import Curve, Family, Plot, Profile, Sweep, Tables
from unisono.lab.reproduce.rows import Rows
from unisono.lab.reproduce.subscribing import SHAPE
from unisono.sim.fast.overlay import Overlay
from unisono.sim.latencies import LatencyRecorder
from unisono.sim.overlaid import FORWARD, PAPER, overlaid
from unisono.sim.simulation import Simulation
from unisono.sim.workloads import power_law, schedule, subscriptions

STEPS_MAX = 10**9
HORIZON_S = 300.0
BUFFERS = (0, 1, 2, 5, 10, 30)
SMALL = 2
RATES = (1.0, 10.0)


def run(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One point of figure 15."""
    nodes, topics, each, events = (int(parameters[n]) for n in ("nodes", "topics", "subscriptions", "events"))
    rate, generator = float(parameters["rate_s"]), np.random.default_rng([seed, 15])
    popularity = power_law(topics, SHAPE)
    overlay = Overlay(nodes, topics, seed, subscriptions(popularity, nodes, each, generator))
    published = schedule(popularity, generator, rate_s=rate, duration_s=events / rate, publishers=nodes)
    laid = overlaid(
        overlay,
        published,
        seed=seed,
        managers=PAPER if parameters["stamps"] == "paper" else FORWARD,
        subscriber=SubscriberSettings(on_gap="tag", buffer=int(parameters["buffer"])),
    )
    sums = LatencyRecorder()
    ending = Simulation(
        laid.world,
        routes=laid.routes(),
        recorder=sums,
        steps_max=STEPS_MAX,
        horizon_s=HORIZON_S,
        checks=False,
    ).run()
    if ending.faults or not ending.is_quiet:
        raise RuntimeError(f"the world did not come to rest: {ending.faults or 'busy at the horizon'}")
    latencies = sums.latencies()
    return {
        "tagged": float(latencies.tagged.sum() / latencies.delivered.sum()),
        "heard_s": float(np.average(latencies.heard_s, weights=latencies.delivered)),
        "total_s": float(latencies.total_s.mean()),
    }


def sweeps(profile: Profile) -> list[Sweep]:
    """Smaller than the paper in both profiles: 40 nodes, or 500."""
    is_full = profile == "full"
    grid: dict[str, tuple[Value, ...]] = {
        "nodes": (500,) if is_full else (40,),
        "topics": (50,),
        "subscriptions": (20,),
        "events": (1_800,) if is_full else (250,),
        "rate_s": RATES,
        "buffer": BUFFERS,
        "stamps": ("paper", "ours"),
    }
    return [Sweep("buffers", "000-buffers", grid, seeds=10 if is_full else 3)]


def _by_buffer(rows: Rows, figure: str, rate: float, stamps: str = "paper") -> list[float]:
    return [rows.mean(figure, buffer=buffer, rate_s=rate, stamps=stamps) for buffer in BUFFERS]


def judge(tables: Tables) -> list[Claim]:
    """What the text says of figure 15."""
    rows = tables["buffers"]
    slow, busy = RATES
    tagged, heard = _by_buffer(rows, "tagged", busy), _by_buffer(rows, "heard_s", busy)
    at_one = _by_buffer(rows, "tagged", slow)
    ours = _by_buffer(rows, "tagged", busy, "ours")
    small = BUFFERS.index(SMALL)
    buffers = f"buffers of {listed(BUFFERS)}"
    fewer = 1 - tagged[small] / tagged[0] if tagged[0] else 0.0
    return [
        trend(
            "000-15",
            "a buffer raises the number of ordered messages, at the expense of latency",
            holds=tagged[-1] < tagged[0] and heard[-1] > heard[0],
            measured=f"{buffers}, 10 events/s: {_percent(tagged)} tagged, {listed(heard)} s until delivery; at one "
            f"event/s {_percent(at_one)} tagged",
            rule="fewer tagged and later deliveries with the largest buffer than with none; exact simulation, "
            "smaller ring",
        ),
        trend(
            "000-15",
            "just a small buffer greatly improves it without impacting latency too negatively",
            holds=fewer >= 1 / 3 and heard[small] <= 1.2 * heard[0],
            measured=f"a buffer of {SMALL}: {fewer:.0%} fewer tagged, {heard[small] / heard[0] - 1:.0%} more latency",
            rule="at least a third fewer tagged for at most a fifth more latency",
            differs=f"with the paper's stamps {tagged[-1]:.0%} are tagged whatever the buffer is: an event on a top "
            "topic says nothing about those below, and is not held for them",
        ),
        beaten(
            f"share of tagged deliveries with a buffer of {BUFFERS[-1]}, 10 events/s: stamps that also name topics "
            "ranked below, with which a subscriber can tell what comes next",
            paper=tagged[-1],
            ours=ours[-1],
            rule="less is better; with the paper's stamps some can only ever be tagged, however large the buffer",
        ),
    ]


def _percent(values: list[float]) -> str:
    return ", ".join(f"{100 * value:.1f}" for value in values) + " %"


def plots(tables: Tables) -> list[Plot]:
    """Figure 15: tagged messages and latency against buffer."""
    rows, sizes = tables["buffers"], [float(buffer) for buffer in BUFFERS]
    curves = []
    for figure, scale, what in (("tagged", 100.0, "tagged"), ("heard_s", 1.0, "latency (right)")):
        for stamps, whose in (("paper", "the paper's stamps"), ("ours", "ours")):
            values = [scale * value for value in _by_buffer(rows, figure, RATES[1], stamps)]
            is_ours, is_right = stamps == "ours", figure == "heard_s"
            curves.append(Curve(f"{what}, {whose}", sizes, values, is_ours=is_ours, is_right=is_right))
    return [
        Plot(
            "000-15",
            "Tagged messages and latency, 10 events/s",
            "buffer (events)",
            "tagged deliveries (%)",
            curves,
            right="latency until delivery (s)",
        )
    ]


FAMILY = Family("buffers", ("000-15",), sweeps, judge, plots)
