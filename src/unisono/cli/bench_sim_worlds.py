"""The second half of `unisono bench sim`: whole worlds on a ring, every message through the engines."""

from __future__ import annotations

import gc
import time
from typing import NamedTuple

from unisono.cli.bench import Figures


class Size(NamedTuple):
    """A world at one event a second, its topics popular as in paper 000."""

    nodes: int
    topics: int
    each: int  # topics a subscriber holds
    events: int


SIZES = (Size(100, 50, 50, 60), Size(1000, 50, 50, 60), Size(1000, 1000, 100, 60))
LARGE = (Size(10_000, 50, 50, 60), Size(10_000, 1000, 100, 60))


def measure(size: Size) -> Figures:
    """What a world takes, in seconds of processor time, and what its events took, in simulated ones."""
    import numpy as np

    from unisono.engines.topic_managers.settings import SubscriberSettings
    from unisono.sim.fast.overlay import Overlay
    from unisono.sim.latencies import LatencyRecorder
    from unisono.sim.overlaid import overlaid
    from unisono.sim.workloads import power_law, schedule, subscriptions

    gc.collect()
    started = time.process_time()
    generator, popularity = np.random.default_rng(1), power_law(size.topics)
    held = subscriptions(popularity, size.nodes, size.each, generator)
    events = schedule(popularity, generator, rate_s=1, duration_s=size.events, publishers=size.nodes)
    laid = overlaid(
        Overlay(size.nodes, size.topics, 1, held),
        events,
        seed=1,
        subscriber=SubscriberSettings(on_gap="wait"),
    )
    sums = LatencyRecorder()
    simulation = laid.simulation(recorder=sums)
    set_up_s = time.process_time() - started
    ending = simulation.run()
    seconds = time.process_time() - started
    took = sums.latencies()
    return {
        "nodes": size.nodes,
        "topics": size.topics,
        "topics_per_subscriber": size.each,
        "events": size.events,
        "deliveries": int(took.delivered.sum()),
        "steps": ending.steps,
        "is_quiet": ending.is_quiet and not ending.faults,
        "set_up_s": round(set_up_s, 2),
        "seconds": round(seconds, 2),
        "deliveries_s": round(float(took.delivered.sum()) / seconds),
        "ordering_s_mean": round(float(took.ordering_s.mean()), 3),
        "diffusion_s_mean": round(float(took.diffusion_s.mean()), 3),
    }
