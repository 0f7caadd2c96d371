"""Numbers to shapes: where on a track a value lies, how dark a cell is, how a figure is written for people.

Bars and tracks are plain HTML, so that their text keeps its size on a phone; the heat map is SVG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from unisono.pipeline.report.facts import Bucket, Overlaps

CELL = 22
LABEL_CHARACTERS_MAX = 22
CHARACTER = 6.6  # width of one at 11 px


def duration(ms: float | None) -> str:
    """A time in the unit people would use, with about three digits."""
    if ms is None:
        return "–"
    size, unit = next(
        (s, u) for s, u in ((1e-3, "µs"), (1.0, "ms"), (1e3, "s")) if ms / s < 999.5 or u == "s"
    )
    value = ms / size
    digits = 0 if value >= 99.5 or value == round(value) else 1 if value >= 9.95 else 2
    return f"{value:,.{digits}f} {unit}"


def count(value: float) -> str:
    """A number with thousands apart; short when it is large."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{int(value):,}"


def share(value: float, of: float) -> float:
    """Percent of a whole, 0 when there is none."""
    return round(100 * value / of, 3) if of else 0.0


class LogScale:
    """Where on a track from 0 to 100 % a positive value lies; each decade is as wide as the next."""

    def __init__(self, values: Sequence[float], least: float = 0.001) -> None:
        known = [max(value, least) for value in values] or [1.0]
        self.low = math.floor(math.log10(min(known)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(known))))

    def place(self, value: float | None) -> float:
        """Percent from the left."""
        if value is None or value <= 0:
            return 0.0
        return round(min(100.0, max(0.0, 100 * (math.log10(value) - self.low) / (self.high - self.low))), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """The decades, not more than five of them."""
        step = max(1, math.ceil((self.high - self.low) / 4))
        return [(self.place(10.0**e), duration(10.0**e)) for e in range(self.low, self.high + 1, step)]


def histogram_bars(buckets: Sequence[Bucket]) -> list[dict[str, object]]:
    """Heights in percent; every few bars have a label, so that labels never touch."""
    most = max((bucket.deliveries for bucket in buckets), default=0)
    every = max(1, math.ceil(len(buckets) / 5))
    return [
        {
            "height": max(share(bucket.deliveries, most), 0.8 if bucket.deliveries else 0),
            "label": duration(bucket.ms_from) if i % every == 0 else "",
            "title": f"{duration(bucket.ms_from)} to {duration(bucket.ms_to)}: {count(bucket.deliveries)} deliveries",
            "bucket": bucket,
        }
        for i, bucket in enumerate(buckets)
    ]


def heat_map(overlaps: Overlaps) -> str:
    """An SVG of who shares subscribers: the stronger the colour, the more; numbers are written where there is room."""
    names = [_short(topic) for topic in overlaps.topics]
    size = len(names)
    if not size:
        return ""
    cell = 34 if size <= 12 else CELL
    margin = round(max(map(len, names)) * CHARACTER) + 10
    side = margin + size * cell + 2
    most = max((overlaps.shared[i][j] for i in range(size) for j in range(size) if i != j), default=0)
    parts = [
        f'<svg class="heat" width="{side}" height="{side}" viewBox="0 0 {side} {side}" role="img" '
        f'aria-label="Heat map: how many subscriptions hold both of two topics; the table below has the numbers.">'
    ]
    for i, name in enumerate(names):
        middle = margin + i * cell + cell / 2
        parts.append(f'<text x="{margin - 6}" y="{middle + 4:g}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<text transform="translate({middle + 4:g} {margin - 6}) rotate(-90)">{escape(name)}</text>'
        )
        for j, shared in enumerate(overlaps.shared[i]):
            parts.append(_cell(overlaps, i, j, shared, most, margin, cell))
    parts.append("</svg>")
    return "".join(parts)


def _cell(overlaps: Overlaps, i: int, j: int, shared: int, most: int, margin: int, cell: int) -> str:
    x, y = margin + j * cell, margin + i * cell
    a, b = escape(overlaps.topics[i]), escape(overlaps.topics[j])
    if i == j:
        return (
            f'<rect class="own" x="{x}" y="{y}" width="{cell - 2}" height="{cell - 2}" rx="2">'
            f"<title>{a}: {shared} subscriptions</title></rect>"
        )
    depth = 0.06 + 0.84 * shared / most if shared and most else 0.0
    mark = (
        f'<rect class="pair" x="{x}" y="{y}" width="{cell - 2}" height="{cell - 2}" rx="2" '
        f'fill-opacity="{depth:.2f}"><title>{a} and {b}: {shared} subscriptions hold both</title></rect>'
    )
    if cell > CELL and shared and shared < 10_000:
        dark = " dark" if depth > 0.55 else ""
        mark += (
            f'<text class="number{dark}" x="{x + (cell - 2) / 2:g}" y="{y + cell / 2 + 3:g}" '
            f'text-anchor="middle">{shared}</text>'
        )
    return mark


def _short(name: str) -> str:
    return name if len(name) <= LABEL_CHARACTERS_MAX else "…" + name[1 - LABEL_CHARACTERS_MAX :]


def top_pairs(overlaps: Overlaps, most: int = 20) -> list[tuple[str, str, int]]:
    """The pairs that share the most, for the table beside the map."""
    names = overlaps.topics
    pairs = [
        (names[i], names[j], overlaps.shared[i][j])
        for i in range(len(names))
        for j in range(i + 1, len(names))
        if overlaps.shared[i][j]
    ]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))[:most]
