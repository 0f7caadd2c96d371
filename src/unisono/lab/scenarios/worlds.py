"""From a scenario to a world of the exact simulator: who holds what and what is published when, drawn by its seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import comb

import numpy as np

from unisono.engines.links import LinkSettings
from unisono.engines.plan import components, conflict_graph, elimination_forest, rank_line
from unisono.engines.takeover.settings import NodeSettings
from unisono.engines.takeover.spreading import spread
from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.lab.scenarios.harm import OF_NETWORKS
from unisono.lab.scenarios.scenario import Fault, Feed, Group, Popular, Scenario
from unisono.model.errors import ConfigError
from unisono.sim.moving import world as moving
from unisono.sim.network import CALM, Perturbation, Weather
from unisono.sim.workloads import Popularity, power_law, schedule, subscriptions, uniform, worst_case, zipf
from unisono.sim.world import Burst, SubscriberSpec, World

DELIVERIES_MAX = 3_000_000  # their records are kept in memory until they are judged
PAIRS_MAX = 5_000_000  # of topics; plans and stamps grow with them
REPLIES_MAX = 1_000
NODE = "node"
_NOTHING_SHARED = 1 << 30  # so many subscribers no two topics share


def make_world(scenario: Scenario) -> World | moving.MovingWorld:
    """The world of a scenario: with nodes it moves, otherwise it stands still."""
    drawn = _Drawn(scenario)
    drawn.check_size(scenario)
    return _moving_world(scenario, drawn) if scenario.shape == "nodes" else _still_world(scenario, drawn)


class _Drawn:
    """What the seed decides before anything runs."""

    def __init__(self, scenario: Scenario) -> None:
        seed = scenario.seed
        shuffles = sorted(fault.at for fault in scenario.faults if fault.kind == "shuffle")
        self.held = {
            name: topics
            for i, group in enumerate(scenario.groups)
            for name, topics in _held(group, np.random.default_rng([seed, 1, i]))
        }
        published = [
            burst
            for i, feed in enumerate(scenario.feeds)
            for burst in _published(feed, shuffles, np.random.default_rng([seed, 2, i]))
        ]
        self.published = sorted(published, key=lambda burst: burst.at)

    def check_size(self, scenario: Scenario) -> None:
        """Refuse what would not fit into memory."""
        holders = Counter(topic for topics in self.held.values() for topic in topics)
        deliveries = sum(holders[topic] for burst in self.published for topic in burst.topics)
        if deliveries > DELIVERIES_MAX:
            raise ConfigError(
                f"{max(scenario.feeds, key=lambda feed: feed.events).said_at} makes about {deliveries:,} deliveries, "
                f"and the exact simulator takes {DELIVERIES_MAX:,} at most in one run; lower it, 'duration' or "
                "'subscribers.count'"
            )
        pairs = sum(comb(len(topics), 2) for topics in set(self.held.values()))
        if min(pairs, comb(len(scenario.topics), 2)) > PAIRS_MAX:
            widest = max(scenario.groups, key=lambda group: group.pick or len(group.topics))
            raise ConfigError(
                f"{widest.said_at} may have more than {PAIRS_MAX:,} pairs of topics ordered together, which is the "
                "limit for one run; let subscribers hold fewer"
            )


def _held(group: Group, generator: np.random.Generator) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Each subscriber of a group and what it holds."""
    if not group.pick:
        return [(name, group.topics) for name in group.names]
    rows = subscriptions(
        _popularity(group.popularity, len(group.topics)), len(group.names), group.pick, generator
    )
    picked = [tuple(group.topics[i] for i in np.flatnonzero(row)) for row in rows]
    return zip(group.names, picked, strict=True)


def _published(feed: Feed, shuffles: list[float], generator: np.random.Generator) -> list[Burst]:
    """When who publishes on which topics, at once."""
    if feed.trace:
        return [Burst(event.at, event.publisher, (event.topic,), event.size_bytes) for event in feed.trace]
    popularity = _popularity(feed.popularity, len(feed.topics))
    times = schedule(
        popularity,
        generator,
        rate_s=feed.rate / feed.burst,
        duration_s=feed.stop - feed.start,
        publishers=len(feed.publishers),
        pace="poisson" if feed.poisson else "regular",
    )
    at = times.at + feed.start
    chosen = np.empty((len(at), feed.burst), np.int64)
    for begin, end in zip([0.0, *shuffles], [*shuffles, np.inf], strict=True):
        mine = (begin <= at) & (at < end)
        drawn = popularity.sample_many(generator, int(mine.sum()) * feed.burst)
        chosen[mine] = drawn.reshape(-1, feed.burst)
        popularity = popularity.shuffled(generator)
    return [
        Burst(moment, feed.publishers[who], tuple(feed.topics[i] for i in topics), feed.size_bytes)
        for moment, who, topics in zip(at.tolist(), times.publisher.tolist(), chosen.tolist(), strict=True)
    ]


def _popularity(popular: Popular, topics: int) -> Popularity:
    match popular.kind:
        case "power-law":
            return power_law(topics, popular.shape)
        case "zipf":
            return zipf(topics, popular.shape)
        case "worst-case":
            return worst_case(topics)
    return uniform(topics)


def _still_world(scenario: Scenario, drawn: _Drawn) -> World:
    subscribers = tuple(
        SubscriberSpec(name, drawn.held[name], group.settings, replies=group.replies)
        for group in scenario.groups
        for name in group.names
    )
    is_one = scenario.shape == "colocated"
    return World(
        seed=scenario.seed,
        topics=scenario.topics,
        subscribers=subscribers,
        bursts=tuple(drawn.published),
        shape="chain",
        plan=scenario.plan,
        threshold=_threshold(scenario),
        causal=scenario.guarantee == "total_causal",
        placement=(NODE,) * len(scenario.topics) if is_one else (),
        managers=_managers(scenario),
        links=_links(scenario),
        packets=scenario.packets,
        notifications=scenario.notifications,
        heals_at=scenario.heals_at,
        replies_max=REPLIES_MAX,
        weather=_weather(scenario),
        ground=scenario.ground,
    )


def _moving_world(scenario: Scenario, drawn: _Drawn) -> moving.MovingWorld:
    wants: list[moving.Want] = []
    members: list[moving.MemberSpec] = []
    for group in scenario.groups:
        for name in group.names:
            members.append(moving.MemberSpec(name, group.settings, group.replies))
            wants.append(moving.Want(group.joins_at, name, add=drawn.held[name]))
            if group.leaves_at is not None:
                wants.append(moving.Want(group.leaves_at, name, remove=drawn.held[name]))
    bursts = [
        moving.Burst(burst.at, burst.publisher, burst.topics, size_bytes=burst.size_bytes)
        for burst in drawn.published
    ]
    harm = [happening for fault in scenario.faults for happening in _happenings(fault)]
    slow = scenario.latency_s_max
    return moving.MovingWorld(
        seed=scenario.seed,
        topics=scenario.topics,
        nodes=scenario.nodes,
        owners=_owners(scenario, drawn),
        publishers=scenario.publishers,
        members=tuple(members),
        script=(*wants, *bursts, *harm),
        threshold=_threshold(scenario),
        causal=scenario.guarantee == "total_causal",
        managers=_managers(scenario),
        node=NodeSettings(plan=scenario.plan, sequencer=scenario.sequencer),
        links=_links(scenario),
        join_s=max(0.3, 4 * slow),
        resend_s=max(0.5, 4 * slow),
        packets=scenario.packets,
        notifications=scenario.notifications,
        heals_at=scenario.heals_at,
        replies_max=REPLIES_MAX,
        weather=_weather(scenario),
        ground=scenario.ground,
    )


def _owners(scenario: Scenario, drawn: _Drawn) -> tuple[str, ...]:
    """Where topics live to begin with, as nodes themselves would have it: what is ordered together is on one node, or
    spread over all."""
    graph = conflict_graph(map(frozenset, drawn.held.values()), scenario.topics, _threshold(scenario))
    if scenario.sequencer == "atoms":
        plan = (
            rank_line(graph, rank=scenario.topics) if scenario.plan == "line" else elimination_forest(graph)
        )
        placed = spread(plan, {}, scenario.nodes, {})
        return tuple(placed[topic] for topic in scenario.topics)
    owned = Counter(dict.fromkeys(scenario.nodes, 0))
    home: dict[str, str] = {}
    for component in sorted(components(graph), key=len, reverse=True):
        node = min(scenario.nodes, key=owned.__getitem__)
        owned[node] += len(component)
        home |= dict.fromkeys(component, node)
    return tuple(home[topic] for topic in scenario.topics)


def _happenings(fault: Fault) -> list[moving.Happening]:
    match fault.kind:
        case "crash":
            return [moving.Crash(fault.at, fault.process, back_at=fault.until or None)]
        case "pause":
            return [moving.Pause(fault.at, fault.process, fault.until)]
        case "partition":
            return [moving.Partition(fault.at, fault.until, fault.side)]
    return []


def _threshold(scenario: Scenario) -> int:
    return {"fifo": _NOTHING_SHARED, "total": 2, "total_causal": 1}[scenario.guarantee]


def _managers(scenario: Scenario) -> ManagerSettings:
    repairs = any(group.settings.repair for group in scenario.groups)
    return ManagerSettings(
        stamps=scenario.stamps,
        mode=scenario.mode,
        ring_events=scenario.ring if repairs else 0,
        threshold=_threshold(scenario),
    )


def _links(scenario: Scenario) -> LinkSettings:
    """Links that do not repeat what is still on its way."""
    retry_s = max(0.05, 3 * scenario.latency_s_max)
    return LinkSettings(retry_s=retry_s, retry_s_max=max(1.0, 4 * retry_s))


def _weather(scenario: Scenario) -> tuple[Weather, ...]:
    """What networks are like whenever a fault begins or ends; of two at a time, the later in the file counts."""
    faults = [fault for fault in scenario.faults if fault.kind in OF_NETWORKS]
    found = []
    for at in sorted({moment for fault in faults for moment in (fault.at, fault.until)}):
        packets, notifications, perturbation = scenario.packets, scenario.notifications, CALM
        for fault in faults:
            if fault.at <= at < fault.until:
                packets, notifications = fault.changes(packets), fault.changes(notifications)
                if fault.kind == "perturbation":
                    perturbation = Perturbation(fault.peers, fault.loss or 0.0, fault.latency_s or 0.0)
        found.append(Weather(at, packets, notifications, perturbation))
    return tuple(found)
