"""How a statement of paper 001 is tried in one world: every interleaving, and the shortest way to break it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from unisono.engines.topic_managers.node import ManagerNode
from unisono.history import Kind
from unisono.model.frames import Stamped
from unisono.sim.explore import Explorer, TopicManagerScenario
from unisono.sim.explore.moving import MovingScenario
from unisono.sim.explore.moving_ends import explore_moving
from unisono.sim.explore.moving_world import MovingWorld
from unisono.sim.explore.search import Search, Step

Tiny: TypeAlias = TopicManagerScenario | MovingScenario


class Seen(msgspec.Struct, frozen=True):
    """What one world showed."""

    states: int
    whole: bool  # every state was visited; otherwise the nearest ones
    broken: str = ""  # the contradiction in words
    trace: tuple[Step, ...] = ()


Trial: TypeAlias = Callable[[Tiny, Explorer, int], Seen]
"""Tries a statement in a world of at most so many states; the explorer remembers what worlds share."""


def promise(name: str) -> Trial:
    """The statement is one of the promises that the explorer judges; engines that deny themselves break it too."""

    def tried(world: Tiny, explorer: Explorer, states_max: int) -> Seen:
        only = world.but(promises=(name,))
        if isinstance(only, MovingScenario):
            explored = explore_moving(only, states_max, cut=True)
        else:
            explored = explorer.explore(only)
        finding = next((f for f in explored.findings if f.promise in (name, "invariants")), None)
        if finding is None:
            return Seen(explored.states, explored.whole)
        return Seen(explored.states, explored.whole, finding.explanation, finding.trace)

    return tried


def stamps_grow(world: Tiny, explorer: Explorer, states_max: int) -> Seen:
    """Of two events of a topic, the stamp of the one with the smaller number is nowhere larger."""
    assert isinstance(world, TopicManagerScenario)
    assignments, states = explorer.assignments(world)
    for assignment in assignments:
        for one in assignment.events:
            for other in assignment.events:
                if one.topic == other.topic and one.number < other.number and not _is_below(one, other):
                    said = (
                        f"{one.publication.id} has {one.entries}, the next one of {one.topic} {other.entries}"
                    )
                    return Seen(states, True, said, assignment.trace)
    return Seen(states, True)


def _is_below(one: Stamped, other: Stamped) -> bool:
    return all(number <= other.entries[x] for x, number in one.entries.items())


@dataclass(frozen=True)
class Joining:
    """What is remembered of a subscribe while it is under way, and when it has returned."""

    groups: Mapping[str, frozenset[str]]  # of every topic, when it was called
    after: Mapping[str, frozenset[str]] | None = None  # the same, when it returned

    def key(self) -> Hashable:
        """Equal for equal memories."""
        return (_plain(self.groups), None if self.after is None else _plain(self.after))


def _plain(groups: Mapping[str, frozenset[str]]) -> Hashable:
    return tuple((topic, tuple(sorted(group))) for topic, group in sorted(groups.items()))


class WatchedWorld(MovingWorld):
    """A world that moves and remembers what the lemmas speak of: what came after a subscribe, and groups around it."""

    joining: Mapping[str, Joining] = {}
    after_call: frozenset[str] = frozenset()  # publishers whose request came after somebody called subscribe
    after_return: frozenset[str] = frozenset()  # after it had returned
    judge: Callable[[WatchedWorld], str] | None = None  # what it says at an end, or before it

    def steps(self) -> list[Step]:
        """Nothing more once the statement is broken: that makes the way to it the shortest one."""
        return [] if self.judge is not None and self.judge(self) else super().steps()

    def after(self, step: Step) -> WatchedWorld:
        """The world after a step, watched as well."""
        twin = super().after(step)
        assert isinstance(twin, WatchedWorld)
        return twin

    def key(self) -> Hashable:
        """With what is remembered."""
        joining = tuple((name, one.key()) for name, one in sorted(self.joining.items()))
        return (super().key(), joining, self.after_call, self.after_return)

    def take(self, step: Step) -> None:
        """Remember, and go on."""
        if step[0] == "change" and self.scripts[step[1]][0][0] == "add":
            self.joining = {**self.joining, step[1]: Joining(self.groups())}
        if step[0] == "receive" and step[1] in self._publishers():
            if self.joining:
                self.after_call |= {step[1]}
            if any(one.after is not None for one in self.joining.values()):
                self.after_return |= {step[1]}
        super().take(step)
        for name, one in self.joining.items():
            if one.after is None and any(e.kind is Kind.SUBSCRIBED for e in self.logs.get(name, ())):
                self.joining = {**self.joining, name: Joining(one.groups, self.groups())}

    def _publishers(self) -> set[str]:
        return {publication.publisher for publication in self.publications.values()}

    def groups(self) -> dict[str, frozenset[str]]:
        """The sequencing group of each topic, as its manager has it now."""
        nodes = [engine for engine in self.engines.values() if isinstance(engine, ManagerNode)]
        return {topic: manager.group for node in nodes for topic, manager in node.managers.items()}


def watched(judge: Callable[[WatchedWorld], str], *, at_once: bool = False) -> Trial:
    """The statement is about what is remembered: `judge` says how an end contradicts it; `at_once`: or any state."""

    def tried(world: Tiny, explorer: Explorer, states_max: int) -> Seen:
        assert isinstance(world, MovingScenario)
        start = WatchedWorld(world)
        start.judge = judge if at_once else None
        search = Search(start, states_max, cut=True)
        for end in search.ends():
            if broken := end.broken or judge(end):
                return Seen(search.states, search.whole, broken, search.trace(end))
        return Seen(search.states, search.whole)

    return tried


def hears_all_after_call(end: WatchedWorld) -> str:
    """Lemma 4 as it is stated: events published after subscribe was called."""
    return _unheard(end, end.after_call, "was called")


def hears_all_after_return(end: WatchedWorld) -> str:
    """Lemma 4 as its proof has it: events published after subscribe has returned."""
    return _unheard(end, end.after_return, "had returned")


def _unheard(end: WatchedWorld, publishers: frozenset[str], since: str) -> str:
    world = end.settled()
    for name in end.joining:
        new = {topic for _, topics in end.scenario.scripts[name] for topic in topics}
        heard = {entry.event for entry in world.logs.get(name, ()) if entry.kind is Kind.DELIVERED}
        for publication in end.publications.values():
            owed = publication.topic in new and publication.publisher in publishers
            if owed and publication.id not in heard:
                return f"{name} never notifies {publication.id}, published on {publication.topic} after subscribe {since}"
    return ""


def groups_only_grow(end: WatchedWorld) -> str:
    """Lemma 5: no group loses a topic between the call of a subscribe and its return."""
    for name, one in end.joining.items():
        for topic, group in one.groups.items():
            after = group if one.after is None else one.after[topic]
            if not group <= after:
                lost = ", ".join(sorted(group - after))
                return f"the group of {topic} has lost {lost} while {name} subscribed"
    return ""


def stamped_by_new_group(end: WatchedWorld) -> str:
    """Lemma 6: what is notified of a new topic has an entry for every topic of its group after the subscription."""
    stamps = {event.publication.id: event for event in end.sequenced()}
    for name, one in end.joining.items():
        if one.after is None:
            continue
        new = {topic for _, topics in end.scenario.scripts[name] for topic in topics}
        for entry in end.logs.get(name, ()):
            if entry.kind is Kind.DELIVERED and entry.topic in new and entry.event in stamps:
                lacks = one.after[entry.topic] - stamps[entry.event].entries.keys()
                if lacks:
                    return f"{name} notifies {entry.event} without an entry for {', '.join(sorted(lacks))}"
    return ""
