"""The tables of docs/performance.md: `unisono bench scaling --json > out/scaling.json; python -m benchmarks.scaling.table out/scaling.json`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

NAMES = {
    "topics": "{} topics, 4 subscribers of all",
    "subscribers": "5 topics, {} subscribers of all",
    "subscription": "50 topics, 10 subscribers of {} each",
    "overlap pairs": "8 topics, 8 subscribers: 4 disjoint pairs of topics",
    "overlap all": "8 topics, 8 subscribers of all",
    "payload": "5 topics, 4 subscribers, {} B",
    "nodes": "{} nodes",
    "nodes-quota": "{} nodes, {quota:.0%} of a core each",
}
PROCESSES = ("publisher", "server", "nodes", "subscribers")
NODES = ("nodes", "nodes-quota")


def tables(result: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown."""
    costs = [f"{kind} µs" for kind in PROCESSES]
    yield _line(
        ["system", "events/s", "p50 / p99 ms", *costs, "events/frame", "bytes/event", "bytes/event alone"]
    )
    yield "|---|" + "---:|" * (len(costs) + 5)
    told: list[dict[str, Any]] = []
    for part, row in result["parts"].items():
        for key, point in row.items():
            if part not in NODES and point not in told:  # one system may be a point of several parts
                told.append(point)
                yield _line([_name(part, key, result), *_figures(point), *_sizes(point)])
    yield ""
    yield _line(["eight components", "events/s", *costs])
    yield "|---|" + "---:|" * (len(costs) + 1)
    for part in NODES:
        for key, point in result["parts"].get(part, {}).items():
            speed, _, *spent = _figures(point)
            yield _line([_name(part, key, result), speed, *spent])
    yield ""
    for what, kinds in result["laws"].items():
        laws = (f"{kind} {line['a']:g} + {line['b']:g} x" for kind, line in kinds.items())
        yield f"{what}: {'; '.join(laws)}"
    for part, ratio in result["two_nodes"].items():
        yield f"{part}: two are {ratio:.2f} times one"
    machine = result["machine"]
    yield (
        f"{machine['cores']} cores ({machine['cpu']}), {machine['system']}, Python {machine['python']}; "
        f"load {min(result['load'])} to {max(result['load'])}"
    )


def _name(part: str, key: str, result: dict[str, Any]) -> str:
    form = NAMES.get(f"{part} {key}") or NAMES[part]
    name = form.format(f"{int(key):,}" if key.isdigit() else key, quota=result["node_quota"])
    if key == "1":
        name = re.sub(r"\b1 (topic|subscriber|node)s\b", r"1 \1", name).removesuffix(" each")
    return name


def _figures(point: dict[str, Any]) -> list[str]:
    late = "-" if point["p50_ms"] is None else f"{point['p50_ms']:.2f} / {point['p99_ms']:.1f}"
    speed = "-" if point["events_s"] is None else f"{point['events_s']:,.0f}"
    spent = (point["cpu_us"][kind] for kind in PROCESSES)
    return [speed, late, *("-" if us is None else f"{us:.1f}" for us in spent)]


def _sizes(point: dict[str, Any]) -> list[str]:
    frames = "-" if not point["frames"] else f"{1 / point['frames']:,.0f}"
    return [
        frames,
        *("-" if size is None else f"{size:,.0f}" for size in (point["bytes_in"], point["slow_bytes_in"])),
    ]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(tables(msgspec.json.decode(Path(sys.argv[1]).read_bytes()))))
