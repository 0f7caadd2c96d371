"""Which figures there are, and which family has each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.lab.reproduce.families import Family
from unisono.model.errors import ConfigError

PAPERS = ("000", "001", "002", "003", "004")


class Chosen(msgspec.Struct, frozen=True):
    """What a run was asked for."""

    figures: tuple[str, ...]
    families: tuple[Family, ...]


def families() -> tuple[Family, ...]:
    """All families; numpy is needed from here on."""
    try:
        from unisono.lab.reproduce import (
            atom_claims,
            buffers,
            deadline_claims,
            dynamic_claims,
            gossip_claims,
            latency,
            lemmas,
            overhead,
            prototype_claims,
            sequences,
        )
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the reproductions need {error.name}; install it with: pip install 'unisono[lab]'"
        ) from None
    modules = (
        *(latency, overhead, buffers, dynamic_claims, sequences, prototype_claims),
        *(lemmas, gossip_claims, atom_claims, deadline_claims),
    )
    return tuple(module.FAMILY for module in modules)


def choose(names: Sequence[str]) -> Chosen:
    """The figures of these names: a paper ('000'), or a figure of one ('000-9'); without names, everything."""
    there = families()
    known = [figure for family in there for figure in family.figures]
    chosen: list[str] = []
    for name in names or PAPERS:
        found = [figure for figure in known if figure == name or figure.startswith(name + "-")]
        if not found:
            raise ConfigError(
                f"'{name}' is no paper or figure we know; there are: {', '.join((*PAPERS, *known))}"
            )
        chosen.extend(figure for figure in found if figure not in chosen)
    return Chosen(
        figures=tuple(chosen),
        families=tuple(family for family in there if set(family.figures) & set(chosen)),
    )
