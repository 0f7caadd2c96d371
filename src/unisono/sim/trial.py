"""One seed, from its world to what is wrong with it."""

from __future__ import annotations

import msgspec

from unisono.history import Kind, Outcome, Record, judge
from unisono.sim.simulation import Ending, Simulation
from unisono.sim.world import SubscriberSpec, World, draw_world

SAFETY = (
    "no_creation",
    "no_duplication",
    "publisher_fifo",
    "total_notification_order",
    "acyclic_order",
    "causal_order",
    "tags",
)


class Trial(msgspec.Struct, frozen=True):
    """What a seed's world came to: broken promises, and what never happened though it should have."""

    seed: int
    violations: tuple[str, ...]
    stuck: tuple[str, ...]
    steps: int
    digest: str = ""
    traits: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations and not self.stuck


def try_seed(seed: int, *, traces: bool = False) -> Trial:
    """Draw the world of a seed, run it and judge it."""
    return try_world(draw_world(seed), traces=traces)


def try_world(world: World, *, traces: bool = False) -> Trial:
    """Run a world and judge it."""
    ending = Simulation(world, traces=traces).run()
    return Trial(
        world.seed,
        tuple(_violations(ending)),
        tuple(_stuck(world, ending)),
        ending.steps,
        ending.digest if traces else "",
        tuple(world.traits()),
    )


def _violations(ending: Ending) -> list[str]:
    return [*ending.faults, *_broken(ending.records, SAFETY)]


def _stuck(world: World, ending: Ending) -> list[str]:
    if ending.faults:
        return []  # it was stopped there and then: nothing can be said about the rest
    problems = [] if ending.is_quiet else ["still busy at the horizon"]
    if ending.unacknowledged:
        problems.append(f"{ending.unacknowledged} publications were never acknowledged")
    owed = {s.name for s in world.subscribers if world.is_owed_everything(s)}
    released = owed | {s.name for s in world.subscribers if _lets_go(s)}
    problems += _broken(_only(ending.records, owed), ("nothing_lost",))
    problems += _broken(_only(ending.records, released), ("no_endless_wait",))
    return problems


def _lets_go(subscriber: SubscriberSpec) -> bool:
    return subscriber.settings.max_hold is not None


def _broken(records: list[Record], promises: tuple[str, ...]) -> list[str]:
    verdicts = judge(records, promises)
    return [f"{v.promise}: {v.explanation}" for v in verdicts if v.outcome is Outcome.VIOLATED]


def _only(records: list[Record], subscribers: set[str]) -> list[Record]:
    """The history without the subscribers that are promised less."""
    about_all = (Kind.PUBLISHED, Kind.SEQUENCED, Kind.HEALED)
    return [r for r in records if r.kind in about_all or r.process in subscribers]
