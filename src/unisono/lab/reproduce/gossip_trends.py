"""Paper 002: what its text says of patterns, subscribers, rates, size, and how fast push and pull converge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from unisono.lab.reproduce.claims import Claim, listed, shown, trend
from unisono.lab.reproduce.families import Tables
from unisono.lab.reproduce.gossip_plots import rounds_to_mend
from unisono.lab.reproduce.gossip_sweeps import (
    FANOUTS,
    FORWARDS,
    MISSED,
    PAPERS,
    PATTERNS,
    RATES,
    SIZES,
    SMALL_CACHE,
    SUBSCRIBERS,
    THREE,
    WORDS,
    by_rate,
    by_size,
)
from unisono.lab.reproduce.rows import Rows

FEW = 2  # dispatchers that miss an event which nearly all have


def judge_trends(tables: Tables) -> list[Claim]:
    """Claims about when which algorithm does well."""
    return [
        *_judge_patterns(tables["gossip-patterns"], tables["gossip-patterns-cache"], tables["gossip-words"]),
        *_judge_scope(tables["gossip-scope"]),
        *_judge_density(tables["gossip-density"]),
        *_judge_rate(by_rate(tables)),
        *_judge_size(by_size(tables)),
        *_judge_forward(tables["gossip-forward"]),
        *_judge_convergence(tables["gossip-convergence"]),
    ]


def _percent(values: list[float]) -> str:
    return listed([100 * value for value in values]) + " %"


def _judge_patterns(rows: Rows, small: Rows, words: Rows) -> list[Claim]:
    waits = [rows.mean("recovered_s", algorithm="push", patterns=p) for p in PATTERNS]
    shares = [rows.mean("recovery", algorithm="push", patterns=p) for p in PATTERNS]
    tight = [small.mean("recovery", patterns=p) for p in PATTERNS]
    ours = [rows.mean("recovery", algorithm="ours", patterns=p) for p in PATTERNS]
    matched = [words.mean("recovery", algorithm="push", words=w) for w in WORDS]
    by_patterns = shares[1] - shares[3]  # four times as many
    by_words = matched[1] - matched[3]
    return [
        trend(
            "002-patterns",
            "push is challenged by a high number of patterns (§5)",
            holds=all(a > b for a, b in pairwise(shares)),
            measured=f"{listed(PATTERNS)} patterns: push brings back {_percent(shares)}, ours {_percent(ours)}",
            rule="less is brought back at every larger number",
        ),
        trend(
            "002-patterns",
            "the more patterns, the bigger the latency of recovering an event by push (§5)",
            holds=waits[0] < waits[2],
            measured=f"{listed(PATTERNS)} patterns: {listed(waits)} s until what is brought back is there",
            rule="longer with 40 patterns than with 10; with more, most has not come when the run ends",
        ),
        trend(
            "002-patterns",
            "meanwhile it may be discarded and be lost forever (§5)",
            holds=all(a < b for a, b in zip(tight, shares, strict=True)),
            measured=f"caches of {SMALL_CACHE} events: {_percent(tight)} instead of {_percent(shares)}",
            rule="less is brought back with small caches at every number of patterns",
        ),
        trend(
            "002-patterns",
            "what dominates push is not the number of patterns but only how many of them each event matches (§5)",
            holds=abs(by_words) > abs(by_patterns) and by_words > 0,
            measured=f"20 to 80 patterns, 2 of them matched: {_percent([shares[1], shares[3]])}; 2 to 8 matched, of 40: "
            f"{_percent([matched[1], matched[3]])}",
            rule="four times as many matched do more harm than four times as many patterns",
            differs="every pattern of the table is gossiped about in turn, whatever matches it; an event that matches more of "
            "them is in more digests, and comes back sooner",
        ),
    ]


def _judge_scope(rows: Rows) -> list[Claim]:
    at = rows.distinct("subscribers")
    whole, local = (
        [rows.mean("recovery", algorithm=name, subscribers=n) for n in at] for name in ("push", "local push")
    )
    waits = [
        [rows.mean("recovered_s", algorithm=name, subscribers=n) for n in at]
        for name in ("push", "local push")
    ]
    return [
        trend(
            "002-density",
            "push that chooses among all patterns of the table converges faster than among those of local clients (§4.1)",
            holds=all(a > b for a, b in zip(whole, local, strict=True)),
            measured=f"{listed(at)} subscribers of each pattern: {_percent(whole)} of what the tree lost after {listed(waits[0])} s; "
            f"local patterns {_percent(local)} after {listed(waits[1])} s",
            rule="more of what the tree lost is brought back, with each number of subscribers",
            differs="who subscribes to few patterns gossips about each of them more often; with many subscribers of each pattern "
            "there is always one near who has the event",
        )
    ]


def _judge_density(rows: Rows) -> list[Claim]:
    shares = {
        name: [rows.mean("recovery", algorithm=name, subscribers=n) for n in SUBSCRIBERS]
        for name in (*PAPERS, "ours")
    }
    measured = f"{listed(SUBSCRIBERS)} subscribers: " + "; ".join(
        f"{n} {_percent(v)}" for n, v in shares.items()
    )
    push, both = shares["push"], shares["both pulls"]
    pulls = [shares[name] for name in THREE[1:]]

    def needs(name: str, differs: str) -> Claim:
        few, many = shares[name][0], shares[name][-2]
        return trend(
            "002-density",
            f"{name} needs a reasonable number of subscribers for the same pattern (§5)",
            holds=few <= 0.75 * many,
            measured=measured,
            rule=f"with one subscriber at least a quarter less is brought back than with {SUBSCRIBERS[-2]}",
            differs=differs,
        )

    return [
        needs("subscriber pull", "a pull without another subscriber to go to is sent nowhere"),
        needs(
            "publisher pull",
            "the publisher, and who is on the way from it, have the event whoever else subscribes",
        ),
        trend(
            "002-density",
            "the number of subscribers does not affect push significantly (§5)",
            holds=min(push) >= 0.75 * max(push),
            measured=f"{listed(SUBSCRIBERS)} subscribers: push {_percent(push)}",
            rule="never less than three quarters of the most that is brought back",
            differs="with one subscriber, digests go one way only; with many, they branch, and each takes one branch",
        ),
        trend(
            "002-density",
            "to combine both pulls improves the chances to recover an event (§5)",
            holds=all(b >= max(pair) - 0.02 for b, *pair in zip(both, *pulls, strict=True))
            and both[0] > pulls[0][0],
            measured=measured,
            rule="never two points less than the better of the two, and more than subscriber pull where there is one subscriber",
        ),
    ]


def _judge_rate(rows: Rows) -> list[Claim]:
    shares = {
        name: [rows.mean("in_time", algorithm=name, rate_s=r) for r in RATES] for name in (*THREE, "ours")
    }
    brought = {
        name: [rows.mean("recovery", algorithm=name, rate_s=r) for r in RATES] for name in (*THREE, "ours")
    }
    measured = f"{listed(RATES)} events a second of each publisher: " + "; ".join(
        f"{name} {_percent(shares[name])} within a second, {_percent(brought[name])} of what the tree lost in the end"
        for name in shares
    )
    return [
        trend(
            "002-rate",
            "where little is published a process may not notice a loss until the next event: push may be preferable (§2.2)",
            holds=all(brought["push"][0] > brought[name][0] for name in THREE[1:]),
            measured=measured,
            rule="at the lowest rate push brings back more than either pull",
        ),
        trend(
            "002-rate",
            "typically the reactivity of pull is preferable (§2.2)",
            holds=all(shares[name][-1] > shares["push"][-1] for name in THREE[1:]),
            measured=measured,
            rule="at the highest rate either pull delivers more within a second than push",
        ),
    ]


def _judge_size(rows: Rows) -> list[Claim]:
    load = {
        name: [rows.mean("gossip_each_s", algorithm=name, dispatchers=n) for n in SIZES]
        for name in (*THREE, "ours")
    }
    busiest = {
        name: [rows.mean("gossip_busiest", algorithm=name, dispatchers=n) for n in SIZES] for name in load
    }
    brought = {name: [rows.mean("recovery", algorithm=name, dispatchers=n) for n in SIZES] for name in load}
    sizes = f"{listed(SIZES)} dispatchers"
    return [
        trend(
            "002-size",
            "gossip imposes a constant load on processes, also as the system grows (§2.2)",
            holds=all(load[name][-1] <= 1.5 * load[name][0] for name in THREE),
            measured=f"{sizes}: digests and requests of one in a second: "
            + "; ".join(f"{name} {listed(values)}" for name, values in load.items()),
            rule="with each of the three, at most half more in the largest system than in the smallest",
            differs="ways on the tree are longer: more is lost on them, and who misses something asks for it in every round",
        ),
        trend(
            "002-size",
            "the load is equally distributed (§2.2)",
            holds=all(max(busiest[name]) <= 2 for name in THREE),
            measured=f"{sizes}: the busiest sends so many times the mean: "
            + "; ".join(f"{name} {listed(values)}" for name, values in busiest.items()),
            rule="with each of the three, the busiest sends at most twice the mean",
            differs="gossip travels the tree, and most of it passes its inner dispatchers",
        ),
        trend(
            "002-size",
            "the algorithms are scalable (§2.2, §5)",
            holds=all(brought[name][-1] >= 0.9 * brought[name][0] for name in THREE),
            measured=f"{sizes}: of what the tree lost, "
            + "; ".join(f"{name} {_percent(values)}" for name, values in brought.items()),
            rule="each of the three brings back at least nine tenths of the share that it does in the smallest system",
            differs="a digest of push travels a few hops; in a larger tree there are more dispatchers behind a lost link, and those "
            "who have the event are farther away",
        ),
    ]


def _judge_forward(rows: Rows) -> list[Claim]:
    sent = {
        fanout: [rows.mean("gossip_each_s", algorithm="push", forward=p, fanout=fanout) for p in FORWARDS]
        for fanout in FANOUTS
    }
    brought = {
        fanout: [rows.mean("recovery", algorithm="push", forward=p, fanout=fanout) for p in FORWARDS]
        for fanout in FANOUTS
    }
    return [
        trend(
            "002-forward",
            "the extent of propagation is determined by P_forward (§4.1)",
            holds=all(a < b for a, b in pairwise(sent[1])),
            measured=f"P_forward {listed(FORWARDS)}: {listed(sent[1])} messages of a dispatcher in a second, {_percent(brought[1])} of "
            "what the tree lost",
            rule="more gossip at every larger probability",
        ),
        trend(
            "002-forward",
            "gossip goes to a subset of neighbours to limit the overhead (§4.1)",
            holds=all(a < b for a, b in zip(sent[1], sent[FANOUTS[-1]], strict=True)),
            measured=f"to one neighbour {listed(sent[1])}, to up to {FANOUTS[-1]} {listed(sent[FANOUTS[-1]])} messages; brought back "
            f"{_percent(brought[1])} and {_percent(brought[FANOUTS[-1]])}",
            rule="less gossip to one neighbour than to three, at every probability",
        ),
    ]


def _judge_convergence(rows: Rows) -> list[Claim]:
    had = [rows.mean("had", loss=loss) for loss in MISSED]
    rounds = {name: [rounds_to_mend(rows, name, loss) for loss in MISSED] for name in (*THREE, "ours")}
    most = {name: _rounds_where(rows, name, lambda row: row["had"] > 0.5) for name in rounds}
    least = {name: _rounds_where(rows, name, lambda row: row["had"] <= 0.5) for name in rounds}
    few = {name: _rounds_where(rows, name, lambda row: row["missed"] <= FEW) for name in rounds}

    def said(values: dict[str, float]) -> str:
        return ", ".join(f"{name} {shown(value)}" for name, value in values.items())

    return [
        trend(
            "002-convergence",
            f"pull converges faster than push where a majority has the message (§2.2): {name}",
            holds=most[name] < most["push"],
            measured=f"rounds until who missed it has it, in runs where a majority has it: {said(most)}; where a minority has it: "
            f"{said(least)}; where {_percent(had)} have it: "
            + "; ".join(f"{n} {listed(v)}" for n, v in rounds.items()),
            rule="fewer rounds, on average over all who missed it in runs where more than half had it",
        )
        for name in THREE[1:]
    ] + [
        trend(
            "002-convergence",
            "if all but one have it, pull recovers at once instead of waiting to be pushed (§2.2)",
            holds=all(few[name] < few["push"] for name in THREE[1:]),
            measured=f"at most {FEW} miss it: {said(few)} rounds",
            rule=f"where at most {FEW} miss it, either pull takes fewer rounds than push",
        )
    ]


def _rounds_where(rows: Rows, algorithm: str, chosen: Callable[[Mapping[str, Any]], bool]) -> float:
    """Rounds that each who missed the event waits for it, in the runs that are chosen."""
    some = [row for row in rows.rows if row["algorithm"] == algorithm and row["missed"] and chosen(row)]
    return sum(float(row["rounds_sum"]) for row in some) / max(1.0, sum(float(row["missed"]) for row in some))
