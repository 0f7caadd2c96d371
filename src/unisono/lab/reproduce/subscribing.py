"""Who holds what in paper 000's worlds, in the two ways "100 topics subscribed per subscriber" can be read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unisono.sim.workloads import Popularity, power_law, subscriptions, uniform

SHAPE = 0.901

Bools = NDArray[np.bool_]


def draw_held(
    popularity: Popularity, nodes: int, each: int, subscribing: str, generator: np.random.Generator
) -> Bools:
    """A row for each node, a column for each topic.

    `drawn`: each node draws so many times by popularity, and what it drew twice it holds once. `different`: it
    goes on until it holds so many different topics.
    """
    if subscribing == "different":
        return subscriptions(popularity, nodes, each, generator)
    held = np.zeros((nodes, len(popularity)), np.bool_)
    held[np.arange(nodes)[:, None], popularity.sample_many(generator, nodes * each).reshape(nodes, each)] = (
        True
    )
    return held


def model(name: str, topics: int) -> Popularity:
    """How likely each topic is to be published on and subscribed to."""
    return uniform(topics) if name == "uniform" else power_law(topics, SHAPE)
