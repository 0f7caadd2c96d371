"""Paper 002: which worlds are run. One thing changes in each sweep, all else is as in `WORLDS`."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.lab.experiments import Value
from unisono.lab.reproduce.experiments import GOSSIP_ALGORITHMS, GOSSIP_POLICIES, USUAL
from unisono.lab.reproduce.families import Profile, Sweep, Tables
from unisono.lab.reproduce.rows import Rows

THREE = ("push", "subscriber pull", "publisher pull")  # the paper's algorithms
PAPERS = (*THREE, "both pulls")
SHOWN = tuple(name for name in GOSSIP_ALGORITHMS if name != "local push")
LOSSY = tuple(name for name in SHOWN if name != "none")

LOSS = 0.1
LOSSES = (0.0, 0.05, 0.1, 0.2, 0.3)
INTERVALS = (0.05, 0.1, 0.2, 0.4)
CACHES = (20, 80, 320)
PATTERNS = (10, 20, 40, 80)
WORDS = (1, 2, 4, 8)
SUBSCRIBERS = (1, 2, 3, 6, 12)
REWIRES = (0.0, 2.0, 1.0, 0.5, 0.25)
BURSTS = (1.0, 0.5, 0.2)  # share of the time in which links lose
RATES = (0.5, 2.0, 15.0)
SIZES = (20, 40, 80)  # dispatchers, two subscriptions each
FORWARDS = (0.2, 0.6, 0.9)
FANOUTS = (1, 3)
MISSED = (0.02, 0.05, 0.1, 0.2, 0.4)
SMALL_CACHE = 80
BURST_LOSS = 0.06  # on average

Grid = dict[str, tuple[Value, ...]]

WORLDS: Mapping[Profile, Mapping[str, Value]] = {
    "quick": {"dispatchers": 30, "publishers": 3, "rate_s": 15.0, "duration_s": 4.0},
    "full": {"dispatchers": 100, "publishers": 10, "rate_s": 15.0, "duration_s": 20.0},
}
SUBJECT: Mapping[str, Value] = {
    "patterns": 20,
    "subscribers": 3,
    "words": 2,
    "loss": LOSS,
    "lossy_share": 1.0,
    "rewire_s": 0.0,
    "gossip_s": 0.1,
    "forward": 0.6,
    "fanout": 1,
    "cache": 1500,
    "policy": USUAL,
}


def by_rate(tables: Tables) -> Rows:
    """The runs of all rates: seldom, for longer, and as often as in all other sweeps."""
    usual = [row for row in tables["gossip-loss"].rows if row["loss"] == LOSS]
    return Rows([*tables["gossip-rate"].rows, *(row for row in usual if row["algorithm"] != "none")])


def by_size(tables: Tables) -> Rows:
    """The runs of all sizes."""
    return Rows([row for size in SIZES for row in tables[f"gossip-size-{size}"].rows])


def sweeps(profile: Profile) -> list[Sweep]:
    """The same subjects in both profiles; more dispatchers, time and runs in the full one."""
    is_full = profile == "full"
    seeds = 10 if is_full else 3
    standard = {**SUBJECT, **WORLDS[profile]}

    def sweep(name: str, algorithms: tuple[str, ...], **changed: tuple[Value, ...]) -> Sweep:
        fixed: Grid = {key: (value,) for key, value in standard.items()}
        return Sweep(name, "002-gossip", {**fixed, **changed, "algorithm": algorithms}, seeds, seeds)

    mended: Grid = {"dispatchers": (standard["dispatchers"],), "loss": MISSED, "gossip_s": (1.0,)}
    return [
        sweep("gossip-loss", SHOWN, loss=LOSSES),
        sweep("gossip-interval", LOSSY, gossip_s=INTERVALS),
        sweep("gossip-cache", LOSSY, cache=CACHES),
        sweep("gossip-storage", ("push",), gossip_s=INTERVALS[1:3], cache=CACHES[:2]),
        sweep("gossip-policies", PAPERS, policy=GOSSIP_POLICIES, cache=CACHES[:2]),
        sweep("gossip-patterns", SHOWN, patterns=PATTERNS),
        sweep("gossip-patterns-cache", ("push",), patterns=PATTERNS, cache=(SMALL_CACHE,)),
        sweep("gossip-words", ("push", "ours"), words=WORDS, patterns=(40,)),
        sweep("gossip-density", SHOWN, subscribers=SUBSCRIBERS),
        sweep("gossip-scope", ("push", "local push"), subscribers=SUBSCRIBERS[1:4]),
        sweep("gossip-reconfiguration", SHOWN, rewire_s=REWIRES, loss=(0.0,)),
        sweep("gossip-bursts", LOSSY, lossy_share=BURSTS, loss=(BURST_LOSS,)),
        sweep("gossip-rate", LOSSY, rate_s=RATES[:-1], duration_s=(20.0,)),
        *(
            sweep(f"gossip-size-{size}", LOSSY, dispatchers=(size,), subscribers=(size // 10,))
            for size in SIZES
        ),
        sweep("gossip-forward", ("push",), forward=FORWARDS, fanout=FANOUTS),
        Sweep(
            "gossip-convergence",
            "002-convergence",
            mended | {"algorithm": (*THREE, "ours")},
            200 if is_full else 40,
            20,
        ),
    ]
