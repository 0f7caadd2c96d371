"""Paper 002: what its text says of the gossip interval, the size of buffers and what is discarded first."""

from __future__ import annotations

from statistics import fmean

from unisono.lab.reproduce.claims import Claim, listed, trend
from unisono.lab.reproduce.families import Tables
from unisono.lab.reproduce.gossip_sweeps import CACHES, INTERVALS, PAPERS, THREE
from unisono.lab.reproduce.rows import Rows


def judge_buffers(tables: Tables) -> list[Claim]:
    """Claims about the two parameters that trade delivery for overhead."""
    return [
        *_judge_interval(tables["gossip-interval"]),
        *_judge_cache(tables["gossip-cache"], tables["gossip-storage"]),
        *_judge_policies(tables["gossip-policies"]),
    ]


def _series(values: dict[str, list[float]]) -> str:
    return "; ".join(f"{name} {listed([100 * v for v in found])} %" for name, found in values.items())


def _judge_interval(rows: Rows) -> list[Claim]:
    names = (*PAPERS, "ours")
    in_time = {name: [rows.mean("in_time", algorithm=name, gossip_s=s) for s in INTERVALS] for name in names}
    costs = {name: [rows.mean("overhead", algorithm=name, gossip_s=s) for s in INTERVALS] for name in names}
    return [
        trend(
            "002-interval",
            "the gossip interval trades delivery for overhead (§5)",
            holds=all(in_time[n][0] > in_time[n][-1] and costs[n][0] > costs[n][-1] for n in THREE),
            measured=f"{listed(INTERVALS)} s: within a second {_series(in_time)}; overhead {_series(costs)}",
            rule="each of the three delivers more within a second, and costs more, with the shortest interval than the longest",
        )
    ]


def _judge_cache(rows: Rows, storage: Rows) -> list[Claim]:
    names = (*PAPERS, "ours")
    kept = {name: [rows.mean("delivery", algorithm=name, cache=c) for c in CACHES] for name in names}

    def pushed(figure: str, gossip_s: float, cache: int) -> float:
        return storage.mean(figure, gossip_s=gossip_s, cache=cache)

    often, seldom = (INTERVALS[1], CACHES[0]), (INTERVALS[2], CACHES[1])
    said = [
        f"every {s:g} s with {cache} events {pushed('delivery', s, cache):.1%} for {pushed('overhead', s, cache):.1%} overhead"
        for s, cache in (often, seldom)
    ]
    return [
        trend(
            "002-cache",
            "in larger buffers events persist longer, and more of them are recovered (§5)",
            holds=all(kept[name][0] < kept[name][-1] for name in THREE),
            measured=f"{listed(CACHES)} events: {_series(kept)}",
            rule="each of the three delivers more with the largest cache than with the smallest",
        ),
        trend(
            "002-cache",
            "a larger buffer enables less frequent gossip: storage for communication (§5)",
            holds=pushed("delivery", *seldom) >= pushed("delivery", *often)
            and pushed("overhead", *seldom) < pushed("overhead", *often),
            measured=f"push {'; '.join(said)}",
            rule="with four times the cache and half the rounds no less is delivered, for less overhead",
        ),
    ]


def _judge_policies(rows: Rows) -> list[Claim]:
    def mean(policy: str) -> list[float]:
        return [
            fmean(rows.mean("recovery", algorithm=name, policy=policy, cache=cache) for name in PAPERS)
            for cache in CACHES[:2]
        ]

    fifo, interest, random = mean("fifo"), mean("interest_first"), mean("random")
    own = mean("source_or_subscriber")
    measured = (
        f"caches of {listed(CACHES[:2])} events, mean of four algorithms, of what the tree lost: "
        + "; ".join(
            f"{name} {listed([100 * v for v in values])} %"
            for name, values in {
                "first in, first out": fifo,
                "others' first": interest,
                "only one's own": own,
                "any": random,
            }.items()
        )
    )
    return [
        trend(
            "002-cache",
            "it helps to discard first the events of which a dispatcher is neither source nor subscriber (§5)",
            holds=interest[0] > fifo[0] + 0.02,
            measured=measured,
            rule="with the smallest cache at least two points more than first in, first out",
        ),
        trend(
            "002-cache",
            "it helps to discard at random, so that an event does not go from all caches at the same time (§5)",
            holds=random[0] > fifo[0] + 0.02,
            measured=measured,
            rule="with the smallest cache at least two points more than first in, first out",
            differs="dispatchers see different events, so that even first in, first out lets go of one at different times; at "
            "random, many go before anybody has noticed that they are missing",
        ),
    ]
