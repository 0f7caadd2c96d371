"""Runs a scenario in the exact simulator and sums up what happened: figures, and a verdict on every promise."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from time import perf_counter
from typing import TypeAlias

import msgspec

from unisono.engines.topic_managers.settings import SubscriberSettings
from unisono.history import Kind, Outcome, Record, judge
from unisono.history.checkers import PROMISES
from unisono.history.history import History
from unisono.history.verdicts import Verdict, unknown
from unisono.lab.scenarios.figures import Figures, GroupFigures, Latency, digest_of
from unisono.lab.scenarios.scenario import Scenario
from unisono.lab.scenarios.worlds import make_world
from unisono.sim.moving import simulation as moving
from unisono.sim.moving.trial import misplaced
from unisono.sim.moving.world import MovingWorld
from unisono.sim.simulation import Simulation
from unisono.sim.world import World

STEPS_MAX = 1_000_000_000  # the horizon ends a run that does not come to rest
HORIZON_S = 600.0  # after all faults: publishers that are overloaded have so long to catch up

Tell: TypeAlias = Callable[[float], object]

_FACTS = ("crashes", "pauses", "partitions", "takeovers", "epochs", "failed subscriptions", "leases run out")
_ABOUT_ALL = (Kind.PUBLISHED, Kind.SEQUENCED, Kind.HEALED)


class Summary(msgspec.Struct, frozen=True):
    """What a scenario came to; the same file and seed give the same, but for the seconds it took."""

    scenario: str
    seed: int
    guarantee: str
    shape: str
    sequencer: str
    topics: int
    subscribers: int
    publishers: int
    published: int
    delivered: int
    tagged: int
    dropped: int
    lost: int  # declared lost
    held: int  # still held back at the end
    latency_ms: Latency
    groups: tuple[GroupFigures, ...]  # the same figures for each [[subscribers]]
    verdicts: dict[str, str]
    explanations: dict[str, str]  # of every verdict but "held"
    problems: tuple[str, ...]  # what went wrong beside the promises: a world that does not come to rest
    digest: str  # of the whole history
    trace_digest: str | None  # of the trace, if one was asked for
    happened: dict[str, int]  # crashes, takeovers, epochs and the like, with nodes
    steps: int
    simulated_seconds: float
    wall_seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems and Outcome.VIOLATED not in self.verdicts.values()


class Run(msgspec.Struct, frozen=True):
    """A run: its summary, its history and, if asked for, its trace."""

    summary: Summary
    records: list[Record]
    lines: list[str]


class _Ended(msgspec.Struct, frozen=True):
    """What both simulators tell about an ending."""

    records: list[Record]
    problems: tuple[str, ...]
    steps: int
    lines: list[str]
    now: float
    happened: dict[str, int] = {}


def run_scenario(scenario: Scenario, tell: Tell | None = None, *, checks: bool = False) -> Run:
    """Simulate, judge and measure; `tell` is called with the simulated time now and then.

    `checks` has every engine look at its invariants after every step, which takes twice the time.
    """
    began = perf_counter()
    world = make_world(scenario)
    traces = "trace" in scenario.record
    if isinstance(world, MovingWorld):
        ended = _move(world, traces, checks, tell)
    else:
        ended = _stand(world, traces, checks, tell)
    figures = Figures(ended.records)
    everybody = figures.of_all()
    verdicts, explanations = _judge(scenario, ended.records)
    summary = Summary(
        scenario=scenario.name,
        seed=scenario.seed,
        guarantee=scenario.guarantee,
        shape=scenario.shape,
        sequencer=scenario.sequencer,
        topics=len(scenario.topics),
        subscribers=scenario.subscribers,
        publishers=len(scenario.publishers),
        published=len(figures.published),
        delivered=everybody.delivered,
        tagged=everybody.tagged,
        dropped=everybody.dropped,
        lost=everybody.lost,
        held=everybody.held,
        latency_ms=everybody.latency_ms,
        groups=tuple(figures.of_group(group) for group in scenario.groups),
        verdicts=verdicts,
        explanations=explanations,
        problems=ended.problems,
        digest=digest_of(ended.records),
        trace_digest=sha256("\n".join(ended.lines).encode()).hexdigest() if traces else None,
        happened=ended.happened,
        steps=ended.steps,
        simulated_seconds=round(ended.now, 6),
        wall_seconds=round(perf_counter() - began, 3),
    )
    return Run(summary, ended.records, ended.lines)


def _stand(world: World, traces: bool, checks: bool, tell: Tell | None) -> _Ended:
    simulation = Simulation(world, traces=traces, steps_max=STEPS_MAX, horizon_s=HORIZON_S, checks=checks)
    ending = simulation.run(tell)
    problems = [*ending.faults]
    if not ending.faults:
        problems += (
            []
            if ending.is_quiet
            else [f"the world has not come to rest, {simulation.kernel.now:.0f} seconds after it began"]
        )
        waiting = ending.unacknowledged
        problems += [f"{waiting} events were never acknowledged to their publishers"] if waiting else []
    return _Ended(ending.records, tuple(problems), ending.steps, ending.lines, simulation.kernel.now)


def _move(world: MovingWorld, traces: bool, checks: bool, tell: Tell | None) -> _Ended:
    simulation = moving.Simulation(
        world, traces=traces, steps_max=STEPS_MAX, horizon_s=HORIZON_S, checks=checks
    )
    ending = simulation.run(tell)
    problems = [*ending.faults, *misplaced(ending)]
    if not ending.faults:
        problems += [f"the world has not come to rest: {reason}" for reason in ending.restless]
        problems += [] if ending.restless else ending.missed
    happened = {fact: ending.facts[fact] for fact in _FACTS}
    now = simulation.kernel.now
    return _Ended(ending.records, tuple(problems), ending.steps, ending.lines, now, happened)


# Verdicts.


def _judge(scenario: Scenario, records: list[Record]) -> tuple[dict[str, str], dict[str, str]]:
    """Every promise, judged over the subscribers that it was made to."""
    is_safe = scenario.shape != "nodes" and not scenario.is_lossy
    everybody = _names(scenario, lambda settings: True)
    owed = _names(scenario, lambda settings: settings.repair or is_safe)
    bounded = _names(scenario, lambda settings: settings.max_hold is not None)
    tagging = _names(scenario, lambda settings: settings.on_gap in ("tag", "skip"))
    whole = History(records)
    verdicts: list[Verdict] = []
    for promise in PROMISES:
        to, nobody = everybody, ""
        if promise in ("nothing_lost", "no_endless_wait"):
            to = owed | bounded if promise == "no_endless_wait" else owed
            nobody = "nobody was promised that: no subscriber asks again for what is lost"
        elif promise == "tags" and scenario.shape == "nodes":
            to, nobody = tagging, "no subscriber was to tag or skip what comes late"
        if not to:
            verdicts.append(unknown(promise, nobody))
        elif promise == "tags" and scenario.shape == "nodes":
            # An epoch may be a reason for a tag that no record shows.
            verdicts += judge([r for r in _only(records, to) if r.in_order], [promise])
        else:
            verdicts += judge(whole if to == everybody else _only(records, to), [promise])
    return (
        {verdict.promise: str(verdict.outcome) for verdict in verdicts},
        {verdict.promise: verdict.explanation for verdict in verdicts if verdict.outcome is not Outcome.HELD},
    )


def _names(scenario: Scenario, fits: Callable[[SubscriberSettings], bool]) -> set[str]:
    return {name for group in scenario.groups if fits(group.settings) for name in group.names}


def _only(records: list[Record], subscribers: set[str]) -> list[Record]:
    """The history without the subscribers that are promised less; each life of a process counts."""
    return [r for r in records if r.kind in _ABOUT_ALL or r.process.partition(".")[0] in subscribers]
