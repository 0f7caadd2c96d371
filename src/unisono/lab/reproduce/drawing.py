"""Plots as files: PNG to look at, SVG to print, JSON with their points and deviations. What is ours is dashed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
        right = axes.twinx() if plot.right else None
        for place, curve in enumerate(plot.curves):
            width = 4.0 if any(_hides(later, curve) for later in plot.curves[place + 1 :]) else 1.5
            _draw_curve(right if curve.is_right else axes, curve, f"C{place}", width)
        if right is not None:
            right.set_ylabel(plot.right)
            right.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    if plot.is_log_x:
        axes.set_xscale("log")
        _number(axes.xaxis)
    if plot.is_log_y:
        axes.set_yscale("log")
        _number(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    figure.suptitle(f"{plot.title} (paper {_place(plot)}; {plot.how})", fontsize=10)
    axes.set_title(_key(plot), fontsize=8, color="0.35")
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


def _place(plot: Plot) -> str:
    """Where in the paper it is: a figure by its number, or what the text speaks of."""
    paper, _, part = plot.figure.partition("-")
    return f"{paper}, figure {part}" if part[:1].isdigit() else paper


def _key(plot: Plot) -> str:
    """What lines and areas mean."""
    ours = "orange" if plot.is_bars else "dashed"
    said = [f"{ours}: ours"] if any(curve.is_ours for curve in plot.curves) else []
    if any(any(curve.deviation) for curve in plot.curves):
        said.append(f"{'black' if plot.is_bars else 'shaded'}: standard deviation between runs")
    return "; ".join(said)


def _number(axis: Any) -> None:
    """Plain numbers on a logarithmic axis: 1, 2, 5, 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _hides(later: Curve, curve: Curve) -> bool:
    """Whether a curve would not be seen below a later one."""
    if later.x != curve.x or later.is_right != curve.is_right:
        return False
    return sum(abs(a - b) for a, b in zip(later.y, curve.y, strict=True)) <= 0.03 * sum(map(abs, curve.y))


def _draw_curve(axes: Any, curve: Curve, colour: str, width: float) -> None:
    axes.plot(
        curve.x,
        curve.y,
        label=curve.label,
        linewidth=width,
        color=colour,
        linestyle="--" if curve.is_ours else "-",
        marker="." if len(curve.x) < 20 else "",
        clip_on=False,
    )
    if any(curve.deviation):
        low = [y - d for y, d in zip(curve.y, curve.deviation, strict=True)]
        high = [y + d for y, d in zip(curve.y, curve.deviation, strict=True)]
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.15, linewidth=0)


def _draw_bars(axes: Any, curves: list[Curve]) -> None:
    labels = [curve.label for curve in curves]
    heights = [curve.y[0] for curve in curves]
    spread = [curve.deviation[0] if curve.deviation else 0.0 for curve in curves]
    colours = ["C1" if curve.is_ours else "C0" for curve in curves]
    axes.bar(labels, heights, yerr=spread, width=0.6, color=colours)
