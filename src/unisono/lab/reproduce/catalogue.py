"""Which figures there are, and which family has each; what cannot be run yet is named too."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.lab.reproduce.claims import Claim, not_testable
from unisono.lab.reproduce.families import Family
from unisono.model.errors import ConfigError

NOT_BUILT = {
    "000-22": "real processes: latency against 1 to 10 nodes quickly reaches a stable point",
    "000-23": "real processes: the percentage of notifications in a second falls with the event rate",
    "000-24": "real processes: close to JGroups at low rates, better at high ones",
}


class Chosen(msgspec.Struct, frozen=True):
    """What a run was asked for."""

    figures: tuple[str, ...]
    families: tuple[Family, ...]
    missing: tuple[Claim, ...]  # what was asked for and is not built yet


def families() -> tuple[Family, ...]:
    """All families; numpy is needed from here on."""
    try:
        from unisono.lab.reproduce import buffers, dynamic_claims, latency, lemmas, overhead, sequences
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the reproductions need {error.name}; install it with: pip install 'unisono[lab]'"
        ) from None
    modules = (latency, overhead, buffers, dynamic_claims, sequences, lemmas)
    return tuple(module.FAMILY for module in modules)


def choose(names: Sequence[str]) -> Chosen:
    """The figures of these names: a paper ('000'), or a figure of one ('000-9'); without names, everything."""
    there = families()
    figures = [figure for family in there for figure in family.figures]
    known = [*figures, *NOT_BUILT]
    chosen: list[str] = []
    for name in names or ("000", "001"):
        found = [figure for figure in known if figure == name or figure.startswith(name + "-")]
        if not found:
            raise ConfigError(
                f"'{name}' is no paper or figure we know; there are: 000, 001, {', '.join(known)}"
            )
        chosen.extend(figure for figure in found if figure not in chosen)
    return Chosen(
        figures=tuple(chosen),
        families=tuple(family for family in there if set(family.figures) & set(chosen)),
        missing=tuple(not_testable(name, NOT_BUILT[name]) for name in chosen if name in NOT_BUILT),
    )
