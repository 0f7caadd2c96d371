"""Exact worlds on an overlay of fast mode: the same ring, links, trees and events, every message through the engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from unisono.engines.links import LinkSettings
from unisono.engines.plan import Plan, elimination_forest, rank_line
from unisono.engines.topic_managers.settings import ManagerSettings, SubscriberSettings
from unisono.sim.fast.chains import conflicts_of, names_of
from unisono.sim.fast.overlay import Overlay
from unisono.sim.network import Conditions
from unisono.sim.recorder import Recorder
from unisono.sim.ring_routes import RingRoutes
from unisono.sim.simulation import Simulation
from unisono.sim.workloads import Schedule
from unisono.sim.world import Burst, PlanKind, SubscriberSpec, World, voice_of

# Round trips over a ring take seconds now and then: whoever is more impatient sends everything twice.
PATIENT = LinkSettings(retry_s=5.0, retry_s_max=20.0)
NOTHING_MORE = Conditions(latency_s=0.0)
STEPS_MAX, HORIZON_S = 10**9, 300.0
HOST = "host"  # the process of all managers, where there is one
FORWARD = ManagerSettings()
PAPER = ManagerSettings(mode="return", stamps="upward")  # 000
TAGGING = SubscriberSettings(on_gap="tag")


class Overlaid(NamedTuple):
    """A world, and where its processes are on the ring."""

    world: World
    plan: Plan
    overlay: Overlay
    places: Mapping[str, int]
    keys: Mapping[str, int]  # of managers, who are found by those of their topics

    def simulation(
        self, *, routes: RingRoutes | None = None, recorder: Recorder | None = None, checks: bool = False
    ) -> Simulation:
        """A run of it, from the beginning of its seed."""
        return Simulation(
            self.world,
            routes=routes or self.routes(),
            plan=self.plan,
            recorder=recorder,
            checks=checks,
            steps_max=STEPS_MAX,
            horizon_s=HORIZON_S,
        )

    def routes(self, *, direct: bool = False) -> RingRoutes:
        """The ways to run it on, each time from the beginning of its seed."""
        number = {name: topic for topic, name in enumerate(self.world.topics)}
        return RingRoutes(
            self.overlay.ring,
            self.overlay.links,
            self.places,
            lambda topic: self.overlay.tree(number[topic]),
            self.world.seed,
            keys=self.keys,
            direct=direct,
        )


def overlaid(
    overlay: Overlay,
    events: Schedule,
    *,
    seed: int,
    managers: ManagerSettings = FORWARD,
    plan: PlanKind = "line",
    host: int | None = None,
    subscriber: SubscriberSettings = TAGGING,
) -> Overlaid:
    """The world of these events on this overlay: topics ranked by number, each managed at the root of its tree.

    With `host` all managers are on that node. Every node that holds a topic is a subscriber; any may publish.
    """
    topics = tuple(names_of(len(overlay.keys)))
    held = overlay.held if overlay.held is not None else np.ones((overlay.nodes, len(topics)), np.bool_)
    settings = msgspec.structs.replace(subscriber, stamps=managers.stamps)
    specs = []
    for node in np.flatnonzero(held.any(axis=1)).tolist():
        mine = topics if held[node].all() else tuple(topics[topic] for topic in np.flatnonzero(held[node]))
        specs.append(SubscriberSpec(node_name(node), mine, settings))
    bursts = [
        Burst(event.at, voice_of(node_name(event.publisher)), (topics[event.topic],))
        for event in events.events()
    ]
    nodes = [host if host is not None else root for root in overlay.roots.tolist()]
    placement = topics if host is None else (HOST,) * len(topics)
    world = World(
        seed=seed,
        topics=topics,
        subscribers=tuple(specs),
        bursts=tuple(bursts),
        plan=plan,
        placement=placement,
        managers=managers,
        links=PATIENT,
        packets=NOTHING_MORE,
        notifications=NOTHING_MORE,
        heals_at=float(events.at[-1]) if len(events.at) else 0.0,
    )
    places = {node_name(node): node for node in range(overlay.nodes)}
    places |= zip(placement, nodes, strict=True)
    keys = dict(zip(topics, overlay.keys.tolist(), strict=True)) if host is None else {}
    conflicts = conflicts_of(held, world.threshold)
    ranked = rank_line(conflicts, rank=topics) if plan == "line" else elimination_forest(conflicts)
    return Overlaid(world, ranked, overlay, places, keys)


def node_name(node: int) -> str:
    """The process of who subscribes and publishes on a node; managers are processes of their own."""
    return f"n{node:05d}"
