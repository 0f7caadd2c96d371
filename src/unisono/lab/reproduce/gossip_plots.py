"""Paper 002 has no curves of its own: delivery and overhead against what its text speaks of, ours beside them."""

from __future__ import annotations

from typing import Any

from unisono.lab.reproduce.families import Curve, Plot, Tables
from unisono.lab.reproduce.gossip_sweeps import LOSSY, SHOWN, THREE, by_rate, by_size
from unisono.lab.reproduce.rows import Rows

DELIVERED = "share of deliveries, in the end"
IN_TIME = "share of deliveries within a second"
OVERHEAD = "bytes of digests and requests by bytes of events"
SUBJECTS = ("loss", "interval", "cache", "patterns", "density", "reconfiguration")
OTHERS = ("bursts", "rate", "size", "convergence")


def plots(tables: Tables) -> list[Plot]:
    """Delivery and overhead against six things, and what else is said of them."""
    changes = Rows(
        [
            dict(row) | {"changes_s": 1 / row["rewire_s"] if row["rewire_s"] else 0.0}
            for row in tables["gossip-reconfiguration"].rows
        ]
    )
    loss = "share that each link loses"
    return [
        *_pair("loss", "Loss", loss, tables["gossip-loss"], "loss"),
        *_pair("interval", "Gossip interval", "seconds", tables["gossip-interval"], "gossip_s", is_log_x=True),
        *_pair("cache", "Cache size", "events in a cache", tables["gossip-cache"], "cache", is_log_x=True),
        *_pair("patterns", "Patterns", "patterns, 3 subscribers each", tables["gossip-patterns"], "patterns", is_log_x=True),
        *_pair("density", "Subscribers", "subscribers of a pattern", tables["gossip-density"], "subscribers", is_log_x=True),
        *_pair("reconfiguration", "Changes of the tree, no other loss", "changes a second", changes, "changes_s"),
        _plot("bursts", "Bursts of errors", "share of the time with errors", OVERHEAD, tables["gossip-bursts"], "lossy_share", "overhead"),
        _plot("rate", "Rate of publication", "events a second of a publisher", IN_TIME, by_rate(tables), "rate_s", "in_time", is_log_x=True),
        _plot("size", "Load", "dispatchers", "digests and requests of a dispatcher, a second", by_size(tables), "dispatchers", "gossip_each_s", is_log_x=True),
        _convergence(tables["gossip-convergence"]),
    ]  # fmt: skip


def _pair(part: str, title: str, x: str, rows: Rows, parameter: str, **more: Any) -> list[Plot]:
    return [
        _plot(part, f"{title}: delivery", x, DELIVERED, rows, parameter, "delivery", **more),
        _plot(f"{part}-overhead", f"{title}: overhead", x, OVERHEAD, rows, parameter, "overhead", **more),
    ]


def _plot(
    part: str, title: str, x: str, y: str, rows: Rows, parameter: str, figure: str, **more: Any
) -> Plot:
    there = rows.distinct("algorithm")
    names = [name for name in SHOWN if name in there and (name != "none" or figure == "delivery")]
    return Plot(f"002-{part}", title, x, y, [_curve(rows, name, parameter, figure) for name in names], **more)


def _curve(rows: Rows, algorithm: str, parameter: str, figure: str) -> Curve:
    at = rows.distinct(parameter)
    points = [{"algorithm": algorithm, parameter: value} for value in at]
    return Curve(
        algorithm if algorithm != "none" else "bare tree",
        [float(value) for value in at],
        [rows.mean(figure, **point) for point in points],
        [rows.deviation(figure, **point) for point in points],
        is_ours=algorithm == "ours",
    )


def rounds_to_mend(rows: Rows, algorithm: str, loss: float) -> float:
    """Rounds that a dispatcher which missed the event waits for it, on average over all of them."""
    missed = sum(rows.values("missed", algorithm=algorithm, loss=loss))
    return sum(rows.values("rounds_sum", algorithm=algorithm, loss=loss)) / max(1.0, missed)


def _convergence(rows: Rows) -> Plot:
    curves = []
    for name in (name for name in LOSSY if name in (*THREE, "ours")):
        losses = sorted(rows.distinct("loss"), reverse=True)
        had = [rows.mean("had", algorithm=name, loss=loss) for loss in losses]
        mended = [rounds_to_mend(rows, name, loss) for loss in losses]
        curves.append(Curve(name, had, mended, is_ours=name == "ours"))
    return Plot(
        "002-convergence",
        "One event that some have missed",
        "share of dispatchers that have it",
        "rounds until the others have it, on average",
        curves,
    )
