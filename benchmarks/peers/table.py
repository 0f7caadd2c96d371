"""The tables of docs/performance.md: `unisono bench peers --json > out/peers.json; python -m benchmarks.peers.table out/peers.json`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


def tables(result: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown."""
    by_subscribers, by_rate = list(result["A"]), list(result["B"])
    columns = [f"A, {n}" for n in by_subscribers] + [f"B, {rate}/s" for rate in by_rate]
    yield _line(["peer", *columns, "C: one order"])
    yield "|---|" + "---:|" * (len(columns) + 1)
    for peer in result["versions"]:
        speeds = [_speed(result["A"][n].get(peer)) for n in by_subscribers]
        latencies = [_latency(result["B"][rate].get(peer)) for rate in by_rate]
        orders = result["C"].get(peer)
        yield _line(
            [peer, *speeds, *latencies, f"{orders['one_order']} of {orders['runs']}" if orders else "-"]
        )
    yield ""
    yield _line(["ratio", "is", "target"])
    yield "|---|---:|---|"
    for ratio in result["ratios"]:
        missed = "" if ratio["held"] else ", missed"
        yield _line([ratio["what"], f"{ratio['ratio']:.2f}", ratio["target"] + missed])
    yield ""
    machine = result["machine"]
    yield (
        f"{machine['cores']} cores ({machine['cpu']}), {machine['system']}, Python {machine['python']}; "
        + "; ".join(dict.fromkeys(result["versions"].values()))
    )


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _speed(events_s: float | None) -> str:
    return "-" if events_s is None else f"{events_s:,}"


def _latency(late: dict[str, float] | None) -> str:
    return "-" if late is None else f"{late['p50_ms']:.2f} / {late['p99_ms']:.2f}"


if __name__ == "__main__":
    print("\n".join(tables(msgspec.json.decode(Path(sys.argv[1]).read_bytes()))))
