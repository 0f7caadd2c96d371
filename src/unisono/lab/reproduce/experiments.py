"""The experiments of the reproductions, by name: what they take and measure; numpy is imported when one is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from unisono.lab.experiments import Experiment, Figures, Parameter, Value

SEQUENCERS = ("paper", "paper_direct", "forward", "planned", "together", "ours")
PUBLICATIONS = ("worst", "uniform", "power")
LATENCY_FIGURES = (
    "total_s",
    "ordering_s",
    "diffusion_s",
    "bound_s",
    "events_within",
    "notifications_within",
    "entries",
)


ORDERS = ("best", "uniform", "worst", "planned")
SUBSCRIBING = ("drawn", "different")
OVERHEAD_FIGURES = ("bytes", "overhead", "overhead_of_a_manager", "entries_max")

DETECTING = ("bare", "buffer 0", "buffer 30", "unbounded", "ours")
RANKINGS = ("best", "random", "dynamic", "ours", "together")
WINDOWS = 60  # of time, in each of which latency and bytes are averaged: ten events each in the paper
DYNAMIC_FIGURES = (
    "changes",
    "late_latency_s",
    "late_bytes",
    "late_bytes_median",
    *(f"latency_s_{i:02}" for i in range(WINDOWS)),
    *(f"bytes_{i:02}" for i in range(WINDOWS)),
)

WAN_RATES = (5, 25, 50, 75, 100)  # events a second
PLACINGS = ("spread", "together", "beside")
WAN_FIGURES = ("mean_s", "within")
WAN_NODES_FIGURES = tuple(f"{name}_{figure}" for name in PUBLICATIONS for figure in WAN_FIGURES)
WAN_RATES_FIGURES = tuple(
    f"{name}_{rate}_{figure}" for rate in WAN_RATES for name in PUBLICATIONS for figure in WAN_FIGURES
)

ATOM_PLACINGS = ("paper", "paper_near", "graph", "ours", "spread", "one")
QUANTILES = 21  # of a distribution: every 5 %
DECILES = 10  # of pairs of hosts, the nearest first
STRETCH_FIGURES = (
    *(f"unicast_ms_{i}" for i in range(DECILES)),
    *(
        f"{placing}_{figure}"
        for placing in ATOM_PLACINGS
        for figure in (
            *("mean", "max", "penalty", "machines", "hops", "worst"),
            *(f"stretch_{i:02}" for i in range(QUANTILES)),
            *(f"penalty_{i}" for i in range(DECILES)),
        )
    ),
)
ATOM_NODES_FIGURES = (
    *("atoms", "atoms_on_path_max", "atoms_passed_max", "coin_breaks_c3"),
    *(f"atoms_on_path_{i:02}" for i in range(QUANTILES)),
    *(
        f"{name}_{figure}"
        for name in ("paper", "ours", "spread")
        for figure in (
            *("nodes", "stress", "stress_p90", "stress_max", "passing", "common"),
            *("numbered", "seen", "numbers_more", "sees_more", "state", "state_max"),
        )
    ),
)

ASLEEP_PROTOCOLS = ("paper", "ours", "literal", "members", "members, kindly")
ASLEEP_AUTHORS = ("brokers", "members")
ASLEEP_FIGURES = (
    *("offered_s", "throughput_s", "throughput_others_s", "latency_ms", "latency_p99_ms"),
    *("missed", "too_late", "overtaken", "stalled", "dropped_by_others", "refused", "late"),
    *("messages", "acknowledgements", "order_bytes", "order_bytes_per_broker", "vector"),
    *("entries_kept", "events_held"),
)

GOSSIP_ALGORITHMS = (
    "none",
    "push",
    "local push",
    "adaptive push",
    "subscriber pull",
    "publisher pull",
    "both pulls",
    "immediate pulls",
    "ours",
)
GOSSIP_POLICIES = ("fifo", "source_or_subscriber", "interest_first", "random")
USUAL = "usual"  # first in, first out; ours: what concerns others first
GOSSIP_FIGURES = (
    *("delivery", "in_time", "recovery", "recovered_s", "overhead", "repairs"),
    *("gossip_each_s", "gossip_busiest", "gossip_per_repair", "repairs_of_one", "repairs_by_source"),
    *("lost_of_one", "hits_subscribers", "hits_others", "answers_others"),
)


def _run(module: str, function: str = "run") -> Callable[[Mapping[str, Value], int], Figures]:
    """A function of a module of this package, imported when it is first called."""

    def run(parameters: Mapping[str, Value], seed: int) -> Figures:
        found = getattr(import_module(f"unisono.lab.reproduce.{module}"), function)
        figures: Figures = found(parameters, seed)
        return figures

    return run


def _count(says: str, most: float) -> Parameter:
    return Parameter(says, least=1, most=most, whole=True)


ALPHA = Parameter("how early the function of popularity is flat", least=0.001, most=10)
BETA = Parameter("by how much a topic must exceed another", most=1)

DURATION = Parameter("seconds for each publication model and rate", least=0.1, most=3600)
GOSSIP = {
    "algorithm": Parameter("how what is lost is found", GOSSIP_ALGORITHMS),
    "dispatchers": _count("on a random tree of degree 4", 10_000),
    "loss": Parameter("share that each link loses, events and gossip alike", most=0.9),
    "gossip_s": Parameter("the gossip interval", least=0.001, most=100),
}
ATOM_HOSTS = {"hosts": _count("subscribers", 10_000), "groups": _count("how many", 1_000)}
WAN = {
    "nodes": _count("processes that sequence", 100),
    "subscribers": _count("processes that hold all five topics", 100),
    "placing": Parameter("where topics are sequenced", PLACINGS),
}

REPRODUCTIONS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="000-wan-nodes",
            says="real processes behind lines of 21 ms: latency in each publication model",
            parameters=WAN
            | {"rate_s": Parameter("events a second", least=0.1, most=1_000), "duration_s": DURATION},
            figures=WAN_NODES_FIGURES,
            run=_run("prototype", "run_nodes"),
        ),
        Experiment(
            name="000-wan-rates",
            says="real processes behind lines of 21 ms: latency in each publication model at 5 to 100 events a second",
            parameters=WAN | {"duration_s": DURATION},
            figures=WAN_RATES_FIGURES,
            run=_run("prototype", "run_rates"),
        ),
        Experiment(
            name="000-wan-jgroups",
            says="ten members of JGroups, SEQUENCER over TCP, the same links: latency",
            parameters={"rate_s": _count("events a second", 1_000), "duration_s": DURATION},
            figures=("is_there", *WAN_FIGURES),
            run=_run("prototype", "run_jgroups"),
        ),
        Experiment(
            name="000-latency",
            says="topics that everybody holds, on SCRIBE: how long events take to be stamped and heard",
            parameters={
                "nodes": _count("of the ring, all of them subscribers", 100_000),
                "topics": _count("how many", 10_000),
                "events": _count("published, one a second", 100_000),
                "publication": Parameter("which topics are published on", PUBLICATIONS),
                "sequencer": Parameter("the paper's chain, or what we do instead", SEQUENCERS),
            },
            figures=LATENCY_FIGURES,
            run=_run("latency"),
        ),
        Experiment(
            name="000-overhead",
            says="topics that are published on as they are subscribed to: how long stamps are",
            parameters={
                "nodes": _count("subscribers", 100_000),
                "topics": _count("how many", 10_000),
                "subscriptions": _count("topics that a node draws", 10_000),
                "events": _count("published", 100_000),
                "order": Parameter("where popular topics are in the topic order", ORDERS),
                "subscribing": Parameter("whether a topic drawn twice counts twice", SUBSCRIBING),
            },
            figures=OVERHEAD_FIGURES,
            run=_run("overhead"),
        ),
        Experiment(
            name="000-buffers",
            says="what a buffer at subscribers brings and costs; every message through the engines",
            parameters={
                "nodes": _count("of the ring, all of them subscribers", 10_000),
                "topics": _count("how many", 1_000),
                "subscriptions": _count("different topics of a node", 1_000),
                "events": _count("published", 100_000),
                "rate_s": Parameter("events a second", least=0.01, most=1_000),
                "buffer": Parameter("events that a subscriber holds at most", most=1e6, whole=True),
                "stamps": Parameter(
                    "the paper's, or ours that also name topics ranked below", ("paper", "ours")
                ),
            },
            figures=("tagged", "heard_s", "total_s"),
            run=_run("buffers"),
        ),
        Experiment(
            name="000-sequences",
            says="whether two subscribers detect the same patterns; every message through the engines",
            parameters={
                "nodes": _count("of the ring", 10_000),
                "duration_s": Parameter("how long", least=1, most=1e6),
                "rate_s": Parameter("events a second of each publisher", least=0.01, most=1_000),
                "setting": Parameter("how events are ordered and held", DETECTING),
            },
            figures=("consistent", "sequences"),
            run=_run("sequences"),
        ),
        Experiment(
            name="000-swaps",
            says="how often topics change places by the paper's rule",
            parameters={
                "topics": _count("how many", 10_000),
                "events": _count("published, one a second", 100_000),
                "alpha": ALPHA,
                "beta": BETA,
                "joins_s": Parameter("subscribers that join, a second", most=100),
                "joining": Parameter("which topics they hold", ("popular", "uniform")),
            },
            figures=("swaps", "late_place"),
            run=_run("dynamic", "count_swaps"),
        ),
        Experiment(
            name="000-dynamic",
            says="the topic order follows popularity: latency and bytes as time goes by",
            parameters={
                "nodes": _count("of the ring, all of them subscribers", 100_000),
                "topics": _count("how many", 10_000),
                "subscriptions": _count("topics that a node draws", 10_000),
                "subscribing": Parameter("whether a topic drawn twice counts twice", SUBSCRIBING),
                "events": _count("published, one a second", 100_000),
                "order": Parameter("fixed, random and fixed, or following popularity", RANKINGS),
                "alpha": ALPHA,
                "beta": BETA,
                "shuffle_s": Parameter("when popularity is shuffled; 0 for never", most=1e6),
            },
            figures=DYNAMIC_FIGURES,
            run=_run("dynamic"),
        ),
        Experiment(
            name="002-gossip",
            says="dispatchers on a tree that loses: what arrives, and what finding the rest costs",
            parameters=GOSSIP
            | {
                "publishers": _count("dispatchers that publish", 10_000),
                "rate_s": Parameter("events a second of each", least=0.01, most=1_000),
                "patterns": _count("how many there are", 10_000),
                "subscribers": _count("dispatchers that subscribe to a pattern", 10_000),
                "words": _count("patterns that an event matches", 100),
                "lossy_share": Parameter("of the time, in which links then lose more", least=0.05),
                "rewire_s": Parameter("seconds between changes of the tree; 0 for never", most=1_000),
                "cache": Parameter("events that a dispatcher keeps", most=1_000_000, whole=True),
                "policy": Parameter("which go first", (USUAL, *GOSSIP_POLICIES)),
                "forward": Parameter("probability that gossip is passed on", most=1),
                "fanout": _count("neighbours it is passed on to", 100),
                "duration_s": Parameter("seconds that are counted", least=0.1, most=3600),
            },
            figures=GOSSIP_FIGURES,
            run=_run("gossip_runs"),
        ),
        Experiment(
            name="002-convergence",
            says="one event that some dispatchers miss: rounds until they have it",
            parameters=GOSSIP,
            figures=("had", "missed", "rounds", "rounds_sum", "rounds_last", "never"),
            run=_run("gossip_runs", "run_convergence"),
        ),
        Experiment(
            name="003-stretch",
            says="groups of Zipf size on a transit-stub network: how much longer the way through atoms is",
            parameters=ATOM_HOSTS
            | {"stub_domains": _count("at each of 100 transit routers; 9 make 10,000 routers", 100)},
            figures=STRETCH_FIGURES,
            run=_run("atom_runs", "run_stretch"),
        ),
        Experiment(
            name="003-nodes",
            says="groups of Zipf size: sequencing nodes, their stress and load, atoms on paths",
            parameters=ATOM_HOSTS,
            figures=ATOM_NODES_FIGURES,
            run=_run("atom_runs", "run_nodes"),
        ),
        Experiment(
            name="003-occupancy",
            says="groups that every host is in with one probability: double overlaps and sequencing nodes",
            parameters=ATOM_HOSTS | {"occupancy": Parameter("the probability", most=1)},
            figures=("atoms", "paper_nodes", "ours_nodes"),
            run=_run("atom_runs", "run_occupancy"),
        ),
        Experiment(
            name="004-asleep",
            says="in every round a share of the members sleeps: what the others get, and what order costs them",
            parameters={
                "protocol": Parameter(
                    "the paper's with our rules, ours, the paper's to the letter, or all members without brokers",
                    ASLEEP_PROTOCOLS,
                ),
                "members": Parameter("of the group", least=8, most=2_000, whole=True),
                "asleep": Parameter("their share that sleeps in a round", most=0.75),
                "authors": Parameter("who publishes", ASLEEP_AUTHORS),
                "rate_s": Parameter("events a second", least=0.1, most=10_000),
                "duration_s": DURATION,
                "window": _count("unacknowledged events of a publisher, without brokers", 100_000),
            },
            figures=ASLEEP_FIGURES,
            run=_run("deadline_runs"),
        ),
        Experiment(
            name="004-moves",
            says="a subscriber that goes from broker to broker: messages for it, and what it misses",
            parameters={"brokers": Parameter("how many", least=2, most=100, whole=True)},
            figures=("messages_of_a_move", "missed_by_mover", "vector"),
            run=_run("deadline_runs", "run_moves"),
        ),
    )
}
