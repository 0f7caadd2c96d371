"""What runs beside peers come to: medians, ratios, and which targets were missed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from unisono.cli.bench_peers_runs import Run

OURS = ("unisono", "unisono-durable")
ONE_ORDER_IN_PYTHON = ("jetstream", "redis-streams")  # one by one, by Python clients, in one order
JUDGED_SUBSCRIBERS = ("4", "10")
JUDGED_RATE = "1000"

Figures = dict[str, Any]


def figures(runs: Sequence[Run]) -> Figures:
    """The contract: medians by workload, condition and peer; of C how many runs had one order."""
    result: Figures = {"A": {}, "B": {}, "C": {}, "one_order": {"A": {}, "B": {}}, "faults": []}
    for peer, workload, key in dict.fromkeys((run.peer, run.cell.workload, run.cell.key) for run in runs):
        mine = [r for r in runs if (r.peer, r.cell.workload, r.cell.key) == (peer, workload, key)]
        orders = {"runs": len(mine), "one_order": sum(run.one_order for run in mine)}
        if workload == "C":
            result["C"][peer] = orders
        else:
            result["one_order"][workload].setdefault(key, {})[peer] = orders
        if workload == "A" and (speed := _median(run.events_s for run in mine)) is not None:
            result["A"].setdefault(key, {})[peer] = round(speed)
        if workload == "B" and (p50 := _median(run.p50_ms for run in mine)) is not None:
            p99 = _median(run.p99_ms for run in mine)
            result["B"].setdefault(key, {})[peer] = {"p50_ms": round(p50, 3), "p99_ms": round(p99 or p50, 3)}
        result["faults"] += [
            {"peer": peer, "workload": workload, "key": key, "what": fault}
            for run in mine
            for fault in run.faults
        ]
    return result


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


def compare(result: Figures) -> tuple[list[Figures], list[str]]:
    """Every ratio that has a target, and the missed targets in words."""
    ratios, missed = [], []
    for ours, theirs, where, ratio, bound, at_most in _ratios(result):
        held = ratio <= bound if at_most else ratio >= bound
        ratios.append(
            {
                "what": f"{ours} / {theirs}, {where}",
                "ratio": round(ratio, 3),
                "target": f"{'at most' if at_most else 'at least'} {bound:g}",
                "held": held,
            }
        )
        if not held:
            missed.append(
                f"{where}: {ours} at {ratio:.2f} of {theirs}, "
                f"target {'at most' if at_most else 'at least'} {bound:g}"
            )
    return ratios, missed + _broken(result)


Ratio = tuple[str, str, str, float, float, bool]  # ours, theirs, where, the ratio, its bound, is it a most


def _ratios(result: Figures) -> Iterable[Ratio]:
    for key in JUDGED_SUBSCRIBERS:
        speeds, where = result["A"].get(key, {}), f"events/s at {key} subscribers"
        rivals = [peer for peer in ONE_ORDER_IN_PYTHON if peer in speeds]
        targets = [("unisono", "jetstream", 3.0)]
        if rivals:
            targets.append(("unisono", max(rivals, key=speeds.__getitem__), 1.25))
        if key == "4":
            targets.append(("unisono", "corosync-cpg", 1.0))
        targets += [("unisono-durable", "jetstream", 2.0), ("unisono-durable", "jetstream-batched", 0.8)]
        for ours, theirs, least in targets:
            if ours in speeds and theirs in speeds:
                yield ours, theirs, where, speeds[ours] / speeds[theirs], least, False
    latencies = result["B"].get(JUDGED_RATE, {})
    for ours, most in (("unisono", 1.25), ("unisono-durable", 2.0)):
        for quantile in ("p50_ms", "p99_ms"):
            if ours in latencies and "jetstream" in latencies:
                ratio = latencies[ours][quantile] / latencies["jetstream"][quantile]
                yield ours, "jetstream", f"{quantile[:3]} at {JUDGED_RATE} events/s", ratio, most, True


def _broken(result: Figures) -> list[str]:
    """Runs of ours without one order, and whatever else went wrong in them."""
    cells = [("C", "", result["C"])]
    cells += [(name, key, cell) for name in "AB" for key, cell in result["one_order"][name].items()]
    words = [
        f"{peer} had one order in {cell[peer]['one_order']} of {cell[peer]['runs']} runs of {name} {key}".strip()
        for name, key, cell in cells
        for peer in OURS
        if peer in cell and cell[peer]["one_order"] < cell[peer]["runs"]
    ]
    return words + [
        f"{fault['peer']} in {fault['workload']} {fault['key']}: {fault['what']}"
        for fault in result["faults"]
        if fault["peer"] in OURS
    ]
