"""The rows of a sweep, as judges and plots ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from unisono.model.errors import UnisonoError


class Rows:
    """Every run of a sweep: parameters and figures by name."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = list(rows)

    def values(self, figure: str, **where: Any) -> list[float]:
        """The figure of each run with these parameters; there is at least one."""
        found = [
            float(row[figure]) for row in self.rows if all(row[key] == value for key, value in where.items())
        ]
        if not found:
            raise UnisonoError(f"the sweep has no run with {where}; remove its folder and run it again")
        return found

    def mean(self, figure: str, **where: Any) -> float:
        """The mean over the runs with these parameters."""
        return fmean(self.values(figure, **where))

    def deviation(self, figure: str, **where: Any) -> float:
        """The standard deviation between runs; zero if there is only one."""
        values = self.values(figure, **where)
        return stdev(values) if len(values) > 1 else 0.0

    def distinct(self, parameter: str) -> list[Any]:
        """The values a parameter takes, in order."""
        return sorted({row[parameter] for row in self.rows})
