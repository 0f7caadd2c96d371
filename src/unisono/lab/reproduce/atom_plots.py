"""Paper 003, figures 3 to 8, ours beside each."""

from __future__ import annotations

from unisono.lab.reproduce.experiments import DECILES, QUANTILES
from unisono.lab.reproduce.families import Curve, Plot, Tables
from unisono.lab.reproduce.rows import Rows

GROUPS = (8, 16, 32, 64)
LABELS = {"paper": "the paper's", "ours": "ours"}
SPREAD = {"spread": "ours, nothing put together"}
SHARES = [i / (QUANTILES - 1) for i in range(QUANTILES)]


def plots(tables: Tables) -> list[Plot]:
    """Figures 3 to 8, ours beside each."""
    nodes, occupancy = tables["nodes"], tables["occupancy"]
    return [
        Plot(
            "003-3",
            "Latency stretch, 128 hosts",
            "latency stretch of a destination",
            "share of destinations",
            [_distribution(tables["stretch"], name, groups) for name in LABELS for groups in GROUPS],
        ),
        Plot(
            "003-4",
            "Relative delay penalty, 128 hosts, 64 groups",
            "unicast delay (ms), tenths of all pairs",
            "sequenced delay by unicast delay",
            [_penalties(tables["stretch"], name) for name in LABELS],
            is_log_y=True,
        ),
        Plot(
            "003-5",
            "Sequencing nodes, 128 hosts",
            "groups",
            "nodes with atoms",
            [_counted(nodes, f"{name}_nodes", label) for name, label in (LABELS | SPREAD).items()],
        ),
        Plot(
            "003-6",
            "Stress of sequencing nodes, 128 hosts",
            "groups",
            "groups of a node by all groups",
            [
                _counted(nodes, "paper_stress", "average"),
                _counted(nodes, "paper_stress_p90", "90th percentile"),
                _counted(nodes, "paper_stress_max", "maximum"),
                _counted(nodes, "paper_passing", "average, transit included"),
                _counted(nodes, "ours_stress", "ours, average"),
                _counted(nodes, "spread_stress", "ours, nothing put together, average"),
            ],
        ),
        Plot(
            "003-7",
            "Atoms on a path, 128 hosts (the same for ours)",
            "atoms of a group by hosts",
            "share of groups",
            [_path_lengths(nodes, groups) for groups in GROUPS],
        ),
        Plot(
            "003-8",
            "Occupancy, 128 hosts, 32 groups",
            "probability that a host is in a group",
            "number",
            [
                _by_occupancy(occupancy, "atoms", "double overlaps"),
                _by_occupancy(occupancy, "paper_nodes", "sequencing nodes"),
                _by_occupancy(occupancy, "ours_nodes", "ours, sequencing nodes"),
            ],
        ),
    ]


def _distribution(rows: Rows, name: str, groups: int) -> Curve:
    values = [rows.mean(f"{name}_stretch_{i:02}", groups=groups) for i in range(QUANTILES)]
    return Curve(f"{LABELS[name]}, {groups} groups", values, SHARES, is_ours=name == "ours")


def _path_lengths(rows: Rows, groups: int) -> Curve:
    values = [rows.mean(f"atoms_on_path_{i:02}", groups=groups) for i in range(QUANTILES)]
    return Curve(f"{groups} groups", values, SHARES)


def _penalties(rows: Rows, name: str) -> Curve:
    at = [rows.mean(f"unicast_ms_{i}", groups=64) for i in range(DECILES)]
    values = [rows.mean(f"{name}_penalty_{i}", groups=64) for i in range(DECILES)]
    return Curve(LABELS[name], at, values, is_ours=name == "ours")


def _counted(rows: Rows, figure: str, label: str) -> Curve:
    at = [groups for groups in rows.distinct("groups") if groups > 1]  # one group has no atom, and no node
    values = [rows.mean(figure, groups=groups) for groups in at]
    spread = [rows.deviation(figure, groups=groups) for groups in at]
    is_ours = not figure.startswith("paper")
    return Curve(label, [float(groups) for groups in at], values, spread, is_ours=is_ours)


def _by_occupancy(rows: Rows, figure: str, label: str) -> Curve:
    at = rows.distinct("occupancy")
    values = [rows.mean(figure, occupancy=p) for p in at]
    spread = [rows.deviation(figure, occupancy=p) for p in at]
    return Curve(label, at, values, spread, is_ours=figure.startswith("ours"))
