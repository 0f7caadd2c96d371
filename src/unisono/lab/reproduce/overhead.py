"""Paper 000, figures 13 and 14: what stamps cost in bytes and in messages, by number of subscriptions.

Publications and subscriptions follow the same law. The text does not say how many nodes and topics there are: we
take those of its later figures, 10,000 and 1,000, for which its shapes are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unisono.engines.plan import rank_line
from unisono.lab.experiments import Figures, Value
from unisono.lab.reproduce.claims import Claim, beaten, listed, trend
from unisono.lab.reproduce.families import Curve, Family, Plot, Profile, Sweep, Tables
from unisono.lab.reproduce.rows import Rows
from unisono.lab.reproduce.subscribing import draw_held, model
from unisono.sim.fast.chains import conflicts_of, names_of
from unisono.sim.fast.reranking import visits_by

ENTRY_BYTES = 24  # a Pastry identifier and a Java long
EACH = (5, 10, 20, 50, 100)
LABELS = {"best": "power-law, best case", "uniform": "uniform", "worst": "power-law, worst case"}


def run(parameters: Mapping[str, Value], seed: int) -> Figures:
    """One point of figures 13 and 14: only counted, no time passes."""
    nodes, topics, each, events = (int(parameters[n]) for n in ("nodes", "topics", "subscriptions", "events"))
    order, generator = str(parameters["order"]), np.random.default_rng([seed, 13])
    popularity, names = model(order, topics), names_of(topics)
    conflicts = conflicts_of(draw_held(popularity, nodes, each, str(parameters["subscribing"]), generator))
    published = popularity.sample_many(generator, events)
    rank: Sequence[str] = names[::-1] if order == "worst" else names
    if order == "planned":
        rank = rank_line(conflicts, rates=dict(zip(names, popularity.shares.tolist(), strict=True))).rank
    managers, entries = visits_by(conflicts, rank, published)
    processed = np.bincount(managers, minlength=topics)
    for_others = processed - np.bincount(published, minlength=topics)
    busy = processed > 0
    return {
        "bytes": ENTRY_BYTES * float(entries.mean()),
        "overhead": float(for_others.sum() / processed.sum()),
        "overhead_of_a_manager": float((for_others[busy] / processed[busy]).mean()),
        "entries_max": float(entries.max()),
    }


def sweeps(profile: Profile) -> list[Sweep]:
    """The paper's scale in both profiles: the quick one has fewer runs."""
    grid: dict[str, tuple[Value, ...]] = {
        "nodes": (10_000,),
        "topics": (1_000,),
        "subscriptions": EACH,
        "events": (1_800,),
        "order": ("best", "uniform", "worst", "planned"),
        "subscribing": ("different",),
    }
    seeds = 10 if profile == "full" else 2
    drawn: dict[str, tuple[Value, ...]] = {**grid, "order": ("best",), "subscribing": ("drawn",)}
    return [
        Sweep("overhead", "000-overhead", grid, seeds),
        Sweep("overhead-drawn", "000-overhead", drawn, seeds),
    ]


def judge(tables: Tables) -> list[Claim]:
    """What the text says of figures 13 and 14."""
    rows = tables["overhead"]
    return [*_judge_13(rows, tables["overhead-drawn"]), *_judge_14(rows), *_beaten(rows)]


def _by_each(rows: Rows, figure: str, order: str) -> list[float]:
    return [rows.mean(figure, subscriptions=each, order=order) for each in rows.distinct("subscriptions")]


def _judge_13(rows: Rows, others: Rows) -> list[Claim]:
    best, uniform, worst = (_by_each(rows, "bytes", order) for order in LABELS)
    drawn = _by_each(others, "bytes", "best")
    subscriptions = f"{listed(rows.distinct('subscriptions'))} subscriptions"
    return [
        trend(
            "000-13",
            "bytes of stamps are quite low when the topic order follows popularity",
            holds=max(best) <= 250 and all(10 * a <= b for a, b in zip(best, worst, strict=True)),
            measured=f"{subscriptions}: best case {listed(best)}, worst case {listed(worst)} bytes",
            rule="at most 250 bytes, and less than a tenth of the worst case everywhere",
        ),
        trend(
            "000-13",
            "they are then not affected by the number of subscriptions",
            holds=best[-1] - best[0] <= 0.05 * (uniform[-1] - uniform[0]),
            measured=f"{subscriptions}: {listed(best)} bytes; uniform {listed(uniform)}; "
            f"best case if a topic drawn twice counts twice: {listed(drawn)}",
            rule="while subscriptions grow twentyfold, it adds less than 5 % of what the uniform model adds",
            differs="the more topics a node holds, the more rare topics conflict with popular ones",
        ),
    ]


def _judge_14(rows: Rows) -> list[Claim]:
    best, uniform, worst = (_by_each(rows, "overhead", order) for order in LABELS)
    each = _by_each(rows, "overhead_of_a_manager", "best")
    return [
        trend(
            "000-14",
            "message overhead is lower when the topic order follows popularity",
            holds=all(a < b for a, b in zip(best, worst, strict=True)),
            measured=f"best case {_percent(best)}, uniform {_percent(uniform)}, worst case {_percent(worst)}",
            rule="lower than with popular topics at the bottom, at every number of subscriptions; all managers together",
        ),
        trend(
            "000-14",
            "it is then quite low",
            holds=max(best) <= 0.5,
            measured=f"best case {_percent(best)} of processed messages; mean over managers {_percent(each)}",
            rule="at most half of the messages are for events of others",
            differs="a chain of n managers makes it 1 - 1/n: the paper's own 100 bytes are 4.2 entries, or 76 %",
        ),
        trend(
            "000-14",
            "it is then not affected by the number of subscriptions",
            holds=best[-1] - best[0] <= 0.2,
            measured=f"best case {_percent(best)}",
            rule="at most 20 points more while subscriptions grow twentyfold; over all managers together",
        ),
    ]


def _beaten(rows: Rows) -> list[Claim]:
    most = rows.distinct("subscriptions")[-1]
    worst, planned = (rows.mean("bytes", subscriptions=most, order=order) for order in ("worst", "planned"))
    return [
        beaten(
            f"bytes of a stamp, popular topics at the bottom of the order, {most:g} subscriptions: ranks planned "
            "from rates, whatever the order was",
            paper=worst,
            ours=planned,
            rule="less is better; managers that are together send no messages for stamps at all",
        )
    ]


def _percent(values: list[float]) -> str:
    return ", ".join(f"{100 * value:.0f}" for value in values) + " %"


def plots(tables: Tables) -> list[Plot]:
    """Figures 13 and 14, planned ranks beside them."""
    rows = tables["overhead"]
    each = [float(value) for value in rows.distinct("subscriptions")]

    def curve(label: str, figure: str, order: str, scale: float) -> Curve:
        spread = [scale * rows.deviation(figure, subscriptions=n, order=order) for n in each]
        values = [scale * value for value in _by_each(rows, figure, order)]
        return Curve(label, each, values, spread, is_ours=order == "planned")

    labels = {**LABELS, "planned": "worst case, planned ranks"}
    sizes = [curve(label, "bytes", order, 1) for order, label in labels.items()]
    messages = [curve(label, "overhead", order, 100) for order, label in labels.items()]
    return [
        Plot(
            "000-13",
            "Bandwidth overhead of stamps",
            "subscriptions of a node",
            "size of a stamp (bytes)",
            sizes,
            is_log_y=True,
        ),
        Plot(
            "000-14",
            "Message overhead",
            "subscriptions of a node",
            "processed for others (% of messages)",
            messages,
        ),
    ]


FAMILY = Family("overhead", ("000-13", "000-14"), sweeps, judge, plots)
