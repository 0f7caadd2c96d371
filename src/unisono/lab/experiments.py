"""What a sweep can run: experiments by name, each a function from parameters and a seed to figures.

An experiment says which parameters it takes and within which bounds, so that a bad grid is refused before
anything runs. The same parameters and seed give the same figures, on any machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from unisono.engines.topic_managers.settings import ManagerSettings, OnGap, SubscriberSettings
from unisono.history import Kind, Record
from unisono.model.errors import ConfigError
from unisono.sim.simulation import Simulation
from unisono.sim.trial import try_world
from unisono.sim.world import SubscriberSpec, World, draw_world

Value: TypeAlias = float | int | str
Figures: TypeAlias = dict[str, float]

RING_EVENTS = 64


@dataclass(frozen=True, slots=True)
class Parameter:
    """What values a parameter takes: some words, or numbers between two bounds."""

    says: str
    words: tuple[str, ...] = ()
    least: float = 0.0
    most: float = 1.0
    whole: bool = False

    def check(self, name: str, value: object) -> Value:
        """The value, if it is one of those; else raise ConfigError with the parameter's name."""
        if self.words:
            if not isinstance(value, str) or value not in self.words:
                raise ConfigError(f"{name} is one of {', '.join(self.words)}, not {value!r}")
            return value
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            raise ConfigError(f"{name} is a {'whole ' if self.whole else ''}number, not {value!r}")
        assert isinstance(value, (int, float))
        if not self.least <= value <= self.most:
            raise ConfigError(f"{name} is between {self.least:g} and {self.most:g}, not {value!r}")
        return value if self.whole else float(value)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A name, what it takes, what it measures, and the function."""

    name: str
    says: str
    parameters: Mapping[str, Parameter]
    figures: tuple[str, ...]
    run: Callable[[Mapping[str, Value], int], Figures]


FUZZ_FIGURES = (
    "violations",
    "stuck",
    "steps",
    "published",
    "delivered",
    "tagged",
    "dropped",
    "lost",
    "held",
    "latency_ms_mean",
    "latency_ms_max",
    "stamp_entries_mean",
)


def run_fuzz_world(parameters: Mapping[str, Value], seed: int) -> Figures:
    """The world of a seed with some of its conditions replaced, run, judged and measured."""
    world = shape_world(draw_world(seed), parameters)
    trial = try_world(world)
    # Judging keeps no history. A seed decides everything, so a second run has the history of the first.
    ending = Simulation(world).run()
    if ending.steps != trial.steps:
        raise RuntimeError(f"seed {seed} took {trial.steps} steps, and {ending.steps} when run again")
    return {
        "violations": float(len(trial.violations)),
        "stuck": float(len(trial.stuck)),
        "steps": float(trial.steps),
        **_measure(ending.records),
    }


def shape_world(world: World, parameters: Mapping[str, Value]) -> World:
    """The world with these parameters in place of what its seed drew.

    Once notifications are lost, subscribers ask for them again: nobody is promised anything without that. They do not
    ask each other.
    """
    loss, duplication = parameters.get("loss"), parameters.get("duplication")
    changes: dict[str, object] = {}
    for network in ("packets", "notifications"):
        conditions = getattr(world, network)
        if loss is not None:
            conditions = msgspec.structs.replace(conditions, loss=float(loss))
        if duplication is not None:
            conditions = msgspec.structs.replace(conditions, duplication=float(duplication))
        changes[network] = conditions
    on_gap = parameters.get("on_gap")
    repairs = bool(loss) or any(s.settings.repair for s in world.subscribers)
    ring = max(world.managers.ring_events, RING_EVENTS) if repairs else world.managers.ring_events
    stamps = "full" if on_gap in ("wait", "fail") else world.managers.stamps
    managers: ManagerSettings = msgspec.structs.replace(world.managers, ring_events=ring, stamps=stamps)
    subscribers = tuple(_shape_subscriber(s, on_gap, bool(loss), managers) for s in world.subscribers)
    plan = parameters.get("plan", world.plan)
    changes |= {"managers": managers, "subscribers": subscribers, "plan": plan, "peers": False}
    return msgspec.structs.replace(world, **changes)


def _shape_subscriber(
    spec: SubscriberSpec, on_gap: Value | None, lossy: bool, managers: ManagerSettings
) -> SubscriberSpec:
    settings: SubscriberSettings = msgspec.structs.replace(
        spec.settings, repair=spec.settings.repair or lossy, stamps=managers.stamps
    )
    if on_gap is not None:
        gap: OnGap = next(g for g in ("wait", "tag", "skip", "fail") if g == on_gap)
        is_exact = gap in ("wait", "fail")
        settings = msgspec.structs.replace(
            settings,
            on_gap=gap,
            buffer=0 if is_exact else settings.buffer,
            max_hold=None if gap == "wait" else settings.max_hold,
        )
    return msgspec.structs.replace(spec, settings=settings)


def _measure(records: list[Record]) -> Figures:
    counts = Counter(record.kind for record in records)
    published = {r.event: r.at for r in records if r.kind is Kind.PUBLISHED}
    delivered = [r for r in records if r.kind is Kind.DELIVERED]
    waits = [1000 * (r.at - published[r.event]) for r in delivered if r.event in published]
    entries = [len(r.stamp) for r in delivered if r.stamp]
    return {
        "published": float(counts[Kind.PUBLISHED]),
        "delivered": float(len(delivered)),
        "tagged": float(sum(not r.in_order for r in delivered)),
        "dropped": float(counts[Kind.DROPPED]),
        "lost": float(counts[Kind.LOST]),
        "held": float(counts[Kind.HELD]),
        "latency_ms_mean": sum(waits) / len(waits) if waits else 0.0,
        "latency_ms_max": max(waits, default=0.0),
        "stamp_entries_mean": sum(entries) / len(entries) if entries else 0.0,
    }


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="fuzz",
            says="a drawn world of publishers, subscribers and a bad network",
            parameters={
                "loss": Parameter("share of packets and notifications lost until the world heals", most=0.9),
                "duplication": Parameter("share that arrives twice", most=0.9),
                "on_gap": Parameter("what every subscriber does at a gap", ("wait", "tag", "skip", "fail")),
                "plan": Parameter("how managers are chained", ("line", "forest")),
            },
            figures=FUZZ_FIGURES,
            run=run_fuzz_world,
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """The experiment of this name, or ConfigError with the names there are."""
    from unisono.lab.reproduce.experiments import REPRODUCTIONS  # it is written in terms of this module

    known = EXPERIMENTS | REPRODUCTIONS
    if name not in known:
        raise ConfigError(f"experiment '{name}' is not known; there are: {', '.join(known)}")
    return known[name]
