"""Plots as files: PNG to look at, SVG to print, JSON with their points and deviations. What is ours is dashed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from unisono.lab.reproduce.families import Curve, Plot
from unisono.model.errors import ConfigError


def draw(plot: Plot, folder: Path) -> list[Path]:
    """Draw a figure; returns the files."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError("figures need matplotlib; install it with: pip install 'unisono[lab]'") from None
    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    axes = figure.add_subplot()
    if plot.is_bars:
        _draw_bars(axes, plot.curves)
    else:
        for curve in plot.curves:
            _draw_curve(axes, curve)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    if plot.is_log_x:
        axes.set_xscale("log")
    if plot.is_log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(f"{plot.title} (paper {plot.figure.replace('-', ', figure ')}; {plot.how})", fontsize=10)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(alpha=0.3)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{plot.figure}.{kind}" for kind in ("png", "svg")]
    for file in files:
        figure.savefig(file, dpi=140, metadata={"Date": None} if file.suffix == ".svg" else None)
    points = folder / f"{plot.figure}.json"
    points.write_bytes(msgspec.json.format(msgspec.json.encode(plot), indent=1))
    return [*files, points]


def _draw_curve(axes: object, curve: Curve) -> None:
    style = {"linestyle": "--" if curve.is_ours else "-", "marker": "." if len(curve.x) < 20 else ""}
    line = axes.plot(curve.x, curve.y, label=curve.label, linewidth=1.4, **style)[0]  # type: ignore[attr-defined]
    if curve.deviation and any(curve.deviation):
        low = [y - d for y, d in zip(curve.y, curve.deviation, strict=True)]
        high = [y + d for y, d in zip(curve.y, curve.deviation, strict=True)]
        axes.fill_between(curve.x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)  # type: ignore[attr-defined]


def _draw_bars(axes: object, curves: list[Curve]) -> None:
    labels = [curve.label for curve in curves]
    heights = [curve.y[0] for curve in curves]
    spread = [curve.deviation[0] if curve.deviation else 0.0 for curve in curves]
    colours = ["C1" if curve.is_ours else "C0" for curve in curves]
    axes.bar(labels, heights, yerr=spread, width=0.6, color=colours)  # type: ignore[attr-defined]
