"""Paper 000, figure 21: do two subscribers detect the same patterns "e precedes e', which precedes e''"?

A ring of 100 nodes; five publishers, each on its own topic, publish one of the three kinds of events at random. "At
a rate of 5 events/sec" is read as that of all five together, and also run as that of each. Both detectors read their deliveries one after the other, tagged or not: they wait for an e, then for
an e', then for an e'', note the three, and begin again. A sequence is consistent if both noted the same three
events; the share is that of all sequences that anybody noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.history import Kind
from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.claims import Claim, number, trend
from unisono.lab.reproduce.families import Curve, Family, Plot, Profile, Sweep, Tables
from unisono.sim.fast.journeys import down_s, routed_s
from unisono.sim.fast.overlay import Overlay
from unisono.sim.overlaid import FORWARD, PAPER, node_name, overlaid
from unisono.sim.simulation import Simulation
from unisono.sim.workloads import Schedule

PUBLISHERS, DETECTORS, KINDS = 5, 2, 3
TOGETHER, EACH = 1.0, 5.0  # events a second of one publisher, in the two readings
STEPS_MAX, HORIZON_S = 10**9, 300.0
UNBOUNDED = 10**6
SETTINGS = {
    "bare": "bare ENS",
    "buffer 0": "buffer 0",
    "buffer 30": "buffer 30",
    "unbounded": "unbounded buffer",
    "ours": "ours",
}

Event: TypeAlias = tuple[str, int]  # the topic, and which of its events
Triple: TypeAlias = tuple[Event, ...]


def detect(heard: Iterable[Event], kinds: Mapping[str, NDArray[np.int64]]) -> set[Triple]:
    """The sequences a detector notes."""
    found: set[Triple] = set()
    under_way: list[Event] = []
    for topic, n in heard:
        if kinds[topic][n] == len(under_way):
            under_way.append((topic, n))
            if len(under_way) == KINDS:
                found.add(tuple(under_way))
                under_way = []
    return found


def run(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One bar of figure 21."""
    nodes, seconds, setting = (
        int(parameters["nodes"]),
        float(parameters["duration_s"]),
        str(parameters["setting"]),
    )
    generator = np.random.default_rng([seed, 21])
    detectors = generator.choice(nodes, DETECTORS, replace=False)
    held = np.zeros((nodes, PUBLISHERS), np.bool_)
    held[detectors] = True
    overlay = Overlay(nodes, PUBLISHERS, seed, held)
    published = _schedule(nodes, seconds, float(parameters["rate_s"]), generator)
    kinds = {f"t{topic:05d}": generator.integers(0, KINDS, len(published.at)) for topic in range(PUBLISHERS)}
    if setting == "bare":
        heard = _heard_bare(overlay, published, detectors, generator)
    else:
        heard = _heard_ordered(overlay, published, detectors, seed, setting)
    noted = [detect(events, kinds) for events in heard]
    anybody, both = set.union(*noted), set.intersection(*noted)
    return {"consistent": len(both) / len(anybody), "sequences": float(len(anybody))}


def _schedule(nodes: int, seconds: float, rate_s: float, generator: np.random.Generator) -> Schedule:
    """Each publisher on its own topic at a steady rate, beginning at its own moment."""
    count = int(seconds * rate_s)
    at = np.concatenate([(np.arange(count) + generator.random()) / rate_s for _ in range(PUBLISHERS)])
    publisher = np.repeat(generator.choice(nodes, PUBLISHERS, replace=False), count)
    topic = np.repeat(np.arange(PUBLISHERS), count)
    order = np.argsort(at, kind="stable")
    return Schedule(at[order], publisher[order].astype(np.int64), topic[order].astype(np.int64))


def _heard_bare(
    overlay: Overlay, events: Schedule, detectors: NDArray[np.int64], generator: np.random.Generator
) -> list[list[Event]]:
    """SCRIBE alone: to the root and down the tree, in whatever order."""
    arrivals: list[list[tuple[float, Event]]] = [[] for _ in detectors]
    for topic in range(PUBLISHERS):
        mine = np.flatnonzero(events.topic == topic)
        keys = np.full(len(mine), overlay.keys[topic])
        root_at = events.at[mine] + routed_s(
            overlay.ring, overlay.links, events.publisher[mine], keys, generator
        )
        tree = overlay.tree(topic)
        rows = tree.nodes[tree.subscribed[tree.nodes]].tolist()
        for portion in down_s(tree, overlay.links, len(mine), generator):
            for detector, heard in zip(detectors.tolist(), arrivals, strict=True):
                times = root_at[portion.events] + portion.seconds[rows.index(detector)]
                first = portion.events.start
                heard += [(time, (f"t{topic:05d}", first + i)) for i, time in enumerate(times.tolist())]
    return [[event for _, event in sorted(heard)] for heard in arrivals]


def _heard_ordered(
    overlay: Overlay, events: Schedule, detectors: NDArray[np.int64], seed: int, setting: str
) -> list[list[Event]]:
    """Every message through the engines: what each detector is delivered, in its order."""
    buffer = {"buffer 0": 0, "buffer 30": 30}.get(setting, UNBOUNDED)
    subscriber = SubscriberSettings(on_gap="tag", buffer=buffer)
    if setting == "ours":
        subscriber = SubscriberSettings(on_gap="wait")
    laid = overlaid(
        overlay,
        events,
        seed=seed,
        managers=FORWARD if setting == "ours" else PAPER,
        subscriber=subscriber,
    )
    ending = Simulation(
        laid.world, routes=laid.routes(), steps_max=STEPS_MAX, horizon_s=HORIZON_S, checks=False
    ).run()
    if ending.faults:
        raise RuntimeError(f"the world has faults: {ending.faults[0]}")
    place: dict[str, Event] = {}
    counts: dict[str, int] = {}
    for record in ending.records:
        if record.kind is Kind.PUBLISHED:
            place[record.event] = (record.topic, counts.get(record.topic, 0))
            counts[record.topic] = counts.get(record.topic, 0) + 1
    heard: dict[str, list[Event]] = {node_name(int(node)): [] for node in detectors}
    for record in ending.records:
        if record.kind is Kind.DELIVERED and record.process in heard:
            heard[record.process].append(place[record.event])
    return list(heard.values())


def sweeps(profile: Profile) -> list[Sweep]:
    """The paper's scale in both profiles: the quick one is shorter and has fewer runs."""
    is_full = profile == "full"
    grid: dict[str, tuple[Value, ...]] = {
        "nodes": (100,),
        "duration_s": (600.0,) if is_full else (60.0,),
        "rate_s": (TOGETHER, EACH),
        "setting": tuple(SETTINGS),
    }
    return [Sweep("sequences", "000-sequences", grid, seeds=20 if is_full else 6)]


def judge(tables: Tables) -> list[Claim]:
    """What the text says of figure 21."""
    rows = tables["sequences"]

    def share(setting: str, rate_s: float = TOGETHER) -> float:
        return rows.mean("consistent", setting=setting, rate_s=rate_s)

    each = f"with five events a second of each publisher {share('bare', EACH):.0%}"
    upward = (
        "stamps of the paper name only topics ranked above: an event on a top topic says nothing about those below, "
        "is delivered at once, and what should have come before it can only be tagged"
    )
    return [
        number(
            "000-21",
            "% of sequences that both subscribers detect, bare ENS",
            35,
            100 * share("bare"),
            differs=f"how sequences are told apart is not said; {each}",
        ),
        trend(
            "000-21",
            "the algorithm with buffer 0 detects more than the bare ENS",
            holds=share("buffer 0") >= share("bare") + 0.05,
            measured=f"{share('buffer 0'):.0%} instead of {share('bare'):.0%}; five a second of each publisher: "
            f"{share('buffer 0', EACH):.0%} instead of {share('bare', EACH):.0%}",
            rule="at least 5 points more",
            differs="with buffer 0 all is delivered as it arrives, and the way through managers does not bring the "
            "two arrivals into one order",
        ),
        trend(
            "000-21",
            "a buffer of 30 detects more than none",
            holds=share("buffer 30") >= share("buffer 0") + 0.05,
            measured=f"{share('buffer 30'):.0%} instead of {share('buffer 0'):.0%}",
            rule="at least 5 points more",
        ),
        number(
            "000-21",
            "% of sequences that both subscribers detect, infinite buffer",
            100,
            100 * share("unbounded"),
            within=0.0,
            differs=upward,
        ),
        Claim(
            "beaten",
            "% of sequences that both subscribers detect, figure 21: stamps that also name topics ranked below, and "
            "subscribers that wait",
            "",
            f"{100 * share('ours'):.0f} instead of {100 * share('unbounded'):.0f}",
            "reproduced" if share("ours") == share("ours", EACH) == 1.0 else "differs",
            "the target is all of them, in both readings of the rate",
        ),
    ]


def plots(tables: Tables) -> list[Plot]:
    """Figure 21, as bars."""
    rows = tables["sequences"]
    bars = [
        Curve(
            label,
            [float(i)],
            [100 * rows.mean("consistent", setting=name, rate_s=TOGETHER)],
            [100 * rows.deviation("consistent", setting=name, rate_s=TOGETHER)],
            is_ours=name == "ours",
        )
        for i, (name, label) in enumerate(SETTINGS.items())
    ]
    return [Plot("000-21", "Sequences that both detect", "", "sequences (%)", bars, is_bars=True)]


FAMILY = Family("sequences", ("000-21",), sweeps, judge, plots)
