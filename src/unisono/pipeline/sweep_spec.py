"""What a sweep runs, read from TOML; whatever is wrong with it is one line that names the key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from unisono.lab.experiments import Value, find_experiment
from unisono.model.errors import ConfigError

KEYS = ("experiment", "name", "seeds", "seed_from", "repeats", "seeds_per_cell", "grid")
RUNS_MAX = 10_000_000


class Cell(msgspec.Struct, frozen=True):
    """One task: a point of the grid and a stretch of seeds, each run `repeats` times."""

    key: str  # the same for the same work, so that finished work is recognised
    parameters: dict[str, Value]
    seed_from: int
    seeds: int
    repeats: int

    @property
    def runs(self) -> int:
        """How many simulations it is."""
        return self.seeds * self.repeats


class Spec(msgspec.Struct, frozen=True):
    """An experiment, its grid, and which seeds each point of the grid is run with."""

    name: str
    experiment: str
    grid: dict[str, tuple[Value, ...]]
    seeds: int
    seed_from: int = 0
    repeats: int = 1
    seeds_per_cell: int = 25

    def cells(self) -> list[Cell]:
        """All the work, point by point."""
        cells = []
        for values in product(*self.grid.values()):
            parameters = dict(zip(self.grid, values, strict=True))
            for first in range(self.seed_from, self.seed_from + self.seeds, self.seeds_per_cell):
                count = min(self.seeds_per_cell, self.seed_from + self.seeds - first)
                cells.append(self._cell(parameters, first, count))
        return cells

    def _cell(self, parameters: dict[str, Value], first: int, count: int) -> Cell:
        identity = msgspec.json.encode(
            (self.experiment, sorted(parameters.items()), first, count, self.repeats)
        )
        key = blake2b(identity, digest_size=10).hexdigest()
        return Cell(key, parameters, first, count, self.repeats)


def load_spec(path: Path) -> Spec:
    """The sweep in a TOML file."""
    try:
        data = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        return make_spec(data, path.stem)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def make_spec(data: Mapping[str, Any], name: str = "sweep") -> Spec:
    """The sweep that this data describes; raises ConfigError naming the first key that is wrong."""
    for key in data:
        if key not in KEYS:
            raise ConfigError(f"'{key}' is not a key of a sweep; the keys are {', '.join(KEYS)}")
    for key in ("experiment", "seeds", "grid"):
        if key not in data:
            raise ConfigError(f"'{key}' is missing")
    for key in ("experiment", "name"):
        if key in data and (not isinstance(data[key], str) or not data[key]):
            raise ConfigError(f"'{key}' is a word, not {data[key]!r}")
    spec = Spec(
        name=data.get("name", name),
        experiment=data["experiment"],
        grid=_grid(data["grid"], data["experiment"]),
        seeds=_count(data, "seeds", 1),
        seed_from=_count(data, "seed_from", 0, 0),
        repeats=_count(data, "repeats", 1, 1),
        seeds_per_cell=_count(data, "seeds_per_cell", 1, 25),
    )
    points = 1
    for values in spec.grid.values():
        points *= len(values)
    if (runs := points * spec.seeds * spec.repeats) > RUNS_MAX:
        raise ConfigError(f"'grid' with 'seeds' and 'repeats' makes {runs:,} runs; the limit is {RUNS_MAX:,}")
    return spec


def _count(data: Mapping[str, Any], key: str, least: int, otherwise: int | None = None) -> int:
    value = data.get(key, otherwise)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"'{key}' is a whole number, not {value!r}")
    if value < least:
        raise ConfigError(f"'{key}' is at least {least}, not {value}")
    return value


def _grid(data: Any, experiment: str) -> dict[str, tuple[Value, ...]]:
    known = find_experiment(experiment).parameters
    if not isinstance(data, dict) or not data:
        raise ConfigError("'grid' is empty; give at least one parameter with its values")
    grid: dict[str, tuple[Value, ...]] = {}
    for name, given in data.items():
        if name not in known:
            raise ConfigError(
                f"'grid.{name}' is not a parameter of '{experiment}'; there are: {', '.join(known)}"
            )
        values = given if isinstance(given, list) else [given]
        if not values:
            raise ConfigError(f"'grid.{name}' has no values")
        grid[name] = tuple(known[name].check(f"'grid.{name}'", value) for value in values)
        if len(set(grid[name])) != len(values):
            raise ConfigError(f"'grid.{name}' has a value twice")
    return grid
