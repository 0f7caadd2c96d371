"""The sweep: every interleaving of hundreds of tiny worlds, in every mode, on every plan.

All 84 patterns in which three subscribers can hold three topics, and seeded random patterns of four topics; a
subscriber that asks for what was lost; and the links on their own. A configuration is one pattern with one choice
of everything: events, plan, threshold, mode of publishing, mode of delivery. Then worlds that move (`moving`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import combinations, combinations_with_replacement
from time import perf_counter
from typing import TypeAlias

import msgspec

from unisono.engines.topic_managers.settings import ManagerSettings, Mode, OnGap, SubscriberSettings
from unisono.lab.moving import WALK_STEPS, WALK_STEPS_QUICK, moving_worlds
from unisono.lab.moving_together import PART, WALKS, WHOLE, worlds_together
from unisono.lab.moving_together import WALK_STEPS as WALK_STEPS_EACH
from unisono.sim.explore import (
    LIVENESS,
    NO_FAULTS,
    SAFETY,
    Explored,
    Explorer,
    Faults,
    Planned,
    TopicManagerScenario,
    forest,
    line,
)
from unisono.sim.explore.moving_ends import explore_moving
from unisono.sim.explore.packets import LinkScenario, explore_links
from unisono.sim.explore.search import Step
from unisono.sim.explore.walks import random_moving, walk

RANDOM_PATTERNS = 500
RANDOM_PATTERNS_QUICK = 25
SEED = 7

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being explored, how much of it is done, and of how much."""

PLANS = {"line": line, "forest": forest}

# What is held longer than anything in the world takes expires only when the explorer lets it.
_HOLD_S = 1000.0

DELIVERIES: dict[str, SubscriberSettings] = {  # how subscribers deliver
    "exact": SubscriberSettings(),
    "tag": SubscriberSettings(on_gap="tag"),
    "tag, upward stamps": SubscriberSettings(on_gap="tag", stamps="upward"),
    "buffer 1": SubscriberSettings(on_gap="tag", buffer=1),
    "buffer 2": SubscriberSettings(on_gap="tag", buffer=2),
    "max_hold": SubscriberSettings(on_gap="tag", max_hold=_HOLD_S),
    "buffer 1, max_hold": SubscriberSettings(on_gap="tag", buffer=1, max_hold=_HOLD_S),
    "buffer 2, max_hold": SubscriberSettings(on_gap="tag", buffer=2, max_hold=_HOLD_S),
}


# What the event notification service may do besides bringing notifications in any order.
HARM = {
    "exact": Faults(doubles=1),
    "tag": Faults(losses=1, doubles=1),
    "buffer 1": Faults(losses=1, doubles=1),
}


class CounterExample(msgspec.Struct, frozen=True):
    """The first broken promise that a sweep met: where, which, why, and how it came about."""

    configuration: str
    promise: str
    explanation: str
    trace: tuple[Step, ...]


class Row(msgspec.Struct, frozen=True):
    """One line of the breakdown."""

    name: str
    configurations: int
    states: int
    violations: int
    stuck: int
    cut: int = (
        0  # configurations that were too large: searched up to the bound, the walks must do for the rest
    )


class Exploration(msgspec.Struct, frozen=True):
    """What a sweep found. States that several configurations share are counted once."""

    configurations: int
    states: int
    violations: int
    stuck: int
    seconds: float
    rows: tuple[Row, ...]
    first: CounterExample | None

    @property
    def held(self) -> bool:
        """Whether every promise was kept everywhere."""
        return not self.violations and not self.stuck

    @property
    def digest(self) -> str:
        """Equal for sweeps that found the same, however long they took."""
        return blake2b(msgspec.json.encode((self.rows, self.first)), digest_size=16).hexdigest()


Pattern: TypeAlias = tuple[frozenset[str], ...]
"""The topics of each subscriber."""


def all_patterns(topics: tuple[str, ...], subscribers: int) -> list[Pattern]:
    """Every way in which so many subscribers can hold these topics, whoever is who."""
    held = [frozenset(c) for size in range(1, len(topics) + 1) for c in combinations(topics, size)]
    return list(combinations_with_replacement(held, subscribers))


def random_patterns(seed: int, count: int) -> Iterator[tuple[Pattern, tuple[str, ...]]]:
    """Patterns of four topics with three to five subscribers, and the topics of three or four events."""
    rng = random.Random(seed)
    topics = ("T1", "T2", "T3", "T4")
    held = [frozenset(c) for size in range(2, 5) for c in combinations(topics, size)]
    for _ in range(count):
        pattern = tuple(rng.choice(held) for _ in range(rng.randint(3, 5)))
        events = topics if rng.random() < 0.5 else tuple(rng.choices(topics, k=3))
        yield pattern, events


def explore(
    *,
    quick: bool = False,
    patterns: int | None = None,
    seed: int = SEED,
    progress: Progress | None = None,
) -> Exploration:
    """Explore every configuration of the sweep, or a quick subset of it."""
    if patterns is None:
        patterns = RANDOM_PATTERNS_QUICK if quick else RANDOM_PATTERNS
    sweep = Sweep(progress or (lambda what, done, of: None))
    started = perf_counter()
    sweep.three_topics(quick=quick)
    sweep.four_topics(seed, patterns)
    sweep.repair(quick=quick)
    sweep.links(quick=quick)
    sweep.moving(quick=quick)
    sweep.together(quick=quick)
    sweep.walks(WALK_STEPS_QUICK if quick else WALK_STEPS)
    return sweep.result(perf_counter() - started)


@dataclass
class Sweep:
    """What is explored, row by row, and the first broken promise."""

    progress: Progress
    explorer: Explorer = field(default_factory=Explorer)
    rows: dict[str, list[int]] = field(default_factory=dict)
    first: CounterExample | None = None

    def three_topics(self, *, quick: bool) -> None:
        topics = ("T1", "T2", "T3")
        patterns = all_patterns(topics, 3)
        events = [topics] if quick else [topics, *((*topics, twice) for twice in topics)]
        modes: tuple[Mode, ...] = ("forward", "return")
        for done, pattern in enumerate(patterns):
            self.progress("3 topics, 3 subscribers", done, len(patterns))
            for published in events:
                for mode in modes if len(published) == 3 else modes[:1]:
                    for delivery in DELIVERIES:
                        self.configurations(topics, pattern, published, mode, delivery)
            for delivery, faults in HARM.items():
                self.configurations(topics, pattern, topics, "forward", delivery, faults)
        self.progress("3 topics, 3 subscribers", len(patterns), len(patterns))

    def four_topics(self, seed: int, count: int) -> None:
        for done, (pattern, published) in enumerate(random_patterns(seed, count)):
            self.progress("4 topics, random", done, count)
            for delivery in DELIVERIES:
                self.configurations(("T1", "T2", "T3", "T4"), pattern, published, "forward", delivery)
        self.progress("4 topics, random", count, count)

    def repair(self, *, quick: bool) -> None:
        """Lost notifications asked for again, in one search of the whole world: subscribers talk back here."""
        topics = ("T1", "T2")
        events = (Planned("a", "T1"), Planned("b", "T2"), Planned("c", "T2"))
        harms = [Faults(losses=1, doubles=1), Faults(losses=2)]
        harms += [] if quick else [Faults(losses=1, ticks=1)]
        gaps: tuple[OnGap, ...] = ("wait", "tag", "skip")
        modes: tuple[Mode, ...] = ("forward", "return")
        todo = [(g, r, m, f) for g in gaps for r in (1, 4) for m in modes for f in harms]
        for done, (on_gap, ring, mode, faults) in enumerate(todo):
            self.progress("repair", done, len(todo))
            scenario = TopicManagerScenario(
                topics,
                {"s1": frozenset(topics)},
                events,
                threshold=1,
                managers=ManagerSettings(ring_events=ring, mode=mode),
                subscribers=SubscriberSettings(on_gap=on_gap, repair=True),
                faults=faults,
            )
            self.add(
                f"repair; {on_gap}; {mode}",
                f"{on_gap}, ring {ring}, {faults}",
                self.explorer.explore(scenario),
            )
        self.progress("repair", len(todo), len(todo))

    def links(self, *, quick: bool) -> None:
        scenarios = [LinkScenario(left=2, right=0), LinkScenario(left=2, right=1, doubles=0)]
        if not quick:
            scenarios += [LinkScenario(left=3, right=0, losses=2), LinkScenario(left=2, right=1)]
        for done, scenario in enumerate(scenarios):
            self.progress("links", done, len(scenarios))
            self.add("links", str(scenario), explore_links(scenario))
        self.progress("links", len(scenarios), len(scenarios))

    def moving(self, *, quick: bool) -> None:
        worlds = list(moving_worlds(quick=quick))
        for done, (row, name, world, bound) in enumerate(worlds):
            self.progress("moving", done, len(worlds))
            self.add(row, f"{row}; {name}", explore_moving(world, bound, cut=True))
        self.progress("moving", len(worlds), len(worlds))

    def together(self, *, quick: bool) -> None:
        """Worlds in which several things happen at once; those that are not searched to their end are walked through."""
        worlds = [one for one in worlds_together() if one.quick or not quick]
        for done, (row, name, world, whole, _) in enumerate(worlds):
            self.progress("together", done, len(worlds))
            self.add(row, f"{row}; {name}", explore_moving(world, WHOLE if whole else PART, cut=True))
            for seed in range(0 if whole else WALKS):
                walked = walk(world, seed, WALK_STEPS_EACH)
                explored = Explored(walked.steps, 1, walked.findings)
                self.add(f"{row}, walks (each state is a step)", f"{row}; {name}; seed {seed}", explored)
        self.progress("together", len(worlds), len(worlds))

    def walks(self, enough: int) -> None:
        """Random walks through random worlds."""
        steps = seed = 0
        while steps < enough:
            self.progress("walks", steps, enough)
            walked = walk(random_moving(seed), seed)
            self.add(
                "walks (each state is a step)", f"seed {seed}", Explored(walked.steps, 1, walked.findings)
            )
            steps, seed = steps + walked.steps, seed + 1
        self.progress("walks", enough, enough)

    def configurations(
        self,
        topics: tuple[str, ...],
        pattern: Pattern,
        published: tuple[str, ...],
        mode: Mode,
        delivery: str,
        faults: Faults = NO_FAULTS,
    ) -> None:
        """One pattern on both plans and at both thresholds."""
        subscribers = DELIVERIES[delivery]
        for threshold in (1, 2):
            for plan_name, plan in PLANS.items():
                scenario = TopicManagerScenario(
                    topics,
                    {f"s{i + 1}": held for i, held in enumerate(pattern)},
                    tuple(Planned("abcdefgh"[i], topic) for i, topic in enumerate(published)),
                    threshold=threshold,
                    plan=plan,
                    managers=ManagerSettings(stamps=subscribers.stamps, mode=mode),
                    subscribers=subscribers,
                    faults=faults,
                    promises=(*SAFETY, *LIVENESS, *(("acyclic_order",) if threshold == 1 else ())),
                )
                harm = "; lost and doubled" if faults.losses else "; doubled" if faults.doubles else ""
                name = f"{delivery}; {plan_name}; threshold {threshold}; {mode}{harm}"
                holdings = " ".join("+".join(sorted(held)) for held in pattern)
                self.add(name, f"{name}; {holdings}; {published}", self.explorer.explore(scenario))

    def add(self, row: str, configuration: str, explored: Explored) -> None:
        """Count one configuration."""
        counts = self.rows.setdefault(row, [0, 0, 0, 0, 0])
        counts[0] += 1
        counts[1] += explored.states
        counts[2] += explored.violations
        counts[3] += explored.stuck
        counts[4] += not explored.whole
        if explored.findings and self.first is None:
            finding = explored.findings[0]
            self.first = CounterExample(configuration, finding.promise, finding.explanation, finding.trace)

    def result(self, seconds: float) -> Exploration:
        """What was found."""
        rows = tuple(Row(name, *counts) for name, counts in self.rows.items())
        return Exploration(
            configurations=sum(row.configurations for row in rows),
            states=sum(row.states for row in rows),
            violations=sum(row.violations for row in rows),
            stuck=sum(row.stuck for row in rows),
            seconds=seconds,
            rows=rows,
            first=self.first,
        )
