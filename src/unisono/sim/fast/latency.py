"""What a batch of events takes: until each is stamped, and until everybody has heard it.

Three roads from the publisher to the root of the topic's tree, from where the event goes down:

    return      publisher, the managers of the chain, publisher, root     (paper 000)
    forward     publisher, the managers of the chain, root                (the last manager hands the event on)
    one host    publisher, the host of all managers, root                 (managers that are together)

A message is routed by the ring, or goes over one link where its sender knows the address.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unisono.sim.fast.chains import Visits
from unisono.sim.fast.journeys import direct_s, down_s, routed_s
from unisono.sim.fast.overlay import Overlay
from unisono.sim.workloads import Schedule

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]


class Stamped(NamedTuple):
    """When each event has its stamp, counted from its publication, and at which node it then is."""

    seconds: Floats
    at: Ints


class Latency(NamedTuple):
    """What each event took."""

    ordering_s: Floats  # until it was stamped
    diffusion_s: Floats  # from then until the last subscriber heard it
    tree_s: Floats  # of that, the time down the tree
    heard_s: Floats  # from its publication until a subscriber heard it, on average
    within: Floats  # the share of its subscribers that heard it within the limit

    @property
    def total_s(self) -> Floats:
        """From publication until the last subscriber heard it."""
        return self.ordering_s + self.diffusion_s


def stamp_and_return(
    overlay: Overlay,
    visits: Visits,
    events: Schedule,
    generator: np.random.Generator,
    *,
    direct: bool = False,
) -> Stamped:
    """Paper 000: the stamp travels up the chain and back to the publisher, who publishes."""
    visited, lengths = visits
    ends = np.cumsum(lengths)
    managers = overlay.roots[visited]
    sources = np.concatenate([_sources(events.publisher, managers, ends - lengths), managers[ends - 1]])
    to = np.concatenate([managers, events.publisher])
    keys = np.concatenate([overlay.keys[visited], overlay.ring.ids[events.publisher]])
    owner = np.concatenate([np.repeat(np.arange(len(lengths)), lengths), np.arange(len(lengths))])
    seconds = _travel(overlay, sources, to, keys, generator, direct)
    return Stamped(_added(owner, seconds, len(lengths)), events.publisher)


def stamp_and_forward(
    overlay: Overlay,
    visits: Visits,
    events: Schedule,
    generator: np.random.Generator,
    *,
    direct: bool = False,
) -> Stamped:
    """Ours between nodes: the last manager of the chain has the whole stamp, and hands the event on."""
    visited, lengths = visits
    ends = np.cumsum(lengths)
    managers = overlay.roots[visited]
    sources = _sources(events.publisher, managers, ends - lengths)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    seconds = _travel(overlay, sources, managers, overlay.keys[visited], generator, direct)
    return Stamped(_added(owner, seconds, len(lengths)), managers[ends - 1])


def stamp_at_one_host(
    overlay: Overlay, host: int, events: Schedule, generator: np.random.Generator, *, direct: bool = False
) -> Stamped:
    """Ours on one node: all managers of the chain live there, and the stamp is written in one go."""
    at = np.full(len(events.topic), host, np.int64)
    keys = overlay.ring.ids[at]
    return Stamped(_travel(overlay, events.publisher, at, keys, generator, direct), at)


def notify(
    overlay: Overlay,
    stamped: Stamped,
    events: Schedule,
    generator: np.random.Generator,
    *,
    limit_s: float = 1.0,
    direct: bool = False,
) -> Latency:
    """Stamped events go from where they are to the roots of their trees, and down."""
    count = len(events.topic)
    to_root = _travel(
        overlay, stamped.at, overlay.roots[events.topic], overlay.keys[events.topic], generator, direct
    )
    down, heard, within = np.zeros(count), np.zeros(count), np.zeros(count)
    for topic in np.unique(events.topic).tolist():
        mine = np.flatnonzero(events.topic == topic)
        tree = overlay.tree(topic)
        if not tree.subscribed.any():
            within[mine], heard[mine] = 1.0, stamped.seconds[mine] + to_root[mine]
            continue
        for portion in down_s(tree, overlay.links, len(mine), generator):
            now = mine[portion.events]
            before = to_root[now] + stamped.seconds[now]
            down[now] = portion.seconds.max(axis=0)
            heard[now] = before + portion.seconds.mean(axis=0)
            within[now] = (portion.seconds <= limit_s - before).mean(axis=0)
    return Latency(stamped.seconds, to_root + down, down, heard, within)


def _sources(publishers: Ints, managers: Ints, starts: Ints) -> Ints:
    """Who sends each leg of the chains: the manager before, and the publisher to the first."""
    sources = np.concatenate([managers[:1], managers[:-1]])
    sources[starts] = publishers
    return sources


def _added(owner: Ints, seconds: Floats, events: int) -> Floats:
    """The legs of each event, added up."""
    return np.bincount(owner, seconds, events).astype(np.float64, copy=False)


def _travel(
    overlay: Overlay, sources: Ints, to: Ints, keys: Keys, generator: np.random.Generator, direct: bool
) -> Floats:
    if direct:
        return direct_s(overlay.links, sources, to, generator)
    return routed_s(overlay.ring, overlay.links, sources, keys, generator)
