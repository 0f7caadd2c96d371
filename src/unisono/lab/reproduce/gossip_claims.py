"""Paper 002: what its sections 2.2, 4 and 5 say of delivery, overhead, buffers, changes and bursts."""

from __future__ import annotations

from typing import Any

from unisono.lab.reproduce.claims import Claim, beaten, listed, not_testable, trend
from unisono.lab.reproduce.families import Family, Profile, Tables
from unisono.lab.reproduce.gossip_buffers import judge_buffers
from unisono.lab.reproduce.gossip_plots import OTHERS, SUBJECTS, plots
from unisono.lab.reproduce.gossip_sweeps import (
    BURSTS,
    CACHES,
    INTERVALS,
    LOSS,
    LOSSES,
    PAPERS,
    RATES,
    REWIRES,
    SUBSCRIBERS,
    THREE,
    sweeps,
)
from unisono.lab.reproduce.gossip_trends import judge_trends
from unisono.lab.reproduce.rows import Rows

PULLS = PAPERS[1:]
OVERHEAD_MAX = 0.25
MOST = 0.5  # of what the tree has lost


def judge(tables: Tables) -> list[Claim]:
    """Every claim that a run can judge, those that none can, and ours beside the best of the paper's."""
    return [
        *_judge_loss(tables["gossip-loss"], tables["gossip-reconfiguration"]),
        *_judge_reactive(tables["gossip-loss"], tables["gossip-interval"]),
        *_judge_acknowledgements(tables["gossip-density"]),
        *judge_buffers(tables),
        *_judge_reconfiguration(tables["gossip-reconfiguration"]),
        *_judge_bursts(tables["gossip-bursts"]),
        *judge_trends(tables),
        *_untestable(),
        *_beaten(tables),
    ]


def by(rows: Rows, figure: str, algorithms: tuple[str, ...], **where: Any) -> dict[str, float]:
    """The mean of a figure for each algorithm."""
    return {name: rows.mean(figure, algorithm=name, **where) for name in algorithms}


def told(values: dict[str, float], unit: str = "%") -> str:
    """Figures with their names; shares in percent."""
    scale = 100 if unit == "%" else 1
    return ", ".join(f"{name} {scale * value:.3g} {unit}".rstrip() for name, value in values.items())


def _judge_loss(rows: Rows, rewired: Rows) -> list[Claim]:
    recovery = by(rows, "recovery", THREE, loss=LOSS)
    delivery = by(rows, "delivery", ("none", *PAPERS, "ours"), loss=LOSS)
    overhead = by(rows, "overhead", (*PAPERS, "ours"), loss=LOSS)
    better = [
        rows.mean("delivery", algorithm=name, loss=loss) > rows.mean("delivery", algorithm="none", loss=loss)
        for name in PAPERS
        for loss in LOSSES
        if loss
    ] + [
        rewired.mean("delivery", algorithm=name, rewire_s=rewire_s)
        > rewired.mean("delivery", algorithm="none", rewire_s=rewire_s)
        for name in PAPERS
        for rewire_s in REWIRES
        if rewire_s
    ]
    return [
        trend(
            "002-loss",
            "the algorithms bring a remarkable improvement of event delivery (§5)",
            holds=min(recovery.values()) >= MOST,
            measured=f"10 % loss: delivered {told(delivery)}; of what the tree lost, {told(recovery)}",
            rule="at 10 % loss each of the three brings back at least half of what the tree lost",
        ),
        trend(
            "002-loss",
            "they improve reliability wherever events are lost, whatever the cause (§5)",
            holds=all(better),
            measured=f"{sum(better)} of {len(better)} pairs of algorithm and world deliver more than the bare tree",
            rule="more than the bare tree at every loss and every rate of changes of the tree",
        ),
        trend(
            "002-loss-overhead",
            "they pay only a limited overhead (§5)",
            holds=max(overhead[name] for name in THREE) < OVERHEAD_MAX,
            measured=f"10 % loss, digests and requests by events on the tree: {told(overhead)}",
            rule="each of the three less than a quarter of the bytes of events on the tree; repairs are apart",
        ),
        trend(
            "002-loss",
            "guarantees are only probabilistic (§2.2)",
            holds=max(delivery[name] for name in THREE) < 1,
            measured=f"10 % loss: {told(delivery)}",
            rule="with each of the three something is missing in the end",
        ),
    ]


def _judge_reactive(rows: Rows, intervals: Rows) -> list[Claim]:
    still = by(rows, "overhead", (*PAPERS, "adaptive push", "ours"), loss=0.0)
    lossy = by(rows, "overhead", ("push", "adaptive push"), loss=LOSS)
    delivery = by(rows, "delivery", ("push", "adaptive push"), loss=LOSS)
    pulls, longest = ("both pulls", "immediate pulls"), INTERVALS[-1]
    per_event = by(intervals, "gossip_per_repair", pulls, gossip_s=longest)
    sooner = by(intervals, "recovered_s", pulls, gossip_s=longest)
    short = by(rows, "gossip_per_repair", pulls, loss=LOSSES[-1])
    hits = {
        "of subscribers to the pattern": rows.mean(
            "hits_subscribers", algorithm="subscriber pull", loss=LOSS
        ),
        "of others": rows.mean("hits_others", algorithm="subscriber pull", loss=LOSS),
    }
    both = [rows.mean(f"hits_{who}", algorithm="both pulls", loss=LOSS) for who in ("subscribers", "others")]
    others = rows.mean("answers_others", algorithm="subscriber pull", loss=LOSS)
    return [
        trend(
            "002-loss-overhead",
            "pull is reactive: where nothing is lost no action is necessary (§2.2, §5)",
            holds=max(still[name] for name in PULLS) == 0,
            measured=f"no loss: {told(still)} of the bytes of events",
            rule="no byte of gossip without loss, with either pull and both",
        ),
        trend(
            "002-loss-overhead",
            "push wastes bandwidth while the system is stable (§5)",
            holds=still["push"] >= 0.5 * lossy["push"] > 0,
            measured=f"{still['push']:.1%} without loss, {lossy['push']:.1%} with 10 %",
            rule="without loss at least half of what it takes with 10 %",
        ),
        trend(
            "002-loss-overhead",
            "an interval that follows the state of the system removes this inefficiency (§5)",
            holds=still["adaptive push"] <= still["push"] / 4
            and delivery["adaptive push"] >= delivery["push"],
            measured=f"without loss {told({k: still[k] for k in lossy})}; with 10 % {told(lossy)}, delivered {told(delivery)}",
            rule="without loss at most a quarter of push's bytes; with 10 % no less delivered",
        ),
        trend(
            "002-loss-overhead",
            "where losses are frequent it is better to wait for the next round than to trigger one at once (footnote 6)",
            holds=per_event["immediate pulls"] > 1.1 * per_event["both pulls"],
            measured=f"rounds of {longest:g} s: {told(per_event, 'messages')} for each event brought back, after "
            f"{told(sooner, 's')}; rounds of 0.1 s, in which a dispatcher seldom finds two losses, and {LOSSES[-1]:.0%} loss: "
            f"{told(short, 'messages')}",
            rule="with the longest rounds, at least a tenth more messages for each event brought back if they begin at once",
        ),
        trend(
            "002-loss",
            "a gossip message that reaches a subscriber recovers much more likely than at a middleman (§4.2)",
            holds=hits["of subscribers to the pattern"] >= 2 * hits["of others"],
            measured=f"subscriber pull, 10 % loss: share of numbers answered, {told(hits)}; {both[0]:.0%} and {both[1]:.0%} if "
            "publishers are asked too",
            rule="at least twice as likely; caches keep the last events that passed, as in figure 3",
            differs="what middlemen have does not reach a subscriber any more; and what nobody on this side of a lost link has is "
            "asked for round after round",
        ),
        trend(
            "002-loss",
            "whoever has the event can send it, subscribed to the pattern or not (§4.2)",
            holds=others > 0,
            measured=f"{others:.0%} of the answers to subscriber pulls come from dispatchers that do not subscribe to it",
            rule="some do",
        ),
    ]


def _judge_acknowledgements(rows: Rows) -> list[Claim]:
    many = SUBSCRIBERS[-1]
    missed = by(rows, "lost_of_one", THREE, subscribers=many)
    copies = by(rows, "repairs_of_one", (*THREE, "ours"), subscribers=many)
    share = by(rows, "repairs_by_source", (*THREE, "ours"), subscribers=many)

    def claim(text: str, names: tuple[str, ...], differs: str = "") -> Claim:
        return trend(
            "002-acknowledgements",
            text,
            holds=all(copies[name] <= MOST * missed[name] for name in names),
            measured=f"{many} subscribers of each pattern: {listed([missed[n] for n in names])} of them miss a lost event, and "
            f"who sends most copies sends {told({n: copies[n] for n in names}, '')}; ours {copies['ours']:.3g}",
            rule="on average nobody sends more copies than half of those who missed the event",
            differs=differs,
        )

    return [
        claim(
            "push and subscriber-based pull are essentially free from acknowledgement implosion (§4.2)",
            THREE[:2],
        ),
        claim(
            "with publisher-based pull it is unlikely (§4.2)",
            THREE[2:],
            differs="who misses an event behind the same lost link is woken by the same next event",
        ),
        trend(
            "002-acknowledgements",
            "requests are handled by the first dispatcher on the path, the publisher is not overloaded (§4.2)",
            holds=share["publisher pull"] < MOST,
            measured=f"publishers send {told(share)} of all repairs",
            rule="with publisher pull, publishers send less than half of them",
        ),
    ]


def _judge_reconfiguration(rows: Rows) -> list[Claim]:
    every = {rewire_s: by(rows, "recovery", (*THREE, "ours"), rewire_s=rewire_s) for rewire_s in REWIRES[1:]}
    bare = {rewire_s: rows.mean("delivery", algorithm="none", rewire_s=rewire_s) for rewire_s in REWIRES}
    costs = {rewire_s: by(rows, "overhead", PAPERS, rewire_s=rewire_s) for rewire_s in REWIRES}
    stale = [every[rewire_s]["publisher pull"] for rewire_s in REWIRES[1:]]
    measured = f"bare tree {listed([100 * v for v in bare.values()])} % with {listed([1 / s if s else 0 for s in REWIRES])} changes a second"
    return [
        trend(
            "002-reconfiguration",
            "gossip is very resilient to changes of the topology (§2.2)",
            holds=min(every[1.0][name] for name in THREE) >= MOST,
            measured=f"{measured}; a change every second, of what is lost: {told(every[1.0])}",
            rule="with a change every second each of the three brings back at least half of what is lost",
            differs="what was published while nobody knew of a subscription on the other side has no number of its pattern there "
            "and leaves no hole: pulls do not see it",
        ),
        trend(
            "002-reconfiguration",
            "a route back may be stale; it is likely to share its first part, or at least the source (§4.2)",
            holds=min(stale) >= MOST,
            measured=f"publisher pull, changes every {listed(REWIRES[1:])} s: {listed([100 * v for v in stale])} % of what is lost; "
            "where the next hop is gone ours asks the source past the tree",
            rule="publisher pull brings back at least half at every rate",
            differs="as above: mostly what leaves no hole, not what a stale route does not find",
        ),
        trend(
            "002-reconfiguration-overhead",
            "where changes of the topology are what loses events, reactive algorithms cost less than push (§5)",
            holds=all(costs[s][name] < costs[s]["push"] for s in REWIRES for name in PULLS),
            measured="; ".join(f"every {s:g} s: {told(costs[s])}" for s in REWIRES[1:]),
            rule="each pull costs less than push at every rate",
        ),
    ]


def _judge_bursts(rows: Rows) -> list[Claim]:
    costs = {share: by(rows, "overhead", (*PAPERS, "ours"), lossy_share=share) for share in BURSTS}
    measured = "; ".join(f"errors in {share:.0%} of the time: {told(costs[share])}" for share in BURSTS)
    return [
        trend(
            "002-bursts",
            "where bursts of errors are followed by calm, reactive algorithms produce less traffic (§5)",
            holds=all(costs[BURSTS[-1]][name] < costs[BURSTS[-1]]["push"] for name in PULLS),
            measured=measured,
            rule="each pull costs less than push where errors come in the shortest bursts; the mean loss is the same",
        ),
        trend(
            "002-bursts",
            "they profit from variability more than push (§5)",
            holds=all(
                costs[BURSTS[-1]][name] / costs[1.0][name] < costs[BURSTS[-1]]["push"] / costs[1.0]["push"]
                for name in PULLS
            ),
            measured=measured,
            rule="from steady errors to the shortest bursts, the cost of each pull falls by more than push's",
        ),
    ]


def _untestable() -> list[Claim]:
    return [
        not_testable(
            "002-costs",
            "a publisher must match events against all patterns where routing stops at the first match; only it does (§5)",
            "our index finds all matching patterns at once, on every dispatcher: there is no shorter match to compare with",
        ),
        not_testable(
            "002-costs",
            "gossip algorithms are very simple to implement and inexpensive to run (§2.2)",
            "no measure is named; what digests and requests cost in bytes is judged above",
        ),
    ]


def _beaten(tables: Tables) -> list[Claim]:
    """What is missing a second after publication, ours beside the best of the paper's."""
    hardest: dict[str, tuple[str, dict[str, Any]]] = {
        "10 % loss": ("gossip-loss", {"loss": LOSS}),
        f"{LOSSES[-1]:.0%} loss": ("gossip-loss", {"loss": LOSSES[-1]}),
        f"a cache of {CACHES[0]} events": ("gossip-cache", {"cache": CACHES[0]}),
        "80 patterns": ("gossip-patterns", {"patterns": 80}),
        "one subscriber for each pattern": ("gossip-density", {"subscribers": 1}),
        f"a change of the tree every {REWIRES[-1]:g} s": (
            "gossip-reconfiguration",
            {"rewire_s": REWIRES[-1]},
        ),
        f"{RATES[0]:g} events a second of each publisher": ("gossip-rate", {"rate_s": RATES[0]}),
    }
    claims = []
    for name, (table, where) in hardest.items():
        missing = {
            algorithm: 1 - share for algorithm, share in by(tables[table], "in_time", PAPERS, **where).items()
        }
        best = min(missing, key=lambda algorithm: missing[algorithm])
        claims.append(
            beaten(
                f"share of deliveries missing a second after publication, {name}: trails, watermarks and all three, instead of "
                f"{best}",
                paper=missing[best],
                ours=1 - tables[table].mean("in_time", algorithm="ours", **where),
                factor=2,
                rule="at most half of what is missing with the best of the paper's four",
            )
        )
    return claims


PARTS = (
    *SUBJECTS,
    *(f"{part}-overhead" for part in SUBJECTS),
    *OTHERS,
    "acknowledgements",
    "forward",
    "costs",
)
FIGURES = tuple(f"002-{part}" for part in PARTS)
PROFILES: dict[Profile, str] = {
    "quick": "quick profile: 30 dispatchers, 4 s, 3 runs; --full for 100 dispatchers, 20 s and 10 runs",
    "full": "full profile: 100 dispatchers, 20 s, 10 runs for each point; the paper's text gives no scale",
}
FAMILY = Family("gossip", FIGURES, sweeps, judge, plots, profiles=PROFILES)
