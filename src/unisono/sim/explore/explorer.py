"""Explore scenarios: every interleaving, every end judged.

Where subscribers influence nobody (`scenario.feedback` is false) two searches are as good as one and far
smaller. First the sequencers alone: every stamp assignment that can come out. Then, for each assignment, each
subscriber alone: everything it can be told. Sequencers never hear of subscribers, and subscribers never hear
of each other; so any assignment can meet any combination of what its subscribers can be told, and nothing else
can happen. Two subscribers contradict each other exactly if one of them can deliver e before f and the other f
before e. The union of all orders can have a cycle exactly if one leads through pairs of different subscribers:
in a shortest cycle no subscriber contributes twice, since its own order would offer a short cut.

What was found once is remembered: sequencers know the subscriptions by the plan only, so most patterns share
their assignments, and most subscribers meet the same arrivals in many patterns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from unisono.model.frames import Stamped
from unisono.sim.explore.arrivals import Outcomes
from unisono.sim.explore.pairs import has_cycle, shortest_cycle
from unisono.sim.explore.scenario import LIVENESS, Scenario, publications
from unisono.sim.explore.search import STATES_MAX, Search, Step
from unisono.sim.explore.story import Finding, Log, judged, published, tell
from unisono.sim.explore.world import World

_TOGETHER = frozenset({"total_notification_order", "acyclic_order", "causal_order"})


class Explored(msgspec.Struct, frozen=True):
    """What exploring one scenario found; states that were known from an earlier one are not counted again."""

    states: int
    ends: int  # runs judged, or stamp assignments where subscribers were explored apart
    findings: tuple[Finding, ...]  # at most one for each promise
    whole: bool = True  # whether every state was visited, or the search was cut at its bound

    @property
    def violations(self) -> int:
        """Promises broken by something that happened."""
        return sum(not finding.is_stuck for finding in self.findings)

    @property
    def stuck(self) -> int:
        """Promises broken by something that never happened."""
        return sum(finding.is_stuck for finding in self.findings)


class Assignment(NamedTuple):
    """The stamps of all events that were announced, and a way to get them."""

    events: tuple[Stamped, ...]
    trace: tuple[Step, ...]
    broken: str


class Explorer:
    """Explores scenarios and remembers what it has seen."""

    def __init__(self, states_max: int = STATES_MAX) -> None:
        self.states_max = states_max
        self._assignments: dict[Hashable, list[Assignment]] = {}
        self._outcomes: dict[Hashable, Outcomes] = {}
        self._alone: dict[Hashable, tuple[str, Log, tuple[Step, ...]] | None] = {}

    def explore(self, scenario: Scenario, *, together: bool | None = None) -> Explored:
        """Every end of a scenario, judged; `together` forces one search of the whole world or forbids it."""
        if scenario.feedback if together is None else together:
            return self._explore_together(scenario)
        return self._explore_apart(scenario)

    # One search.

    def _explore_together(self, scenario: Scenario) -> Explored:
        search = Search(World(scenario, tuple(scenario.subscriptions)), self.states_max)
        found: dict[str, Finding] = {}
        ends = 0
        for end in search.ends():
            ends += 1
            finding = end.judge()
            if finding is not None and finding.promise not in found:
                found[finding.promise] = msgspec.structs.replace(finding, trace=search.trace(end))
        return Explored(search.states, ends, tuple(found.values()))

    # Two searches.

    def assignments(self, scenario: Scenario) -> tuple[list[Assignment], int]:
        """Every reachable stamp assignment, and how many new states that took."""
        key = scenario.stamps_key()
        if key in self._assignments:
            return self._assignments[key], 0
        search = Search(World(scenario, ()), self.states_max)
        found: dict[Hashable, Assignment] = {}
        for end in search.ends():
            stamped = tuple(end.stamped)
            same = (_same(stamped), end.broken)
            if same not in found:
                found[same] = Assignment(stamped, search.trace(end), end.broken)
        self._assignments[key] = list(found.values())
        return self._assignments[key], search.states

    def outcomes(
        self, scenario: Scenario, name: str, assignment: Assignment
    ) -> tuple[Outcomes, Hashable, int]:
        """Everything a subscriber can be told under an assignment, and how many new states that took."""
        mine = [e for e in assignment.events if e.topic in scenario.subscriptions[name]]
        faults, reads = scenario.faults, scenario.reads(name)
        key = (scenario.subscriber_key(name), _same(mine, reads), faults.losses, faults.doubles)
        if key in self._outcomes:
            return self._outcomes[key], key, 0
        outcomes = Outcomes(
            scenario.subscriber(name),
            mine,
            losses=faults.losses,
            doubles=faults.doubles,
            checked=scenario.invariants,
        )
        self._outcomes[key] = outcomes
        return outcomes, key, outcomes.states

    def _explore_apart(self, scenario: Scenario) -> Explored:
        assignments, states = self.assignments(scenario)
        found: dict[str, Finding] = {}
        for assignment in assignments:
            told: dict[str, Outcomes] = {}
            if assignment.broken:
                found.setdefault("invariants", Finding("invariants", assignment.broken, assignment.trace))
            for name in scenario.subscriptions:
                told[name], key, new = self.outcomes(scenario, name, assignment)
                states += new
                alone = self._judge_alone(scenario, name, assignment, told[name], key)
                if alone is not None:
                    found.setdefault(alone.promise, alone)
            for finding in _judge_together(scenario, assignment, told):
                found.setdefault(finding.promise, finding)
        return Explored(states, len(assignments), tuple(found.values()))

    def _judge_alone(
        self, scenario: Scenario, name: str, assignment: Assignment, outcomes: Outcomes, key: Hashable
    ) -> Finding | None:
        """The promises to one subscriber; the same outcomes are judged once, whoever they belong to."""
        promises = [p for p in scenario.promises if p not in _TOGETHER]
        if scenario.faults.losses:
            promises = [p for p in promises if p not in LIVENESS]
        key = (key, tuple(promises))
        if key not in self._alone:
            self._alone[key] = None
            if any(broken for _, broken in outcomes.runs) or _judge_runs(
                scenario, name, assignment, outcomes, promises
            ):
                self._alone[key] = next(
                    (broken, log, trace)
                    for (log, broken), trace in outcomes.runs.items()
                    if broken or _judge_logs(scenario, assignment, {name: log}, promises)
                )
        bad = self._alone[key]
        if bad is None:
            return None
        broken, log, trace = bad
        whole = assignment.trace + tuple((name, *step) for step in trace)
        if broken:
            return Finding("invariants", f"{name}: {broken}", whole)
        found = _judge_logs(scenario, assignment, {name: log}, promises)
        assert found is not None
        return msgspec.structs.replace(found, trace=whole)


def _same(events: Iterable[Stamped], reads: frozenset[str] | None = None) -> Hashable:
    """Equal for events that a subscriber which reads only these entries cannot tell apart."""
    return tuple(
        (e.publication.id, tuple(sorted(i for i in e.entries.items() if reads is None or i[0] in reads)))
        for e in events
    )


def _judge_logs(
    scenario: Scenario, assignment: Assignment, logs: Mapping[str, Log], promises: list[str]
) -> Finding | None:
    subscribers = {name: scenario.subscriptions[name] for name in logs}
    whole = {**_published(scenario), **logs}
    return judged(tell(scenario, assignment.events, whole, subscribers=subscribers), promises)


def _judge_runs(
    scenario: Scenario, name: str, assignment: Assignment, outcomes: Outcomes, promises: list[str]
) -> Finding | None:
    """All runs of one subscriber in one history, each as a subscriber of its own: far cheaper than one by one."""
    logs = {f"{name}@{i}": log for i, (log, _) in enumerate(outcomes.runs)}
    subscribers = dict.fromkeys(logs, scenario.subscriptions[name])
    whole = _published(scenario) | logs
    return judged(tell(scenario, assignment.events, whole, subscribers=subscribers), promises)


def _published(scenario: Scenario) -> dict[str, Log]:
    logs: dict[str, Log] = {}
    for publication in publications(scenario.events).values():
        logs[publication.publisher] = (*logs.get(publication.publisher, ()), published(publication))
    return logs


def _judge_together(
    scenario: Scenario, assignment: Assignment, told: Mapping[str, Outcomes]
) -> Iterator[Finding]:
    """Whether some combination of what subscribers can be told contradicts itself."""
    promises = [p for p in scenario.promises if p in _TOGETHER]
    if not promises or not has_cycle({pair for outcomes in told.values() for pair in outcomes.pairs}):
        return
    longest = len(told) if "acyclic_order" in promises else 2
    cycle = shortest_cycle({name: outcomes.pairs for name, outcomes in told.items()}, longest)
    if cycle:
        logs = {name: told[name].pairs[pair] for name, pair in cycle.items()}
        finding = _judge_logs(scenario, assignment, logs, promises)
        assert finding is not None, "a contradiction that the judges do not see"
        yield msgspec.structs.replace(finding, trace=assignment.trace)
