"""What a family of figures is: its sweeps, its claims, its curves; all plain data and functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from unisono.lab.experiments import Value
from unisono.lab.reproduce.claims import Claim
from unisono.lab.reproduce.rows import Rows

Profile: TypeAlias = Literal["quick", "full"]
Tables: TypeAlias = Mapping[str, Rows]  # by the name of the sweep
Tell: TypeAlias = Callable[[int, int], None]  # how much is done, and of how much


class Sweep(msgspec.Struct, frozen=True):
    """One sweep of a family, as the pipeline runs it."""

    name: str
    experiment: str
    grid: dict[str, tuple[Value, ...]]
    seeds: int
    seeds_per_cell: int = 1  # more where a run takes less than starting it


class Curve(msgspec.Struct, frozen=True):
    """One line of a plot; `is_ours` for what the paper does not have."""

    label: str
    x: list[float]
    y: list[float]
    deviation: list[float] = []
    is_ours: bool = False
    is_right: bool = False  # measured on the right


class Plot(msgspec.Struct, frozen=True):
    """A figure, before anybody draws it."""

    figure: str  # "000-9"
    title: str
    x: str
    y: str
    curves: list[Curve]
    is_log_x: bool = False
    is_log_y: bool = False
    is_bars: bool = False
    how: str = "simulated"
    right: str = ""  # what is measured on the right, if anything


SWEPT: Mapping[Profile, str] = {
    "quick": "quick profile: fewer events and runs than the paper; --full for its scale and at least 10 runs",
    "full": "full profile: the paper's scale, at least 10 runs for each point",
}
EXPLORED: Mapping[Profile, str] = {
    "quick": "quick profile: every interleaving of tiny worlds; --full for more and larger ones",
    "full": "full profile: every interleaving of more and larger worlds",
}


@dataclass(frozen=True, slots=True)
class Family:
    """Figures that share sweeps."""

    name: str
    figures: tuple[str, ...]
    sweeps: Callable[[Profile], list[Sweep]]
    judge: Callable[[Tables], list[Claim]]
    plots: Callable[[Tables], list[Plot]]
    # What is explored anew whenever the command runs, for these figures.
    examine: Callable[[Profile, Collection[str], Tell], list[Claim]] | None = None
    profiles: Mapping[Profile, str] = field(default_factory=lambda: SWEPT)  # what each means
