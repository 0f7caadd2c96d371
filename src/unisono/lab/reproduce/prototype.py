"""Paper 000, figures 22 to 24: its prototype over a WAN. Here nothing is simulated but the links.

A NATS server, nodes, subscribers and a publisher are processes; each has a line of its own to the server, 21 ms one
way and as wide as ADSL. The publisher has five topics, which every subscriber holds.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.experiments import PUBLICATIONS, WAN_RATES
from unisono.lab.reproduce.families import Profile, Sweep
from unisono.lab.reproduce.subscribing import SHAPE
from unisono.lab.wan import jgroups, system
from unisono.lab.wan.ends import TOPICS, Phase
from unisono.lab.wan.system import Heard, Shape
from unisono.sim.workloads import Popularity, power_law, uniform, worst_case

LINK_MS = 21.0
EVENTS_MIN = 10
WITHIN_S = 1.0  # that the paper counts notifications in
JGROUPS_TRIES = 3  # on a busy machine a group may not form in time
MEMBERS = 10
PLACINGS = {
    "spread": "topics on different nodes",
    "together": "all topics on one node",
    "beside": "all topics on one node beside the server",
}


def run_nodes(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One point of figure 22: all publication models, one after the other, at one rate."""
    rate_s, duration_s = float(parameters["rate_s"]), float(parameters["duration_s"])
    return _run(parameters, seed, [(name, rate_s, duration_s) for name in PUBLICATIONS], "{name}")


def run_rates(parameters: Mapping[str, Value], seed: int) -> Figures:
    """The points of figures 23 and 24 that one set of processes gives: all rates in all publication models."""
    duration_s = float(parameters["duration_s"])
    models = reversed(PUBLICATIONS)  # what fills lines comes last
    asked = [(name, float(rate), duration_s) for name in models for rate in WAN_RATES]
    return _run(parameters, seed, asked, "{name}_{rate:.0f}")


def _run(
    parameters: Mapping[str, Value], seed: int, asked: list[tuple[str, float, float]], label: str
) -> Figures:
    generator = np.random.default_rng([seed, 22])
    shape = Shape(
        nodes=int(parameters["nodes"]),
        subscribers=int(parameters["subscribers"]),
        link_ms=LINK_MS,
        placing=str(parameters["placing"]),
    )
    phases = [_phase(name, rate_s, duration_s, generator) for name, rate_s, duration_s in asked]
    with tempfile.TemporaryDirectory(prefix="unisono-wan-", ignore_cleanup_errors=True) as folder:
        heard = asyncio.run(system.run(shape, phases, Path(folder)))
    if missing := sum(phase.missing for phase in heard):
        raise RuntimeError(f"{missing} notifications never came")
    figures: Figures = {}
    for (name, rate_s, _), phase in zip(asked, heard, strict=True):
        figures |= _figures(phase, label.format(name=name, rate=rate_s))
    return figures


def _phase(name: str, rate_s: float, duration_s: float, generator: np.random.Generator) -> Phase:
    events = max(EVENTS_MIN, round(rate_s * duration_s))
    return Phase(rate_s, _popularity(name).sample_many(generator, events).tolist())


def _popularity(name: str) -> Popularity:
    """The first topic is the top-most one; the worst case publishes on the last, whose events visit all managers."""
    topics = len(TOPICS)
    return {"worst": worst_case(topics), "uniform": uniform(topics), "power": power_law(topics, SHAPE)}[name]


def run_jgroups(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One point of JGroups in figure 24; what never came counts as late. Without JGroups there is nothing to tell."""
    if jgroups.why_not():
        return {"is_there": 0.0, "mean_s": 0.0, "within": 0.0}
    rate = int(parameters["rate_s"])
    events = max(EVENTS_MIN, round(rate * float(parameters["duration_s"])))
    for left in reversed(range(JGROUPS_TRIES)):
        with tempfile.TemporaryDirectory(prefix="unisono-wan-", ignore_cleanup_errors=True) as folder:
            try:
                heard = asyncio.run(jgroups.run(MEMBERS, rate, events, LINK_MS, Path(folder)))
                break
            except jgroups.GroupError:
                if not left:
                    raise
    return {"is_there": 1.0} | {name.lstrip("_"): value for name, value in _figures(heard, "").items()}


def _figures(heard: Heard, label: str) -> Figures:
    latencies, all_of_them = heard.latencies_s, len(heard.latencies_s) + heard.missing
    return {
        f"{label}_mean_s": float(latencies.mean()),
        f"{label}_within": float((latencies <= WITHIN_S).sum() / all_of_them),
    }


def sweeps(profile: Profile) -> list[Sweep]:
    """The paper's sizes and rates; runs are shorter than its five minutes, in the quick profile by far."""
    is_full = profile == "full"
    seeds, subscribers = 10 if is_full else 1, (10,) if is_full else (3,)
    nodes: tuple[Value, ...] = (1, 2, 4, 6, 8, 10) if is_full else (1, 2, 4, 10)
    lasts: tuple[Value, ...] = (20.0,) if is_full else (2.0,)
    placings = tuple(PLACINGS) if is_full else ("spread", "beside")
    return [
        Sweep(
            "wan-nodes",
            "000-wan-nodes",
            {
                "nodes": nodes,
                "subscribers": subscribers,
                "placing": placings,
                "rate_s": (1.0,) if is_full else (5.0,),
                "duration_s": lasts,
            },
            seeds,
        ),
        Sweep(
            "wan-rates",
            "000-wan-rates",
            {"nodes": (10,), "subscribers": subscribers, "placing": placings, "duration_s": lasts},
            seeds,
        ),
        Sweep("wan-jgroups", "000-wan-jgroups", {"rate_s": WAN_RATES, "duration_s": lasts}, seeds),
    ]
