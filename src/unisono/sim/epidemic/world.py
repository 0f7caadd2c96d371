"""A world of dispatchers as data: who is there, what happens to them, and how badly the network treats them."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from unisono.engines.epidemic.patterns import Value
from unisono.engines.epidemic.settings import DispatcherSettings, TreeSettings
from unisono.sim.network import Conditions


class Publishes(msgspec.Struct, frozen=True, tag=True):
    """A client of a dispatcher publishes."""

    at: float
    dispatcher: str
    attributes: dict[str, Value]
    payload: bytes = b""


class Subscribes(msgspec.Struct, frozen=True, tag=True):
    """A client subscribes, or no longer."""

    at: float
    dispatcher: str
    client: str
    pattern: str
    is_wanted: bool = True


class Crashes(msgspec.Struct, frozen=True, tag=True):
    """A dispatcher forgets everything, and is back a while later."""

    at: float
    dispatcher: str
    back_at: float


class Rewires(msgspec.Struct, frozen=True, tag=True):
    """A link of the tree goes, and another one joins the two parts."""

    at: float


Act: TypeAlias = Publishes | Subscribes | Crashes | Rewires


class EpidemicWorld(msgspec.Struct, frozen=True):
    """Everything that a seed decides; the tree is given, or kept by the dispatchers themselves."""

    seed: int
    dispatchers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    script: tuple[Act, ...]
    heal_at: float
    settings: DispatcherSettings = DispatcherSettings()
    conditions: Conditions = Conditions()
    tree: TreeSettings | None = None
    notice_s: float = 0.3  # until neighbours of a crashed dispatcher are told, where the tree is given
    leaves: dict[
        str, tuple[str, ...]
    ] = {}  # where the tree is kept: who hangs on one of these, the first that answers
    degree_max: int = 4

    @property
    def is_complete(self) -> bool:
        """Whether all that can be recovered must be: pulls alone never hear of some losses."""
        return self.settings.algorithm in ("combined", "push")

    def traits(self) -> list[str]:
        """What is special about it."""
        s = self.settings
        facts = {
            s.algorithm.replace("_", " "): True,
            "adaptive": s.adaptive,
            "immediate": s.immediate,
            "loss": self.conditions.loss > 0,
            "duplication": self.conditions.duplication > 0,
            "small cache": s.cache_events_max < 50,
            "small bounds": s.lost_max < 50,
            "covering": s.covering,
            "kept tree": self.tree is not None,
            "few known": self.tree is not None and self.tree.candidates_max < len(self.dispatchers),
            "leaves": bool(self.leaves),
            f"cache {s.cache_policy.replace('_', ' ')}": True,
            "crashes": any(isinstance(act, Crashes) for act in self.script),
            "reconfiguration": any(isinstance(act, Rewires) for act in self.script),
            "subscription churn": any(isinstance(a, Subscribes) and a.at > 0 for a in self.script),
        }
        return [name for name, holds in facts.items() if holds]
