"""The tiny worlds in which paper 001's statements are tried, and the paper's rules as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from unisono.engines.topic_managers.settings import ManagerSettings
from unisono.lab.explore import SEED, Pattern, all_patterns, random_patterns
from unisono.lab.reproduce.lemma_trials import Tiny
from unisono.sim.explore import Planned, TopicManagerScenario, forest
from unisono.sim.explore.moving import MovingScenario
from unisono.testing.planted_bugs import engines
from unisono.testing.planted_bugs import moving_members as members
from unisono.testing.planted_bugs import moving_nodes as nodes
from unisono.testing.planted_bugs.moving_worlds import TWO_NODES, moving

Rules: TypeAlias = dict[str, object]
"""What a world has in place of our rules."""

TOPICS = ("T1", "T2", "T3")

# Subscriptions that do not change.
RETURNED = ManagerSettings(mode="return")  # the publisher gets the stamp, and publishes
WRITTEN: Rules = {
    "plan": engines.direct,
    "managers": RETURNED,
    "make_subscriber": engines.IsNextAsWritten,
    "invariants": False,
}
READ: Rules = {"plan": engines.direct, "managers": RETURNED, "invariants": False}
"""The same, with isNext about topics that the subscriber holds."""
LINE: Rules = {}
FOREST: Rules = {"plan": forest}

# Subscriptions that change.
JOINS: Rules = {
    "make_member": members.TellsJoins,
    "make_subscriber": members.UpdateOfAllTopics,
    "make_node": nodes.with_manager(nodes.NumbersJoins),
    "make_control": nodes.direct_joins,
    "invariants": False,
}
LEAVES: Rules = {
    "make_member": members.TellsLeaves,
    "make_node": nodes.with_manager(nodes.ShrinksGroups),
    "invariants": False,
}
OLD_LEAVES: Rules = {**LEAVES, "make_node": nodes.with_manager(nodes.BelievesOldLeaves)}
OURS: Rules = {}

# s holds one of two topics, and adds the other, or one of three.
ADD_UPPER = moving(TWO_NODES, "a:T1", members={"o": "T1 T2", "s": "T2"}, scripts={"s": "+T1"})
ADD_LOWER = moving(TWO_NODES, "b:T2", members={"o": "T1 T2", "s": "T1"}, scripts={"s": "+T2"})
ADD_AND_OLD = moving(TWO_NODES, "b:T2", members={"o": "T1 T2", "s": "T2"}, scripts={"s": "+T1"})
ADD_THIRD = moving("T1:N1 T2:N1 T3:N1", "a:T1", members={"o": "T1 T3", "s": "T2"}, scripts={"s": "+T1"})
ADDING = (ADD_UPPER, ADD_LOWER, ADD_AND_OLD, ADD_THIRD)

ADD_BOTH = moving(TWO_NODES, "a:T1 b:T2", members={"o": "T1 T2", "s": "T2"}, scripts={"s": "+T1"})
ADD_TWICE = moving(TWO_NODES, "a:T1 c:T1", members={"o": "T1 T2", "s": "T2"}, scripts={"s": "+T1"})
ADDING_MORE = (ADD_BOTH, ADD_TWICE)

# x leaves T2 while s adds T1: T1 and T2 have one subscriber in common then.
ADD_AND_LEAVE = moving(
    "T1:N1 T2:N1",
    "a:T1",
    observers={"o": "T1 T2"},
    members={"s": "", "x": "T1 T2"},
    scripts={"s": "+T1", "x": "-T2"},
)

# x adds T3 while s adds T1.
ADD_AND_ADD = moving(
    "T1:N1 T2:N1 T3:N1",
    "a:T1",
    observers={"o": "T1 T2 T3"},
    members={"s": "T2", "x": "T1"},
    scripts={"s": "+T1", "x": "+T3"},
)


def twice_on_a_topic() -> tuple[Tiny, ...]:
    """All ways in which three subscribers hold three topics; an event on each, and one more on one of them."""
    return tuple(
        _static(TOPICS, pattern, (*TOPICS, twice)) for pattern in all_patterns(TOPICS, 3) for twice in TOPICS
    )


def once_on_a_topic() -> tuple[Tiny, ...]:
    """The same ways; an event on each topic."""
    return tuple(_static(TOPICS, pattern, TOPICS) for pattern in all_patterns(TOPICS, 3))


def four_topics(count: int) -> tuple[Tiny, ...]:
    """Drawn ways in which three to five subscribers hold four topics."""
    return tuple(
        _static((*TOPICS, "T4"), pattern, events) for pattern, events in random_patterns(SEED, count)
    )


def _static(topics: tuple[str, ...], pattern: Pattern, published: tuple[str, ...]) -> TopicManagerScenario:
    held = {f"s{i + 1}": topics for i, topics in enumerate(pattern)}
    events = tuple(Planned("abcdefgh"[i], topic) for i, topic in enumerate(published))
    return TopicManagerScenario(topics, held, events)


def described(world: Tiny) -> str:
    """Who holds what, who changes what, what is published."""
    return "; ".join((", ".join(_holders(world)), ", ".join(f"{e.name} on {e.topic}" for e in world.events)))


def _holders(world: Tiny) -> Iterator[str]:
    if isinstance(world, MovingScenario):
        for name, held in world.held.items():
            changes = [
                f" {'adds' if change == 'add' else 'drops'} {'+'.join(topics)}"
                for change, topics in world.scripts.get(name, ())
            ]
            yield f"{name} {{{', '.join(sorted(held))}}}{' and'.join(changes)}"
    else:
        for name, held in world.subscriptions.items():
            yield f"{name} {{{', '.join(sorted(held))}}}"
