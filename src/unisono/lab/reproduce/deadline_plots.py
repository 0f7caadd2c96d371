"""Paper 004, figure 6, ours beside; and what the baseline's window decides."""

from __future__ import annotations

from unisono.lab.reproduce.families import Curve, Plot, Tables
from unisono.lab.reproduce.rows import Rows

PARTS = {0.2: "a", 0.3: "b", 0.4: "c", 0.5: "d"}  # of figure 6: the share that sleeps
LABELS = {"paper": "brokers and gossip", "members": "all members"}
OURS = {"ours": "ours"}


def plots(tables: Tables) -> list[Plot]:
    """Figure 6 (a) to (d), throughput against sleepers, and the baseline with other windows."""
    asleep, windows = tables["asleep"], tables["windows"]
    largest = int(max(asleep.distinct("members")))
    return [
        *(
            Plot(
                f"004-6{part}",
                f"Throughput at healthy members, {share:.0%} asleep in each round",
                "members",
                "events/s at a healthy member",
                [_by_members(asleep, name, label, share) for name, label in (LABELS | OURS).items()],
            )
            for share, part in PARTS.items()
        ),
        Plot(
            "004-asleep",
            f"Throughput, {largest} members",
            "share of the members asleep in each round",
            "events/s at a member",
            [
                _by_share(asleep, name, figure, label + whom)
                for name, label in (LABELS | OURS).items()
                for figure, whom in (("throughput_s", ""), ("throughput_others_s", ", who sleeps"))
            ],
        ),
        Plot(
            "004-windows",
            f"All members, {largest} of them: what the window of publishers decides",
            "share of the members asleep in each round",
            "events/s at a healthy member",
            [
                _by_share(windows, name, "throughput_s", f"{int(window)} unacknowledged{how}", window=window)
                for window in windows.distinct("window")
                for name, how in (("members", ""), ("members, kindly", ", given up at the deadline"))
            ],
        ),
    ]


def _by_members(rows: Rows, protocol: str, label: str, asleep: float) -> Curve:
    at = rows.distinct("members")
    wanted = [{"protocol": protocol, "members": n, "asleep": asleep} for n in at]
    values = [rows.mean("throughput_s", **where) for where in wanted]
    spread = [rows.deviation("throughput_s", **where) for where in wanted]
    return Curve(label, [float(n) for n in at], values, spread, is_ours=protocol == "ours")


def _by_share(rows: Rows, protocol: str, figure: str, label: str, **where: object) -> Curve:
    at = rows.distinct("asleep")
    most = max(rows.distinct("members"))
    wanted = [{"protocol": protocol, "members": most, "asleep": share} | where for share in at]
    values = [rows.mean(figure, **one) for one in wanted]
    spread = [rows.deviation(figure, **one) for one in wanted]
    return Curve(label, at, values, spread, is_ours=protocol == "ours")
