"""What "stored" means: where an event is when `publish` returns, and so what it survives.

    none         in the node that sequences: lost with it (MQTT, `store=local`, one process)
    memory       in the broker's memory: it survives nodes, not the broker
    disk         on the broker's disk: it survives the broker's process
    replicated   on the disks of several servers: it survives one of three

`docs/durability.md` says what each one survives in detail. The first node of a system decides, for good.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from unisono.model.errors import ConfigError

Durability: TypeAlias = Literal["none", "memory", "disk", "replicated"]
Wanted: TypeAlias = Literal["memory", "disk", "replicated"]

LEVELS: tuple[Durability, ...] = (
    "none",
    "memory",
    "disk",
    "replicated",
)  # each survives what those before do


def check_durability(level: object) -> Durability:
    """Return a level if it is one; else raise ConfigError."""
    if level not in LEVELS:
        raise ConfigError(f"durability={level!r}; it is one of {', '.join(LEVELS)}")
    return level


def suffices(offered: Durability, wanted: Durability) -> bool:
    """Whether what is offered survives all that what is wanted would."""
    return LEVELS.index(offered) >= LEVELS.index(wanted)
